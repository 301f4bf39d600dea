//! `nagent-file-apply`: blocks and diffs from stdin, refusals, files of all kinds, and what `git apply` makes of the same diff.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::process_under_test::Run;
use crate::sandbox::Sandbox;

pub(crate) const APPLY: &str = env!("CARGO_BIN_EXE_nagent-file-apply");
const TEXT: &str = "one\ntwo\nthree\nfour\nfive\n";
const DIFF: &str = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";

fn block(search: &str, replace: &str) -> String {
    format!("<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n")
}

fn run(sandbox: &Sandbox, args: &[&str], stdin: impl Into<Vec<u8>>) -> Run {
    sandbox.program(APPLY, &[&["--file", "f"], args].concat()).stdin(stdin).run()
}

#[track_caller]
fn refuses(sandbox: &Sandbox, stdin: &str, words: &[&str]) {
    let before = fs::read(sandbox.work().join("f")).ok();
    run(sandbox, &[], stdin).assert_exit(1).no_stdout().stderr_has(words);
    assert_eq!(fs::read(sandbox.work().join("f")).ok(), before);
}

#[test]
fn blocks_and_diffs_are_told_apart() {
    for input in [
        block("two\n", "TWO\n"),
        format!("```\n{}```\n", block("two\n", "TWO\n")),
        DIFF.to_owned(),
        format!("```diff\n{DIFF}```\n"),
        format!("Here it is:\n\n```diff\n{DIFF}```\n"),
        DIFF.replace("1,3 +1,3", "9,9 +7"),
        DIFF.replace("-1,3 +1,3 @@", "... @@"),
        DIFF.replace("--- a/f\n+++ b/f\n", ""),
        DIFF.replace('\n', "\r\n"),
        DIFF.trim_end().to_owned(),
        format!("diff --git a/f b/f\nindex 1..2 100644\n{DIFF}"),
        format!("From: somebody\n\nwords\n---\n f | 2 +-\n\n{DIFF}-- \n2.39.1\n\n"),
        DIFF.replace("a/f", "\"a/f\\303\\244\"").replace("b/f", "f\t2026-01-01 00:00:00"),
    ] {
        let sandbox = Sandbox::new().file("f", TEXT);
        let how = if input.contains('\r') { "line ends" } else { "exact" };
        let first = if input.contains("SEARCH") { 2 } else { 1 };
        let done = run(&sandbox, &[], input.as_str()).assert_exit(0).no_stderr();
        assert_eq!(done.stdout, format!("line {first}: -1 +1 ({how})\n"), "{input}");
        assert_eq!(sandbox.read("f"), TEXT.replace("two", "TWO"));
    }
}

#[test]
fn all_blocks_or_none() {
    let sandbox = Sandbox::new().file("f", TEXT);
    let input = block("two\n", "TWO\n") + &block("foour\n", "FOUR\n");
    refuses(&sandbox, &input, &["no edits applied", "block 2: not in the file", "4 | four"]);
    let input = block("two\n", "TWO\n") + &block("  four\n", "  FOUR\n");
    run(&sandbox, &[], input)
        .assert_exit(0)
        .stdout_is("line 2: -1 +1 (exact)\nline 4: -1 +1 (indent)\n");
    assert_eq!(sandbox.read("f"), "one\nTWO\nthree\nFOUR\nfive\n");
    refuses(&sandbox, &block("two\n", "TWO\n"), &["already applied: the replacement is at line 2"]);
}

#[test]
fn a_text_that_is_there_twice_is_refused_without_words_for_models() {
    let sandbox = Sandbox::new().file("f", "x\na\nx\n");
    let twice = run(&sandbox, &[], block("x\n", "y\n")).assert_exit(1);
    twice.stderr_has(&["matches 2 places", "until it occurs only once\n"]);
}

#[test]
fn json_has_its_keys() {
    let sandbox = Sandbox::new().file("f", TEXT);
    let path = sandbox.work().join("f");
    let diff = "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n one\n-two\n+TWO\n three\n four\n five\n";
    let dry = run(&sandbox, &["--dry-run", "--json"], DIFF).assert_exit(0).json();
    let mut expect = json!({
        "exit_code": 0, "file": path, "changed": true, "applied": false, "dry_run": true,
        "blocks": [{"first_line": 1, "removed": 1, "added": 1, "how": "exact"}], "refusals": [],
        "diff": diff, "previous_path": null,
    });
    assert_eq!(dry, expect);
    assert_eq!(sandbox.read("f"), TEXT);
    let document = run(&sandbox, &["--json"], DIFF).assert_exit(0).json();
    let previous = document["previous_path"].as_str().unwrap().to_owned();
    assert!(previous.starts_with(sandbox.root().join("outputs").to_str().unwrap()), "{previous}");
    assert_eq!(fs::read_to_string(&previous).unwrap(), TEXT);
    for (key, value) in
        [("applied", json!(true)), ("dry_run", json!(false)), ("previous_path", json!(previous))]
    {
        expect[key] = value;
    }
    assert_eq!(document, expect);
    let failed = run(&sandbox, &["--json"], block("TWOO\n", "x\n")).assert_exit(1).json();
    let refusal = &failed["refusals"][0];
    assert_eq!(
        (&refusal["block"], &refusal["line"], &refusal["cause"]),
        (&json!(1), &json!(1), &json!("missing"))
    );
    assert!(
        refusal["near"].as_array().unwrap().iter().any(|near| near["text"] == "TWO"),
        "{failed}"
    );
    assert!(refusal["message"].as_str().unwrap().contains("not in the file"));
    assert_eq!((&failed["changed"], &failed["diff"]), (&json!(false), &Value::Null));
}

#[test]
fn a_dry_run_prints_the_diff_and_writes_nothing() {
    let sandbox = Sandbox::new().file("f", TEXT);
    let before = fs::metadata(sandbox.work().join("f")).unwrap();
    let dry = run(&sandbox, &["--dry-run"], block("two\n", "2\n")).assert_exit(0).no_stderr();
    let after = fs::metadata(sandbox.work().join("f")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert!(!sandbox.root().join("outputs").exists());
    run(&sandbox, &[], dry.stdout).assert_exit(0);
    assert_eq!(sandbox.read("f"), TEXT.replace("two", "2"));
    // Nor does it make folders.
    let made =
        sandbox.program(APPLY, &["--file", "a/b/c", "--dry-run"]).stdin(block("", "new\n")).run();
    made.assert_exit(0).stdout_is("--- a/a/b/c\n+++ b/a/b/c\n@@ -0,0 +1 @@\n+new\n");
    assert!(!sandbox.work().join("a").exists());
}

#[test]
fn a_file_that_is_not_there_is_made_on_purpose() {
    let sandbox = Sandbox::new();
    refuses(&sandbox, &block("a\n", "b\n"), &["f does not exist"]);
    refuses(&sandbox, DIFF, &["f does not exist"]);
    let new = sandbox.program(APPLY, &["--file", "no/such/g"]).stdin(block("a\n", "b\n")).run();
    new.assert_exit(1);
    assert!(!sandbox.work().join("no").exists());
    run(&sandbox, &[], block("", "new\n")).assert_exit(0);
    assert_eq!(sandbox.read("f"), "new\n");
    fs::remove_file(sandbox.work().join("f")).unwrap();
    let diff = "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
    run(&sandbox, &[], diff).assert_exit(0);
    assert_eq!(sandbox.read("f"), "a\nb");
    refuses(&sandbox, diff, &["which already exists"]);
    let gone = "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n";
    refuses(&sandbox, gone, &["remove it yourself"]);
}

#[test]
fn hunks_hold_what_blocks_hold() {
    let check = |file: &str, diff: &str, expect: Result<&str, &str>| {
        let sandbox = Sandbox::new().file("f", file);
        match expect {
            Ok(text) => {
                run(&sandbox, &[], diff).assert_exit(0);
                assert_eq!(sandbox.read("f"), text);
            }
            Err(words) => refuses(&sandbox, diff, &[words]),
        }
    };
    let twice = "a\nx\nb\na\nx\nb\n";
    let hunk = |at: &str| format!("@@ {at} @@\n a\n-x\n+y\n b\n");
    check(twice, &hunk("-4,3 +4,3"), Ok("a\nx\nb\na\ny\nb\n"));
    check(twice, &hunk("-1,3 +1,3"), Ok("a\ny\nb\na\nx\nb\n"));
    check(twice, &hunk("-3,3 +3,3"), Err("2 places"));
    check(twice, &hunk("..."), Err("2 places"));
    check("  a\n  x\n  b\n a\n x\n b\n", &hunk("-4,3 +4,3"), Err("2 places"));
    check("a\nz\nb\n", &hunk("-1,3 +1,3"), Err("`x`, is `z` at line 2"));
    check("a\ny\nb\n", &hunk("-1,3 +1,3"), Err("already applied"));
    check("a  \r\nx\r\nb", &hunk("-1,3 +1,3"), Ok("a  \r\ny\r\nb"));
    check("a\n\nx\n\n", "@@ -1,4 +1,4 @@\n a\n\n-x\n+y\n\n", Ok("a\n\ny\n\n"));
    check("a\n\nx\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-x\n+y\n\n\n", Ok("a\n\ny\nb\n"));
    check("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", Ok("a\nb\n"));
    check("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", Ok("a\nb"));
    check(
        "a\nb\nc\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
        Err("not the end of the file"),
    );
    check("a\n", "@@ -1,0 +2 @@\n+b\n", Err("the search is empty"));
    check("-- a\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n--- a\n+++ a\n", Ok("++ a\n"));
}

#[test]
fn wrong_input_says_what_it_should_be() {
    let sandbox = Sandbox::new().file("f", TEXT);
    for (input, words) in [
        ("", "nothing on stdin"),
        ("\n \n", "nothing on stdin"),
        ("hello", "neither blocks nor a diff"),
        ("<<<<<<< SEARCH\na\n", "line 1 of the blocks"),
        ("<<<<<<< HEAD\na\n", "of the blocks"),
        ("--- a/f\n+++ b/f\n", "no hunk"),
        ("@@ -1 +1 @@\n one\n", "no line that begins with `-` or `+`"),
        ("@@ -1,2 +1,2 @@\n-one\n+1\ntwo\n", "line 4 of the diff"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "binary"),
    ] {
        run(&sandbox, &[], input).assert_exit(2).no_stdout().stderr_has(&[words]);
    }
    let other = DIFF.replace("/f", "/g");
    refuses(&sandbox, &format!("{DIFF}{other}"), &["a diff of 2 files (f, g)"]);
    let mode = format!("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n{DIFF}");
    run(&sandbox, &["--dry-run"], mode).assert_exit(0);
    sandbox.program(APPLY, &["--dry-run"]).stdin(DIFF).run().assert_exit(2).stderr_has(&["--file"]);
    let line = format!("{APPLY} --file f");
    let script = ["-q", "-e", "-f", "-c", line.as_str(), "/dev/null"];
    let terminal = sandbox.program("script", &script).env("SHELL", "/bin/sh").silent_stdin().run();
    let terminal = terminal.assert_exit(2).within(5.0);
    assert!(terminal.stdout.contains("which is a terminal"), "{}", terminal.stdout);
    assert_eq!(sandbox.read("f"), TEXT);
}

#[test]
fn files_that_cannot_be_changed_are_not() {
    let sandbox = Sandbox::new().file("d/f", TEXT).file(".git/config", TEXT).file("locked", TEXT);
    fs::set_permissions(sandbox.work().join("locked"), Permissions::from_mode(0o444)).unwrap();
    let fifo = sandbox.work().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    symlink("nowhere/at/all", sandbox.work().join("dangling")).unwrap();
    for (file, words) in [
        ("d", "folder"),
        ("d/", "folder"),
        ("fifo", "FIFO"),
        (".git/config", "repository's own data"),
        ("locked", "read-only"),
        ("dangling", "does not exist"),
        ("d/f/g", "d/f"),
    ] {
        let done = sandbox.program(APPLY, &["--file", file]).stdin(block("two\n", "2\n")).run();
        done.assert_exit(1).no_stdout().stderr_has(&[words]).within(10.0);
    }
    let stream = sandbox.program(APPLY, &["--file", "/dev/null"]).stdin(block("two\n", "2\n"));
    stream.run().assert_exit(2).no_stdout().stderr_has(&["is a stream"]);
    assert_eq!(sandbox.read("locked"), TEXT);
}

#[test]
fn mode_links_and_bytes_stay() {
    let sandbox = Sandbox::new();
    let latin = b"caf\xe9 au lait\r\ntwo\r\n\xff\xfe\r\nthree";
    let path = sandbox.write("real", latin);
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    symlink("real", sandbox.work().join("f")).unwrap();
    run(&sandbox, &[], block("two\n", "2\n")).assert_exit(0);
    let expect = b"caf\xe9 au lait\r\n2\r\n\xff\xfe\r\nthree";
    assert_eq!(fs::read(&path).unwrap(), expect);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
    assert!(fs::symlink_metadata(sandbox.work().join("f")).unwrap().is_symlink());
    fs::hard_link(&path, sandbox.work().join("other")).unwrap();
    run(&sandbox, &[], b"@@ -1 +1 @@\n-caf\xe9 au lait\n+caf\xe9 noir\n".to_vec()).assert_exit(0);
    let expect = b"caf\xe9 noir\r\n2\r\n\xff\xfe\r\nthree";
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(sandbox.work().join("other")).unwrap()),
        (expect.to_vec(), expect.to_vec())
    );
    run(&sandbox, &[], block("x\n", "y\n")).assert_exit(1).no_stdout();
    assert_eq!(fs::read(&path).unwrap(), expect);
    assert_eq!(fs::read_dir(sandbox.work()).unwrap().count(), 3);
}

/// What `git diff` prints is applied as `git apply` applies it.
#[test]
fn a_diff_of_git_gives_what_git_gives() {
    let line = prop_oneof!["[a-c]{0,2}", "[ \t]{0,2}[a-z ]{0,8}", Just("}".to_owned())];
    let text = (proptest::collection::vec(line, 0..30), any::<bool>(), any::<bool>()).prop_map(
        |(lines, end, crlf)| {
            let mut text = lines.join("\n");
            if end && !text.is_empty() {
                text.push('\n');
            }
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    );
    let edit = (0..40usize, 0..4usize, proptest::collection::vec("[a-z ]{0,6}", 0..4));
    let edits = proptest::collection::vec(edit, 1..4);
    let sandbox = Sandbox::new().git();
    let mut runner =
        TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let applied = std::cell::Cell::new(0);
    let ran = runner.run(&(text, edits), |(old, edits)| {
        let end = if old.contains('\r') { "\r\n" } else { "\n" };
        let mut lines: Vec<String> = old.split_inclusive('\n').map(str::to_owned).collect();
        for (at, gone, come) in edits {
            let at = at.min(lines.len());
            let to = (at + gone).min(lines.len());
            lines.splice(at..to, come.into_iter().map(|line| line + end));
        }
        let new = lines.concat();
        sandbox.write("old", &old);
        sandbox.write("new", &new);
        let diff = sandbox.program("git", &["diff", "--no-index", "--", "old", "new"]).run().stdout;
        if diff.is_empty() || old.is_empty() || new.is_empty() {
            return Ok(());
        }
        let diff = diff.replace("a/old", "a/f").replace("b/new", "b/f");
        sandbox.write("f", &old);
        let ours = run(&sandbox, &[], diff.as_str());
        let got = sandbox.read("f");
        sandbox.write("f", &old);
        sandbox
            .program("git", &["apply", "--whitespace=nowarn", "-"])
            .stdin(diff.as_str())
            .run()
            .assert_exit(0);
        prop_assert_eq!(&sandbox.read("f"), &new);
        if ours.code == 0 {
            applied.set(applied.get() + 1);
            prop_assert_eq!(got, new, "{}", diff);
        } else {
            // What the line ends alone change, and what is there already around its place, is refused and never guessed at.
            let words = ["the same", "already applied", "is empty"];
            prop_assert!(
                words.iter().any(|word| ours.stderr.contains(word)),
                "{}\n{}",
                diff,
                ours.stderr
            );
        }
        Ok(())
    });
    ran.unwrap();
    assert!(applied.get() > 30, "{} diffs were applied", applied.get());
}
