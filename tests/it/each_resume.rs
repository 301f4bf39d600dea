//! nagent-each: what a later call takes from earlier ones, and what it refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::each::{EACH, assert_in_order, counting, each, lines, results};
use crate::sandbox::{Sandbox, answer};

/// The text of the only journal in the root, and its path.
fn journal(sandbox: &Sandbox) -> (std::path::PathBuf, String) {
    let folder = sandbox.root().join("each");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Answers with the number of the request.
fn numbered(sandbox: &Sandbox) -> Arc<AtomicUsize> {
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&count);
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(move |_| {
        answer(&format!("answer {}", counted.fetch_add(1, Ordering::SeqCst))).into()
    });
    count
}

#[test]
fn a_journal_of_another_job_is_refused() {
    let sandbox = Sandbox::new().file("rules.txt", "one").file("notes.txt", "my notes");
    counting(&sandbox, 3);
    let call = |args: &[&str]| {
        let args = [&["--lines", "--journal", "j.jsonl", "--resume"], args].concat();
        each(&sandbox, &args).stdin(lines(2)).run()
    };
    let first = call(&["-f", "rules.txt", "about {}"]).assert_exit(0);
    let nothing = "nothing to resume in ";
    assert!(first.stderr.contains(nothing), "{}", first.stderr);
    let again = call(&["-f", "rules.txt", "about {}"]).assert_exit(0);
    assert!(!again.stderr.contains(nothing), "{}", again.stderr);
    let before = sandbox.read("j.jsonl");
    call(&["-f", "rules.txt", "more about {}"]).assert_exit(2).stderr_has(&["another job"]);
    call(&["about {}"]).assert_exit(2).stderr_has(&["another job"]);
    sandbox.write("rules.txt", "two");
    call(&["-f", "rules.txt", "about {}"]).assert_exit(2).stderr_has(&["another job"]);
    assert_eq!(sandbox.read("j.jsonl"), before);
    for flags in [&["--resume"][..], &["--shard", "1/1"]] {
        let args = [&["--lines", "--journal", "notes.txt", "about {}"], flags].concat();
        each(&sandbox, &args)
            .stdin(lines(1))
            .run()
            .assert_exit(2)
            .stderr_has(&["is not a journal"]);
    }
    assert_eq!(sandbox.read("notes.txt"), "my notes");
}

#[test]
fn what_is_damaged_in_a_journal_is_asked_again() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 3);
    let args = ["--lines", "--resume", "-j", "1", "about {}"];
    each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
    let (path, text) = journal(&sandbox);
    let all: Vec<&str> = text.lines().collect();
    // The result of the second is lost in the middle, that of the last at the end, as by a kill.
    std::fs::write(&path, format!("{}\n{}\n\0\0\n{}", all[0], all[1], &all[3][..9])).unwrap();
    for _ in 0..2 {
        let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
        assert_in_order(&run, 3);
        let asked: Vec<_> = asked.iter().map(|it| it.load(Ordering::SeqCst)).collect();
        assert_eq!(asked, [1, 2, 2]);
    }
    // Without its first line nobody knows which job it is of.
    std::fs::write(&path, format!("\0\n{}\n", all[1])).unwrap();
    let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(2);
    run.stderr_has(&["is not a journal"]);
}

#[test]
fn a_journal_of_an_older_version_is_read() {
    let sandbox = Sandbox::new().file("a.txt", "one").file("b.txt", "two");
    let count = numbered(&sandbox);
    let args = ["-j", "1", "--resume", "sum it up", "a.txt", "b.txt"];
    each(&sandbox, &args).run().assert_exit(0);
    // It noted what it began, with the content of the file, and what killed runs had cost.
    let (path, text) = journal(&sandbox);
    let older = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line.get("begin").is_some() {
            return format!("{line}\n");
        }
        let key = line["result"].as_str().unwrap().to_owned();
        let (id, content) = key.split_once(' ').unwrap();
        line["result"] = json!(id);
        let start = json!({"start": id, "conversation": line["conversation"], "prompt": "p", "content": content});
        format!("{start}\n{}\n{line}\n", json!({"part": id, "cost": 1.0}))
    });
    std::fs::write(&path, older.collect::<String>()).unwrap();
    sandbox.write("b.txt", "changed");
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    let responses = (&all[0]["response"], &all[1]["response"]);
    assert_eq!(responses, (&json!("answer 0"), &json!("answer 2")));
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

/// A journal may come from anywhere: `--journal` names it.
#[test]
fn a_journal_names_only_conversations_of_its_own() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 1);
    let args = ["--lines", "--journal", "j.jsonl", "--resume", "about {}"];
    let whole = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
    let own = results(&whole)[0]["conversation"].as_str().unwrap().to_owned();
    let good = sandbox.read("j.jsonl");
    let conversations = sandbox.root().join("conversations");
    std::fs::write(conversations.join("mywork"), "mine").unwrap();
    let names = ["../../notes", "mywork", &format!("{own}/../x"), &format!("{own}-x")];
    for (at, name) in names.into_iter().enumerate() {
        sandbox.write("j.jsonl", good.replace(&own, name));
        let run = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
        assert!(!run.stdout.contains(name), "{}", run.stdout);
        assert_eq!(asked[0].load(Ordering::SeqCst), at + 2, "{name}");
    }
    assert_eq!(std::fs::read_to_string(conversations.join("mywork")).unwrap(), "mine");
    // A fork of one is the answer's, too.
    let fork = format!("{own}-{}", "0123456789abcdef".repeat(2));
    sandbox.write("j.jsonl", good.replace(&own, &fork));
    let run = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
    assert_eq!(results(&run)[0]["conversation"], fork.as_str());
    // One that does not say which job it is of is of another.
    sandbox.write("j.jsonl", "{\"begin\": {\"run\": \"r\", \"job\": {}}}\n");
    each(&sandbox, &args).stdin(lines(1)).run().assert_exit(2).stderr_has(&["another job"]);
}

#[test]
fn a_part_of_a_journals_first_line_is_as_none() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 2);
    let args = ["--lines", "--journal", "j.jsonl", "about {}"];
    for (at, torn) in ["{", "{\"begin\":{\"ru", "\0\0\0"].into_iter().enumerate() {
        sandbox.write("j.jsonl", torn);
        let run = each(&sandbox, &args).stdin(lines(2)).run().assert_exit(0);
        assert_in_order(&run, 2);
        let resumed = [&args[..], &["--resume"]].concat();
        let again = each(&sandbox, &resumed).stdin(lines(2)).run().assert_exit(0);
        assert_eq!(again.stdout, run.stdout);
        assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == at + 1), "{asked:?}");
    }
}

#[test]
fn a_file_with_other_content_is_asked_about_again() {
    let sandbox = Sandbox::new().file("a.txt", "one").file("b.txt", "two");
    let count = numbered(&sandbox);
    let args = ["-j", "1", "--resume", "sum it up", "a.txt", "b.txt"];
    each(&sandbox, &args).run().assert_exit(0);
    sandbox.write("a.txt", "changed");
    for _ in 0..2 {
        let run = each(&sandbox, &args).run().assert_exit(0);
        let all = results(&run);
        let responses = (&all[0]["response"], &all[1]["response"]);
        assert_eq!(responses, (&json!("answer 2"), &json!("answer 1")));
        assert_eq!(count.load(Ordering::SeqCst), 3, "{}", run.stderr);
    }
}

#[test]
fn verbose_calls_work() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 2);
    let run = each(&sandbox, &["-v", "--lines", "about {}"]).stdin(lines(2)).run().assert_exit(0);
    assert_in_order(&run, 2);
}

#[test]
fn json_inputs_stay_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| answer(&request.last()).into());
    let values =
        ["90071992547409931234567", "90071992547409931234568", "1e400", "0.10000000000000000555"];
    let input: String =
        values.iter().map(|value| format!("{{\"n\": {value}, \"m\": 1}}\n")).collect();
    let args = ["--jsonl", "--resume", "n is {n}; all: {}"];
    let run = each(&sandbox, &args).stdin(format!("\u{feff}{input}")).run().assert_exit(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", run.stdout);
    for (at, value) in values.iter().enumerate() {
        let start =
            format!("{{\"index\":{at},\"input\":{{\"n\": {value}, \"m\": 1}},\"exit_code\":0");
        assert!(lines[at].starts_with(&start), "{}", lines[at]);
        let prompt = format!("n is {value}; all: {{\\\"n\\\": {value}, \\\"m\\\": 1}}");
        assert!(lines[at].contains(&prompt), "{}", lines[at]);
    }
    assert_eq!(sandbox.requests().len(), 4);
    // The order of the keys stays with a result from the journal.
    let again = each(&sandbox, &args).stdin(input).run().assert_exit(0);
    assert_eq!(again.stdout, run.stdout);
}

#[test]
fn results_that_cannot_be_written_end_the_work() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 30);
    let call = |end: &str| {
        let line = format!("{EACH} --lines -j 1 'about {{}}' {end}");
        sandbox.program("bash", &["-c", &line]).stdin(lines(30)).run()
    };
    call(">&-").assert_exit(1).stderr_has(&["cannot write to stdout: it is closed"]);
    assert_eq!(sandbox.requests().len(), 0);
    let full = call("> /dev/full").assert_exit(1).stderr_has(&["No space left", "--resume"]);
    assert!(!full.stderr.contains("SIGHUP"), "{}", full.stderr);
    let head = call("| head -n 1; echo ${PIPESTATUS[0]}").assert_exit(0);
    assert_eq!((head.stdout.lines().last(), head.stderr.as_str()), (Some("129"), ""));
    assert!(sandbox.requests().len() < 30);
}

#[test]
fn what_is_wrong_for_every_input_is_said_once() {
    let sandbox = Sandbox::new();
    for flags in [
        &["--max-cost", "1"][..],
        &["--context", "missing"],
        &["--schema", "missing"],
        &["-f", "missing"],
        &["--grammar"],
    ] {
        let args = [&["--lines", "about {}"], flags].concat();
        let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(2).no_stdout();
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(flags[0].trim_start_matches("-f")), "{}", run.stderr);
    }
    assert_eq!(sandbox.requests().len(), 0);
}

#[test]
fn a_file_with_several_names_is_one_and_odd_names_keep_their_bytes() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    std::os::unix::fs::symlink("a.txt", sandbox.work().join("b.txt")).unwrap();
    let count = numbered(&sandbox);
    let args = ["--own", "--no-summaries", "--progress", "do", "a.txt", "./a.txt", "b.txt"];
    let run = each(&sandbox, &args).run().assert_exit(0).stderr_has(&["3 of 3 inputs"]);
    let all = results(&run);
    assert_eq!((&all[1]["same_as"], &all[2]["same_as"]), (&json!(0), &json!(0)));
    assert_eq!((&all[2]["input"], count.load(Ordering::SeqCst)), (&json!("b.txt"), 1));
    let odd = each(&sandbox, &["--lines", "about {}"]).stdin(b"caf\xe9\n".to_vec()).run();
    assert_eq!(results(&odd.assert_exit(0))[0]["input_bytes"], "636166e9");
}
