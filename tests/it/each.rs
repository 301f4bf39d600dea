//! nagent-each: the order of results, going on after kills, limits over all, parts for several workers, odd inputs.

use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::{Answer, Latch};
use crate::fake_llm::Request;
use crate::process_under_test::Run;
use crate::sandbox::{Invocation, Sandbox, answer, shell, wait_until};

/// The path of `nagent-each`.
pub(crate) const EACH: &str = env!("CARGO_BIN_EXE_nagent-each");

pub(crate) fn each<'a>(sandbox: &'a Sandbox, args: &[&str]) -> Invocation<'a> {
    sandbox.program(EACH, args)
}

/// Lines `input 0` to `input N-1`.
pub(crate) fn lines(count: usize) -> String {
    (0..count).map(|n| format!("input {n}\n")).collect()
}

/// The path of the only journal in the root, and its text.
pub(crate) fn journal(sandbox: &Sandbox) -> (std::path::PathBuf, String) {
    let folder = sandbox.root().join("each");
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[track_caller]
pub(crate) fn results(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of the input that a request is about.
fn number(request: &Request) -> usize {
    let text = request.dialogue().turns[0].1.clone();
    let at = text.rfind("input ").unwrap_or_else(|| panic!("no input in {text}"));
    text[at + 6..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Answers every input with `of N`, and counts how often each was asked about.
pub(crate) fn counting(sandbox: &Sandbox, count: usize) -> Arc<Vec<AtomicUsize>> {
    let asked: Arc<Vec<AtomicUsize>> = Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect());
    let counts = Arc::clone(&asked);
    sandbox.llm.choose(move |request| {
        let number = number(request);
        counts[number].fetch_add(1, Ordering::SeqCst);
        answer(&format!("of {number}")).into()
    });
    asked
}

#[track_caller]
pub(crate) fn assert_in_order(run: &Run, count: usize) {
    let expect: Vec<_> = (0..count).map(|n| (json!(n), json!(format!("of {n}")))).collect();
    let got = results(run);
    let got: Vec<_> = got.iter().map(|it| (it["index"].clone(), it["response"].clone())).collect();
    assert_eq!(got, expect, "{}", run.stderr);
}

pub(crate) fn prices(sandbox: Sandbox) -> Sandbox {
    sandbox.config_also(json!({"prices": {"test-model": {"input": 100, "output": 100}}}))
}

#[test]
fn results_come_in_the_order_of_inputs() {
    let sandbox = Sandbox::new();
    // The first ones take longest.
    let latch = Latch::default();
    let (held, count) = (latch.clone(), Arc::new(AtomicUsize::new(0)));
    sandbox.llm.choose(move |request| {
        let number = number(request);
        if count.fetch_add(1, Ordering::SeqCst) == 8 {
            held.release();
        }
        let text = answer(&format!("of {number}"));
        if number == 0 { Answer::held(&held, text) } else { text.into() }
    });
    let run = each(&sandbox, &["--lines", "-j", "3", "about {}"]).stdin(lines(12)).run();
    let run = run.assert_exit(0).no_stderr();
    assert_in_order(&run, 12);
    let first = &results(&run)[0];
    assert_eq!(
        (&first["input"], &first["exit_code"], &first["turn_count"]),
        (&json!("input 0"), &json!(0), &json!(1))
    );
    let name = first["conversation"].as_str().unwrap();
    assert!(name.starts_with("new-") && sandbox.root().join("conversations").join(name).exists());
    assert_eq!(sandbox.conversation_paths().len(), 12, "each has a conversation of its own");
    assert!(sandbox.requests().iter().all(|it| it.user().contains("about input ")));
}

#[test]
fn files_lines_and_json_lines_become_prompts() {
    let sandbox = Sandbox::new().file("a.txt", "text of a").file("b.txt", "text of b");
    sandbox
        .llm
        .choose(|request| answer(&request.user().replace('<', "(").replace('>', ")")).into());
    let run = each(&sandbox, &["sum it up", "a.txt", "b.txt"]).run().assert_exit(0);
    let shown = results(&run);
    assert!(shown[1]["response"].as_str().unwrap().contains("text of b"), "{}", run.stdout);
    assert_eq!(shown[1]["input"], "b.txt");
    let named = results(&each(&sandbox, &["look at {}", "a.txt"]).run().assert_exit(0));
    let response = named[0]["response"].as_str().unwrap();
    assert!(response.contains("look at a.txt") && !response.contains("text of a"), "{response}");
    sandbox.write("in.jsonl", "{\"id\": 7, \"to\": \"Ada\"}\n");
    let run =
        each(&sandbox, &["--jsonl=in.jsonl", "mail {id} to {to}; not {{to}}"]).run().assert_exit(0);
    let json = &results(&run)[0];
    assert!(json["response"].as_str().unwrap().contains("mail 7 to Ada; not {to}"), "{json}");
    assert_eq!(json["input"], json!({"id": 7, "to": "Ada"}));
    let requests = sandbox.requests().len();
    each(&sandbox, &["--jsonl=in.jsonl", "mail {ID}"])
        .run()
        .assert_exit(2)
        .stderr_has(&["input 1", "no key \"ID\""]);
    each(&sandbox, &["--jsonl", "x"])
        .stdin("{\n")
        .run()
        .assert_exit(2)
        .stderr_has(&["line 1 is not JSON"]);
    each(&sandbox, &["x"]).run().assert_exit(2).stderr_has(&["no inputs"]);
    each(&sandbox, &["--own", "--lines", "x"])
        .stdin("a\n")
        .run()
        .assert_exit(2)
        .stderr_has(&["--own takes files"]);
    each(&sandbox, &["--approve", "shell", "x", "a.txt"])
        .run()
        .assert_exit(2)
        .stderr_has(&["--approve"]);
    each(&sandbox, &["--clear", "x", "a.txt"])
        .run()
        .assert_exit(2)
        .stderr_has(&["--clear works with a single run only"]);
    each(&sandbox, &["--lines", "x"]).stdin("\n \n").run().assert_exit(0).no_stdout().no_stderr();
    each(&sandbox, &["--json", "--lines", "x"]).stdin("").run().assert_exit(0).json();
    assert_eq!(sandbox.requests().len(), requests);
}

#[test]
fn each_file_can_be_worked_on_in_its_own_conversation() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("b.txt", "one\n");
    // Two conversations that begin with one prompt.
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let name = if request.system().contains("a.txt") { "a.txt" } else { "b.txt" };
        if request.last().contains("-edit-result") {
            return answer("done").into();
        }
        crate::file_edit::edit(name, "one", "two").into()
    });
    let run = each(&sandbox, &["--own", "--no-summaries", "change it", "a.txt", "b.txt"])
        .run()
        .assert_exit(0);
    let all = results(&run);
    assert_eq!((&all[0]["changed"], &all[1]["changed"]), (&json!(true), &json!(true)));
    assert!(all[1]["diff"].as_str().unwrap().contains("+two"), "{}", run.stdout);
    assert_eq!(
        (sandbox.read("a.txt"), sandbox.read("b.txt")),
        ("two\n".to_owned(), "two\n".to_owned())
    );
    each(&sandbox, &["--own", "--check", "true", "x", "a.txt"])
        .run()
        .assert_exit(2)
        .stderr_has(&["-j 1"]);
}

#[test]
fn a_call_goes_on_after_kills_and_asks_nothing_twice() {
    for round in 0..2_u64 {
        let sandbox = Sandbox::new();
        let asked = counting(&sandbox, 24);
        let args = ["--lines", "-j", "3", "--resume", "about {}"];
        // Killed when that many have been asked about, and a bit later: while they are stored, printed, begun.
        for kill in 1..4 {
            let running = each(&sandbox, &args).stdin(lines(24)).spawn();
            let total = || asked.iter().map(|it| it.load(Ordering::SeqCst)).sum::<usize>();
            wait_until("some were asked about", || total() >= kill * 6);
            std::thread::sleep(Duration::from_millis(round * 9));
            running.signal(Signal::KILL);
            drop(running);
        }
        let run = each(&sandbox, &args).stdin(lines(24)).run().assert_exit(0);
        assert_in_order(&run, 24);
        // A request that the kill met on its way has no reply anywhere; at most those that ran at a kill are asked again.
        let again: usize = asked.iter().map(|it| it.load(Ordering::SeqCst) - 1).sum();
        assert!(again <= 9, "{again} were asked twice");
        // A further call asks nothing.
        let before = sandbox.requests().len();
        let run = each(&sandbox, &args).stdin(lines(24)).run().assert_exit(0);
        assert_in_order(&run, 24);
        assert!(run.stderr.contains("24 of 24 inputs already done"), "{}", run.stderr);
        assert_eq!(sandbox.requests().len(), before);
    }
}

#[test]
fn an_input_without_a_result_is_asked_again_in_a_fresh_conversation() {
    let sandbox = prices(Sandbox::new());
    sandbox.llm.choose(|request| match number(request) {
        0 => answer("of 0").into(),
        _ => shell("echo hello").into(),
    });
    let args = ["--lines", "--resume", "-j", "1", "about {}"];
    let limited = [&args[..], &["--max-turns", "1"]].concat();
    let first = each(&sandbox, &limited).stdin(lines(2)).run().assert_exit(5);
    let paid = results(&first).iter().map(|it| it["cost"].as_f64().unwrap()).sum::<f64>();
    counting(&sandbox, 2);
    let json = [&args[..], &["--json"]].concat();
    let all = each(&sandbox, &json).stdin(lines(2)).run().assert_exit(0).json();
    let (before, after) = (&results(&first)[1], &all["results"][1]);
    assert_ne!(before["conversation"], after["conversation"]);
    assert_eq!((&after["response"], &after["turn_count"]), (&json!("of 1"), &json!(1)));
    // What the first try has cost counts.
    let cost = paid + after["cost"].as_f64().unwrap();
    assert!((all["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{all}");
}

#[test]
fn a_new_call_begins_anew_and_keeps_the_old_journal() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 2);
    for _ in 0..2 {
        assert_in_order(
            &each(&sandbox, &["--lines", "about {}"]).stdin(lines(2)).run().assert_exit(0),
            2,
        );
    }
    assert_eq!(asked[0].load(Ordering::SeqCst), 2);
    assert_eq!(std::fs::read_dir(sandbox.root().join("each")).unwrap().count(), 2);
    // Another prompt is another job.
    each(&sandbox, &["--lines", "--resume", "more about {}"]).stdin(lines(2)).run().assert_exit(0);
    assert_eq!(asked[0].load(Ordering::SeqCst), 3);
    assert_eq!(std::fs::read_dir(sandbox.root().join("each")).unwrap().count(), 3);
}

#[test]
fn ctrl_c_stops_all_and_prints_what_is_done() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| match number(request) {
        1 | 3 => Answer::StallHead,
        number => answer(&format!("of {number}")).into(),
    });
    let args = ["--lines", "-j", "2", "--resume", "about {}"];
    let running = each(&sandbox, &args).stdin(lines(6)).spawn();
    // 0 and 2 are answered, 1 and 3 wait.
    sandbox.llm.wait_for_requests(4);
    running.signal(Signal::INT);
    let run = running.wait().assert_exit(130).within(3.0);
    let indexes: Vec<_> = results(&run).iter().map(|it| it["index"].clone()).collect();
    assert_eq!(indexes, [json!(0), json!(2)]);
    assert!(
        run.stderr.contains(
            "interrupted by SIGINT: 4 inputs left; run the same command with --resume to continue"
        ),
        "{}",
        run.stderr
    );
    assert_eq!(sandbox.lasting_processes(), [""; 0]);
    let asked = counting(&sandbox, 6);
    assert_in_order(&each(&sandbox, &args).stdin(lines(6)).run().assert_exit(0), 6);
    let asked: Vec<_> = asked.iter().map(|it| it.load(Ordering::SeqCst)).collect();
    assert_eq!(asked, [0, 1, 0, 1, 1, 1]);
}

#[test]
fn limits_count_over_all_inputs() {
    let sandbox = prices(Sandbox::new());
    let asked = counting(&sandbox, 40);
    let one = each(&sandbox, &["--lines", "about {}"]).stdin(lines(1)).run().assert_exit(0);
    let cost = results(&one)[0]["cost"].as_f64().unwrap();
    assert!(cost > 0.0);
    let most = (cost * 4.5).to_string();
    let run = each(&sandbox, &["--lines", "-j", "1", "--max-cost", &most, "about {}"])
        .stdin(lines(40))
        .run();
    let run = run.assert_exit(5).stderr_has(&["--max-cost", "35 inputs left", "--resume"]);
    assert_in_order(&run, 5);
    // What was paid for before counts, too.
    let more = (cost * 7.5).to_string();
    let args = ["--lines", "-j", "1", "--resume", "--max-cost", &more, "about {}"];
    assert_in_order(&each(&sandbox, &args).stdin(lines(40)).run().assert_exit(5), 8);
    assert_eq!(asked[7].load(Ordering::SeqCst), 1);

    let failing = Sandbox::new();
    failing.llm.choose(|request| match number(request) % 2 {
        1 => Answer::error(400, "invalid_request_error"),
        _ => answer(&format!("of {}", number(request))).into(),
    });
    let args = ["--lines", "-j", "1", "--max-failures", "2", "about {}"];
    let run = each(&failing, &args).stdin(lines(9)).run().assert_exit(3);
    let codes: Vec<_> = results(&run).iter().map(|it| it["exit_code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [0, 3, 0, 3]);
    assert!(results(&run)[1]["error"].as_str().unwrap().contains("the test server says no"));
    assert!(
        run.stderr.contains("input 2: ")
            && run.stderr.contains("2 inputs failed (--max-failures): 5 inputs left"),
        "{}",
        run.stderr
    );
    // Those that failed are asked about again.
    let asked = counting(&failing, 9);
    let run = each(&failing, &["--lines", "--resume", "-j", "1", "about {}"])
        .stdin(lines(9))
        .run()
        .assert_exit(0);
    assert_in_order(&run, 9);
    assert_eq!((asked[0].load(Ordering::SeqCst), asked[1].load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn shards_divide_the_inputs() {
    let sandbox = Sandbox::new();
    let asked = counting(&sandbox, 30);
    let shard = |part: usize| {
        let part = format!("{part}/3");
        each(&sandbox, &["--lines", "--shard", &part, "about {}"]).stdin(lines(30)).spawn()
    };
    let running: Vec<_> = (1..=3).map(shard).collect();
    let mut all: Vec<Value> =
        running.into_iter().flat_map(|one| results(&one.wait().assert_exit(0))).collect();
    all.sort_by_key(|it| it["index"].as_u64());
    assert_eq!(all.len(), 30);
    assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == 1), "{asked:?}");
    // Run again, it has everything and does nothing.
    let again = results(&shard(2).wait().assert_exit(0));
    assert!(all.iter().filter(|it| again.contains(it)).count() == again.len() && !again.is_empty());
    assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == 1), "{asked:?}");
    each(&sandbox, &["--lines", "--shard", "4/3", "x"])
        .stdin("a\n")
        .run()
        .assert_exit(2)
        .stderr_has(&["as in 2/4"]);
}

#[test]
fn a_shard_that_is_running_is_not_run_twice_and_is_taken_over_when_it_is_killed() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| Answer::StallHead);
    let args = ["--lines", "-j", "2", "--shard", "1/1", "about {}"];
    let first = each(&sandbox, &args).stdin(lines(4)).spawn();
    sandbox.llm.wait_for_requests(2);
    let second = each(&sandbox, &args).stdin(lines(4)).run().assert_exit(1).no_stdout();
    assert!(second.stderr.contains("this job is running"), "{}", second.stderr);
    // One that was told to wait takes over.
    let waits =
        [&args[..], &["--lock-timeout", "29", "--patience", "3", "--max-turns", "7"]].concat();
    let third = each(&sandbox, &waits).stdin(lines(4)).spawn();
    wait_until("it waits", || third.stderr_so_far().contains("waiting for "));
    let asked = counting(&sandbox, 4);
    first.signal(Signal::KILL);
    drop(first);
    assert_in_order(&third.wait().assert_exit(0), 4);
    assert!(asked.iter().all(|it| it.load(Ordering::SeqCst) == 1), "{asked:?}");
}

#[test]
fn odd_inputs() {
    let sandbox = Sandbox::new().file("a.txt", "text of a");
    std::fs::create_dir(sandbox.work().join("folder")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(sandbox.work().join(name), "text of caf\u{e9}").unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    sandbox.llm.choose(move |request| {
        seen.lock().unwrap().push(request.user());
        answer("fine").into()
    });
    // A name that is not UTF-8, twice the same file, one that is missing, a folder.
    let line = format!(
        "{EACH} -j 1 'sum it up' a.txt \"$(printf 'caf\\351.txt')\" a.txt missing.txt folder"
    );
    let run = sandbox.program("bash", &["-c", &line]).run().assert_exit(1);
    let all = results(&run);
    let codes: Vec<_> = all.iter().map(|it| it["exit_code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [0, 0, 0, 1, 1], "{}", run.stdout);
    assert_eq!(all[2]["response"], "fine");
    assert!(all[3]["error"].as_str().unwrap().contains("missing.txt"), "{}", run.stdout);
    assert!(all[4]["error"].as_str().unwrap().contains("it is a folder"), "{}", run.stdout);
    assert_eq!(asked.lock().unwrap().len(), 2);
    assert!(asked.lock().unwrap().iter().any(|text| text.contains("text of caf\u{e9}")));
    // A folder can be named in the prompt.
    each(&sandbox, &["look into {}", "folder"]).run().assert_exit(0);
    // Lines that are not UTF-8.
    let odd = each(&sandbox, &["--lines", "about {}"]).stdin(b"caf\xe9\n".to_vec()).run();
    odd.assert_exit(1).no_stdout().stderr_has(&["cannot read stdin: it is not UTF-8 text"]);
    // A reader that goes away ends the work.
    let line =
        format!("seq 50 | {EACH} --lines -j 1 'about {{}}' | head -n 2; echo ${{PIPESTATUS[1]}}");
    let run = sandbox.program("bash", &["-c", &line]).run().assert_exit(0);
    assert_eq!(run.stdout.lines().last(), Some("129"), "{}", run.stderr);
}

#[test]
fn a_file_in_its_own_conversation_is_asked_again_after_a_kill() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.allow_rewrites();
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| match request.last() {
        last if last.contains("-edit-result") => Answer::held(&held, answer("held")),
        _ => crate::file_edit::edit("a.txt", "one", "two").into(),
    });
    let args = ["--own", "--no-summaries", "--resume", "change it", "a.txt"];
    let running = each(&sandbox, &args).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::KILL);
    drop(running);
    latch.release();
    sandbox.llm.choose(|_| answer("it is changed").into());
    let run = each(&sandbox, &args).run().assert_exit(0);
    assert_eq!(
        (&results(&run)[0]["response"], sandbox.read("a.txt").as_str()),
        (&json!("it is changed"), "two\n")
    );
}

#[test]
fn a_full_disk_ends_the_work_and_loses_no_result() {
    let sandbox = Sandbox::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // The journal outgrows the limit, the conversations do not.
    sandbox.llm.choose(move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        answer(&format!("of {} {}", number(request), "x".repeat(3000))).into()
    });
    let args = "--lines --resume -j 1 'about {}'";
    let line = format!("ulimit -f 30; exec {EACH} {args}");
    let run = sandbox.program("bash", &["-c", &line]).stdin(lines(20)).run().assert_exit(1);
    let printed = results(&run).len();
    assert!((2..20).contains(&printed), "{printed}: {}", run.stderr);
    assert!(
        run.stderr.contains("cannot append to") && run.stderr.contains(".jsonl"),
        "{}",
        run.stderr
    );
    let (_, text) = journal(&sandbox);
    let known = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(known.filter(|line| line.get("result").is_some()).count(), printed);
    let line = format!("exec {EACH} {args}");
    let run = sandbox.program("bash", &["-c", &line]).stdin(lines(20)).run().assert_exit(0);
    let all = results(&run);
    assert!(all.len() == 20 && all.iter().all(|it| it["exit_code"] == 0), "{}", run.stdout);
    assert_eq!(
        asked.load(Ordering::SeqCst),
        21,
        "only the one that could not be stored is asked twice"
    );
}

/// The first of two results does not fit into the journal; what ends later does.
#[test]
fn an_error_of_the_journal_is_told_whatever_ends_after_it() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| answer(&"x".repeat(57_000)).into());
    let args = ["--lines", "about {}"];
    each(&sandbox, &args).stdin("another input\n").run().assert_exit(0);
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| match number(request) {
        0 => answer(&"x".repeat(9000)).into(),
        _ => Answer::held(&held, answer("late")),
    });
    let args = "--lines --resume -j 2 'about {}'";
    let line = format!("trap '' XFSZ; ulimit -f 60; exec {EACH} {args}");
    let running = sandbox.program("bash", &["-c", &line]).stdin(lines(2)).spawn();
    sandbox.llm.wait_for_requests(3);
    let children =
        || sandbox.processes().iter().filter(|it| it.contains("--conversation=new-")).count();
    wait_until("the first has ended", || children() == 1);
    running.signal(Signal::INT);
    running.wait().assert_exit(1).stderr_has(&["cannot append to", ".jsonl"]);
    latch.release();
}

#[test]
fn one_document_has_all_results() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 3);
    let run =
        each(&sandbox, &["--json", "--lines", "about {}"]).stdin(lines(3)).run().assert_exit(0);
    let document = run.json();
    assert_eq!(
        (&document["results"][2]["response"], &document["failed"], &document["left"]),
        (&json!("of 2"), &json!(0), &json!(0))
    );
    assert!(document["cost"].is_null(), "the price is not known: {document}");
    // Answers that scripts can trust.
    sandbox.write("schema.json", json!({"type": "object", "required": ["n"]}).to_string());
    sandbox.llm.choose(|request| {
        answer(if request.user().contains("not accepted") { "{\"n\": 1}" } else { "no" }).into()
    });
    let run = each(&sandbox, &["--schema", "schema.json", "--lines", "as JSON: {}"])
        .stdin(lines(2))
        .run()
        .assert_exit(0);
    assert_eq!(results(&run)[1]["data"], json!({"n": 1}));
    // A command that the model starts is a conversation of its own, as ever.
    sandbox.llm.choose(|request| {
        if request.user().contains("hello") {
            answer("seen").into()
        } else {
            shell("echo hello").into()
        }
    });
    let run = each(&sandbox, &["--lines", "say {}"]).stdin(lines(1)).run().assert_exit(0);
    assert_eq!(results(&run)[0]["turn_count"], 2);
    let run = each(&sandbox, &["--lines", "--progress", "say {}"]).stdin(lines(1)).run();
    assert!(!run.stderr.contains('$'), "no price is known: {}", run.stderr);
}

#[test]
fn progress_is_shown_on_a_terminal() {
    let sandbox = prices(Sandbox::new());
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| match number(request) {
        3 => Answer::held(&held, answer("last")),
        number => answer(&format!("of {number}")).into(),
    });
    sandbox.write("in", lines(4));
    let line = format!("{EACH} --lines=in -j 1 'about {{}}' > out");
    let mut pty = sandbox.program("sh", &["-c", &line]).on_pty(120);
    pty.expect("3 of 4 inputs, $");
    latch.release();
    pty.wait();
    assert_eq!(sandbox.read("out").lines().count(), 4);
}

#[test]
fn the_journal_is_lines_of_json_for_its_owner() {
    let sandbox = Sandbox::new();
    counting(&sandbox, 2);
    each(&sandbox, &["--lines", "about {}"]).stdin(lines(2)).run().assert_exit(0);
    let (path, text) = journal(&sandbox);
    let keys = text.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        value.as_object().unwrap().keys().next().unwrap().clone()
    });
    assert_eq!(keys.collect::<Vec<_>>(), ["result", "result"], "{text}");
    let mode = Command::new("stat").args(["-c", "%a"]).arg(path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&mode.stdout).trim(), "600");
}
