//! nagent-each: what a later call takes from earlier ones, and what it refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::each::{EACH, assert_in_order, counting, each, lines, prices, results};
use crate::sandbox::{Sandbox, answer};

/// The text of the only journal in the root, and its path.
fn journal(sandbox: &Sandbox) -> (std::path::PathBuf, String) {
    let folder = sandbox.root().join("each");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Takes the results out of a journal, as a kill before they were written leaves it.
fn forget_results(sandbox: &Sandbox) {
    let (path, text) = journal(sandbox);
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"result\"")).collect();
    std::fs::write(path, kept.join("\n") + "\n").unwrap();
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
fn the_answer_to_somebody_elses_prompt_is_none_of_this_job() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let count = numbered(&sandbox);
    let args = ["--own", "--no-summaries", "--resume", "document it", "a.txt"];
    each(&sandbox, &args).run().assert_exit(0);
    sandbox.run(&["--file-edit", "a.txt", "--no-summaries", "other"]).assert_exit(0);
    forget_results(&sandbox);
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    assert_eq!(all[0]["response"], "answer 0", "not the later prompt's");
    // A clock that was set back changes nothing.
    let path = sandbox.conversation_paths().remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("at=\"20", "at=\"19")).unwrap();
    forget_results(&sandbox);
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    assert_eq!((&all[0]["response"], count.load(Ordering::SeqCst)), (&json!("answer 0"), 2));
    // Its prompt without a reply goes on; it is not given twice.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..=text.find("\n<agent-response").unwrap()]).unwrap();
    forget_results(&sandbox);
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    assert_eq!(all[0]["response"], "answer 2");
    let text = std::fs::read_to_string(&path).unwrap();
    let counts = (text.matches("document it").count(), text.matches("go on").count());
    assert_eq!(counts, (1, 1), "{text}");
}

#[test]
fn an_accepted_answer_is_known_by_its_prompt() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let count = numbered(&sandbox);
    let args = ["--own", "-j", "1", "--check", "true", "--no-summaries", "--resume", "do", "a.txt"];
    each(&sandbox, &args).run().assert_exit(0);
    forget_results(&sandbox);
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    assert_eq!((&all[0]["response"], count.load(Ordering::SeqCst)), (&json!("answer 0"), 1));
    // The end of another run says nothing of this one.
    sandbox.run(&["--file-edit", "a.txt", "--no-summaries", "other"]).assert_exit(0);
    forget_results(&sandbox);
    let all = results(&each(&sandbox, &args).run().assert_exit(0));
    assert_eq!(all[0]["response"].as_str().unwrap().lines().last(), Some("answer 2"));
    assert_eq!(count.load(Ordering::SeqCst), 3);
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
    call(&["-f", "rules.txt", "more about {}"]).assert_exit(2).stderr_has(&["another prompt"]);
    call(&["about {}"]).assert_exit(2).stderr_has(&["another set of flags"]);
    sandbox.write("rules.txt", "two");
    call(&["-f", "rules.txt", "about {}"])
        .assert_exit(2)
        .stderr_has(&["another content of the files of its flags"]);
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
fn a_damaged_journal_is_told_and_its_conversations_are_used() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 3);
    let args = ["--lines", "--resume", "about {}"];
    each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
    let (path, text) = journal(&sandbox);
    // The first line is lost, and every result.
    let damage = |line: &str| {
        let is_kept = line.starts_with("{\"start\"");
        if is_kept { format!("{line}\n") } else { "\0\0\n".to_owned() }
    };
    std::fs::write(&path, text.lines().map(damage).collect::<String>()).unwrap();
    let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
    assert_in_order(&run, 3);
    assert!(run.stderr.contains("4 lines of "), "{}", run.stderr);
    assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == 1), "{asked:?}");
    // A torn last line is what a kill leaves: not a word about it.
    let (_, text) = journal(&sandbox);
    let begin = text.lines().rfind(|line| line.starts_with("{\"begin\"")).unwrap();
    let whole = text.lines().filter(|line| !line.contains('\0'));
    let whole: String = whole.map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{begin}\n{whole}{{\"resu")).unwrap();
    for _ in 0..2 {
        let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
        assert!(!run.stderr.contains("cannot be read"), "{}", run.stderr);
    }
}

/// A journal may come from anywhere: `--journal` names it.
#[test]
fn a_journal_names_only_conversations_of_its_own() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 1);
    let args = ["--lines", "--journal", "j.jsonl", "--resume", "about {}"];
    each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
    let whole = sandbox.read("j.jsonl");
    let start = whole.lines().find(|line| line.starts_with("{\"start\"")).unwrap();
    let start: Value = serde_json::from_str(start).unwrap();
    let own = start["conversation"].as_str().unwrap();
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-n", "a task of the user's"]).assert_exit(0);
    let users = sandbox.conversation_paths().into_iter().find(|path| !path.ends_with(own)).unwrap();
    let users = users.file_name().unwrap().to_str().unwrap().to_owned();
    let conversations = sandbox.root().join("conversations");
    std::fs::write(sandbox.home().join("notes"), "mine").unwrap();
    std::fs::write(conversations.join("mywork"), "").unwrap();
    for name in ["../../notes", "../config.json", "mywork", &users] {
        let path = conversations.join(name);
        let before = std::fs::read(&path).unwrap();
        let kept = whole.lines().filter(|line| !line.starts_with("{\"result\""));
        let kept: String = kept.map(|line| line.replace(own, name) + "\n").collect();
        sandbox.write("j.jsonl", kept);
        let code = i32::from(name == users);
        each(&sandbox, &args).stdin(lines(1)).run().assert_exit(code);
        assert!(path.exists(), "{name} was moved");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name} was changed");
    }
    // One that does not say which job it is of is of another.
    sandbox
        .write("j.jsonl", format!("{{\"begin\": {{\"run\": \"r\", \"job\": {{}}}}}}\n{start}\n"));
    each(&sandbox, &args).stdin(lines(1)).run().assert_exit(2).stderr_has(&["another prompt"]);
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
        assert!(!again.stderr.contains("cannot be read"), "{}", again.stderr);
        assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == at + 1), "{asked:?}");
    }
}

#[test]
fn every_dollar_counts_once() {
    let sandbox = prices(Sandbox::new());
    counting(&sandbox, 2);
    sandbox.llm.allow_rewrites();
    let args = ["--json", "--lines", "-j", "1", "--resume", "about {}"];
    let whole = each(&sandbox, &args).stdin(lines(2)).run().assert_exit(0).json();
    let cost = whole["results"][0]["cost"].as_f64().unwrap();
    assert!(cost > 0.0);
    // Both were killed before their answer.
    forget_results(&sandbox);
    for path in sandbox.conversation_paths() {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("nagent-response>", "nagent-shell>")).unwrap();
    }
    // What they have cost counts before the first is begun.
    let limit = (cost * 1.5).to_string();
    let limited = [&args[..], &["--max-cost", &limit]].concat();
    let before = sandbox.requests().len();
    let run = each(&sandbox, &limited).stdin(lines(2)).run().assert_exit(5);
    assert_eq!(sandbox.requests().len(), before, "{}", run.stderr);
    assert!((run.json()["cost"].as_f64().unwrap() - 2.0 * cost).abs() < cost / 10.0);
    let sum =
        |all: &Value| (0..2).map(|n| all["results"][n]["cost"].as_f64().unwrap()).sum::<f64>();
    for _ in 0..2 {
        let all = each(&sandbox, &args).stdin(lines(2)).run().assert_exit(0).json();
        assert!(sum(&all) > 3.0 * cost, "{all}");
        assert!((all["cost"].as_f64().unwrap() - sum(&all)).abs() < 1e-9, "{all}");
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
