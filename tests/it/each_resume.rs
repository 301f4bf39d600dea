//! nagent-each: what a later call takes from earlier ones, and what it refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::each::{EACH, assert_in_order, counting, each, journal, lines, results};
use crate::sandbox::{Sandbox, answer};

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
fn another_job_has_another_journal() {
    let sandbox = Sandbox::new().file("rules.txt", "one");
    counting(&sandbox, 3);
    let is_new = |args: &[&str]| {
        let args = [&["--lines", "--resume"], args].concat();
        let run = each(&sandbox, &args).stdin(lines(2)).run().assert_exit(0);
        run.stderr.contains("nothing to resume in ")
    };
    assert!(is_new(&["-f", "rules.txt", "about {}"]));
    assert!(!is_new(&["-f", "rules.txt", "about {}"]));
    assert!(is_new(&["-f", "rules.txt", "more about {}"]));
    assert!(is_new(&["about {}"]));
    sandbox.write("rules.txt", "two");
    assert!(is_new(&["-f", "rules.txt", "about {}"]));
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
    std::fs::write(&path, format!("{}\n\0\0\n{}", all[0], &all[2][..9])).unwrap();
    for _ in 0..2 {
        let run = each(&sandbox, &args).stdin(lines(3)).run().assert_exit(0);
        assert_in_order(&run, 3);
        let asked: Vec<_> = asked.iter().map(|it| it.load(Ordering::SeqCst)).collect();
        assert_eq!(asked, [1, 2, 2]);
    }
}

#[test]
fn a_journal_names_only_conversations_of_its_own() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 1);
    let args = ["--lines", "--resume", "about {}"];
    let whole = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
    let own = results(&whole)[0]["conversation"].as_str().unwrap().to_owned();
    let (path, good) = journal(&sandbox);
    let names = ["../../notes", "mywork", &format!("{own}/../x"), &format!("{own}-x")];
    for (at, name) in names.into_iter().enumerate() {
        std::fs::write(&path, good.replace(&own, name)).unwrap();
        let run = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
        assert!(!run.stdout.contains(name), "{}", run.stdout);
        assert_eq!(asked[0].load(Ordering::SeqCst), at + 2, "{name}");
    }
    // A fork of one is the answer's, too.
    let fork = format!("{own}-{}", "0123456789abcdef".repeat(2));
    std::fs::write(&path, good.replace(&own, &fork)).unwrap();
    let run = each(&sandbox, &args).stdin(lines(1)).run().assert_exit(0);
    assert_eq!(results(&run)[0]["conversation"], fork.as_str());
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
fn json_inputs_keep_their_order_and_their_numbers() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| answer(&request.last()).into());
    let input = "\u{feff}{\"n\": 18446744073709551615, \"m\": 0.1}\n";
    let args = ["--jsonl", "--resume", "n is {n}; all: {}"];
    let run = each(&sandbox, &args).stdin(input).run().assert_exit(0);
    let start =
        r#"{"index":0,"input":{"n":18446744073709551615,"m":0.1},"exit_code":0,"response":"#;
    assert!(run.stdout.starts_with(start), "{}", run.stdout);
    let prompt = r#"n is 18446744073709551615; all: {\"n\":18446744073709551615,\"m\":0.1}"#;
    assert!(run.stdout.contains(prompt), "{}", run.stdout);
    // The order of the keys stays with a result from the journal.
    let again = each(&sandbox, &args).stdin(input).run().assert_exit(0);
    assert_eq!((again.stdout, sandbox.requests().len()), (run.stdout, 1));
}

#[test]
fn results_that_cannot_be_written_end_the_work() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 30);
    let call = |end: &str| {
        let line = format!("{EACH} --lines -j 1 'about {{}}' {end}");
        sandbox.program("bash", &["-c", &line]).stdin(lines(30)).run()
    };
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
fn an_input_that_comes_again_takes_the_answer_of_the_first() {
    let sandbox = Sandbox::new();
    let count = numbered(&sandbox);
    let args = ["-j", "1", "--lines", "--progress", "about {}"];
    let run = each(&sandbox, &args).stdin("a\nb\na\n").run().assert_exit(0);
    let all = results(&run.stderr_has(&["3 of 3 inputs"]));
    let responses: Vec<_> = all.iter().map(|it| it["response"].as_str().unwrap()).collect();
    assert_eq!(responses, ["answer 0", "answer 1", "answer 0"]);
    assert_eq!(count.load(Ordering::SeqCst), 2);
}
