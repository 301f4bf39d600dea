//! `nagent-conversations prune`: what is removed, what stays, beside runs and kills.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::conversations::{CONVERSATIONS, path, run};
use crate::file_edit::edit;
use crate::sandbox::{Sandbox, answer, shell, wait_until};

/// Makes a file as old as this many days.
fn age(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_hours(24 * days);
    File::open(path).unwrap().set_modified(time).unwrap();
}

fn parts(report: &Value) -> Vec<(String, u64)> {
    let parts = report["parts"].as_array().unwrap().iter();
    let parts = parts
        .map(|part| (part["part"].as_str().unwrap().to_owned(), part["count"].as_u64().unwrap()));
    parts.filter(|(_, count)| *count > 0).collect()
}

fn outputs(sandbox: &Sandbox) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(sandbox.root().join("outputs")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What needs no aging is kept; what nobody names goes once it is old.
#[test]
fn it_removes_what_is_old_and_unnamed_and_nothing_else() {
    let sandbox = Sandbox::new()
        .reply(shell("seq 9999"))
        .reply(answer("kept"))
        .reply(shell("seq 8888"))
        .reply(answer("new"));
    sandbox.run(&["-c", "kept", "many lines"]).assert_exit(0);
    let named = outputs(&sandbox);
    let new = sandbox.run(&["-n", "--json", "other lines"]).assert_exit(0).json();
    let new = PathBuf::from(new["conversation_path"].as_str().unwrap());
    assert_eq!((named.len(), outputs(&sandbox).len()), (1, 2));
    let empty = path(&sandbox, "latest-x-01234567-89ab-cdef-0123-456789abcdef");
    std::fs::write(&empty, "<initial_context>\nx\n</initial_context>\n").unwrap();
    for folder in ["splits/gone/a-01234567-89ab-cdef-0123-456789abcdef", "summaries", "history/a/b"]
    {
        std::fs::create_dir_all(sandbox.root().join(folder)).unwrap();
        std::fs::write(sandbox.root().join(folder).join("f.json"), "{}").unwrap();
    }
    let prune =
        |args: &[&str]| run(&sandbox, &[&["prune", "--json"], args].concat()).assert_exit(0).json();
    assert_eq!(parts(&prune(&[])), [], "everything is new");

    for file in outputs(&sandbox).iter().chain([&new, &empty]) {
        age(file, 40);
    }
    for file in [
        "summaries/f.json",
        "history/a/b/f.json",
        "splits/gone/a-01234567-89ab-cdef-0123-456789abcdef/f.json",
        "splits/gone/a-01234567-89ab-cdef-0123-456789abcdef",
    ] {
        age(&sandbox.root().join(file), 40);
    }
    age(&path(&sandbox, "kept"), 40);
    let expect = [("new", 1), ("empty", 1), ("stored", 2), ("caches", 2)]
        .map(|(part, count)| (part.to_owned(), count));
    assert_eq!(parts(&prune(&["--older", "50d"])), []);
    let dry = prune(&["--dry-run"]);
    assert_eq!(parts(&dry), expect);
    assert!(new.exists() && empty.exists(), "nothing is removed by a dry run");
    let done = prune(&[]);
    assert_eq!((parts(&done), &done["bytes"]), (expect.to_vec(), &dry["bytes"]));
    assert!(!new.exists() && !empty.exists());
    assert_eq!(outputs(&sandbox), named, "what a conversation names stays");
    assert!(path(&sandbox, "kept").exists());
    assert_eq!(parts(&prune(&["--older", "0"])), []);
}

#[test]
fn the_note_of_a_killed_run_goes_and_that_of_a_running_one_stays() {
    let sandbox = Sandbox::new();
    let note = |name: &str| path(&sandbox, &format!("{name}.run"));
    std::fs::create_dir_all(sandbox.root().join("conversations/.locks")).unwrap();
    for name in ["new-0123456789ab", "new-ba9876543210", "new-000000000000"] {
        std::fs::write(note(name), "{}").unwrap();
        age(&note(name), 40);
    }
    age(&note("new-000000000000"), 0);
    let lock = sandbox.root().join("conversations/.locks/new-ba9876543210");
    let held = File::create(lock).unwrap();
    held.lock().unwrap();
    let report = run(&sandbox, &["prune", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), [("empty".to_owned(), 1)]);
    assert!(!note("new-0123456789ab").exists());
    assert!(note("new-ba9876543210").exists() && note("new-000000000000").exists());
}

#[test]
fn the_trash_keeps_what_was_removed_recently_and_what_that_names() {
    let sandbox = Sandbox::new().reply(shell("seq 9999")).reply(answer("x"));
    sandbox.run(&["-c", "a", "x"]).assert_exit(0);
    run(&sandbox, &["remove", "a"]).assert_exit(0);
    for file in outputs(&sandbox) {
        age(&file, 40);
    }
    // The conversation is old, but it was removed just now.
    age(&sandbox.root().join("trash/a"), 40);
    let report = run(&sandbox, &["prune", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), []);
    let report = run(&sandbox, &["prune", "--older", "0", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), [("trash".to_owned(), 1), ("stored".to_owned(), 1)]);
    let text = run(&sandbox, &["prune", "--older", "0"]).assert_exit(0).stdout;
    assert!(text.starts_with("trash ") && text.contains("0 B removed"), "{text}");
    run(&sandbox, &["prune", "--older", "soon"]).assert_exit(2).stderr_has(&["30d"]);
}

/// The conversation is gone, and what its run wrote over can still be taken back.
#[test]
fn what_can_be_undone_stays() {
    let sandbox = Sandbox::outside_temp()
        .file("a.txt", "old\n")
        .reply(edit("a.txt", "old", "new"))
        .reply(answer("done"));
    sandbox.run(&["-c", "a", "--write", ".", "x"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "new\n");
    run(&sandbox, &["remove", "a"]).assert_exit(0);
    for file in outputs(&sandbox) {
        age(&file, 40);
    }
    let report = run(&sandbox, &["prune", "--older", "0", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), [("trash".to_owned(), 1)]);
    sandbox.run(&["-c", "a", "--undo"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "old\n");
}

/// A run that is at work keeps its conversation and what it has stored, whatever is asked for.
#[test]
fn an_active_run_loses_nothing() {
    let wait = "seq 9999; touch started; while [ ! -e go ]; do sleep 0.01; done";
    let sandbox = Sandbox::new().reply(shell("seq 9999")).reply(shell(wait)).reply(answer("done"));
    let running = sandbox.cmd(&["-n", "--json", "wait"]).spawn();
    wait_until("the command runs", || sandbox.work().join("started").exists());
    let report = run(&sandbox, &["prune", "--older", "0", "--json"]).assert_exit(0).json();
    let new =
        report["parts"].as_array().unwrap().iter().find(|part| part["part"] == "new").unwrap();
    assert_eq!((&new["count"], &new["in_use"]), (&json!(0), &json!(1)), "{report}");
    assert_eq!(outputs(&sandbox).len(), 1);
    sandbox.write("go", "");
    let done = running.wait().assert_exit(0).json();
    assert!(Path::new(done["conversation_path"].as_str().unwrap()).exists());
    let report = run(&sandbox, &["prune", "--older", "0", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), [("new".to_owned(), 1)], "and its output is younger than an hour");
}

/// Killed anywhere, it has removed some and damaged nothing; the next call removes the rest.
#[test]
fn a_kill_at_any_instant_leaves_the_rest_to_the_next_call() {
    let sandbox = Sandbox::new().reply(shell("seq 9999")).reply(answer("x"));
    sandbox.run(&["-c", "kept", "x"]).assert_exit(0);
    let (named, text) = (outputs(&sandbox), std::fs::read(path(&sandbox, "kept")).unwrap());
    let splits = sandbox.root().join("splits/gone");
    for round in 0..6 {
        for n in 0..60 {
            let output = sandbox.root().join(format!("outputs/{n:064}.txt"));
            std::fs::write(&output, "x").unwrap();
            age(&output, 40);
            let split = splits.join(format!("s-{n:032}"));
            std::fs::create_dir_all(&split).unwrap();
            std::fs::write(split.join("f"), "x").unwrap();
            age(&split.join("f"), 40);
            age(&split, 40);
        }
        let killed = sandbox.program(CONVERSATIONS, &["prune"]).spawn();
        std::thread::sleep(Duration::from_millis(round));
        killed.signal(rustix::process::Signal::KILL);
        drop(killed.wait());
        assert_eq!(std::fs::read(path(&sandbox, "kept")).unwrap(), text);
        assert!(named[0].exists());
        // What was moved aside and not removed is younger than an hour; it goes when it is old.
        for folder in [sandbox.root().join("outputs"), splits.clone()] {
            let left = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            left.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".nagent"))
                .for_each(|path| {
                    age(&path, 40);
                });
        }
        run(&sandbox, &["prune"]).assert_exit(0);
        assert_eq!(outputs(&sandbox), named);
        assert_eq!(std::fs::read_dir(&splits).unwrap().count(), 0);
    }
}

/// Children go once nobody uses them, their stored contents too; one in which a person has spoken stays.
#[test]
fn old_children_go_and_their_parent_stays() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    let tag =
        |name: &str| format!("<nagent-conversation name=\"{name}\">part</nagent-conversation>");
    sandbox.llm.choose(move |request| match request.user() {
        user if user.contains("exit_code") || user.contains("mine") => answer("done").into(),
        user if user.contains("-result") => answer("all").into(),
        user if user.contains("part") => shell("seq 9999").into(),
        _ => format!("{}\n{}", tag("a"), tag("b")).into(),
    });
    let new = sandbox.run(&["-n", "--json", "task"]).assert_exit(0).json();
    let new = new["conversation_path"].as_str().unwrap().to_owned();
    sandbox.run(&["-c", "keep", "task"]).assert_exit(0);
    let own = format!("{}.b", Path::new(&new).file_name().unwrap().to_str().unwrap());
    sandbox.run(&["-c", &own, "mine"]).assert_exit(0);
    for file in sandbox.conversation_paths().iter().chain(&outputs(&sandbox)) {
        age(file, 40);
    }
    assert_eq!(outputs(&sandbox).len(), 1);
    let pruned = run(&sandbox, &["prune", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&pruned), [("new".to_owned(), 1), ("children".to_owned(), 3)]);
    let mut left = sandbox.conversation_paths();
    left.sort();
    assert_eq!(left, ["keep", &own].map(|name| path(&sandbox, name)));
    run(&sandbox, &["remove", "keep", &own]).assert_exit(0);
    run(&sandbox, &["prune", "--older", "0"]).assert_exit(0);
    assert_eq!(outputs(&sandbox), Vec::<PathBuf>::new());
}

/// The output of a kept command is named after the command, not after its content.
#[test]
fn the_outputs_of_kept_commands_go_with_the_conversations_that_name_them() {
    let keep =
        |name: &str| format!("<nagent-shell keep=\"{name}\">echo on; sleep 300</nagent-shell>");
    let sandbox = Sandbox::new()
        .reply(keep("cafe-1"))
        .reply(answer("done"))
        .reply(keep("server"))
        .reply(answer("done"));
    sandbox.run(&["-c", "kept", "x"]).assert_exit(0);
    let named = outputs(&sandbox);
    sandbox.run(&["-c", "gone", "x"]).assert_exit(0);
    run(&sandbox, &["remove", "gone"]).assert_exit(0);
    for file in outputs(&sandbox) {
        age(&file, 40);
    }
    let report = run(&sandbox, &["prune", "--older", "0", "--json"]).assert_exit(0).json();
    assert_eq!(parts(&report), [("trash".to_owned(), 1), ("stored".to_owned(), 1)]);
    assert_eq!(outputs(&sandbox), named);
}
