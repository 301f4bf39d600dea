//! `--redact`: shapes of credentials masked in results, whole outputs and attributes; masks that may not be written.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::actions::act;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell};

/// Secrets that nothing but their shape gives away; put together, so that scanners let this file pass.
const GITHUB: &str = concat!("ghp", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z");
const ANTHROPIC: &str = concat!("sk-ant", "-api03-Zq8xW2rTn5vLk9Bd");
const URL: &str = concat!("postgres://app", ":hunter2!x@db.example/app");

fn redacting() -> Sandbox {
    Sandbox::new().config_also(json!({"redact": true}))
}

/// The same where tags may not write: of a file that may be written, what was shown is kept as it is, for undo.
fn redacting_outside() -> Sandbox {
    Sandbox::outside_temp().config_also(json!({"redact": true}))
}

/// A private key over several lines.
fn pem() -> String {
    let body: String = (0..20)
        .map(|n| format!("MIIEpAIBAAKCAQEA0a{n:02}xKq8Lm2Pv9Rt4Wz7Yb3Nc6Hd1Jf5Gs0\n"))
        .collect();
    let (begin, end) = ("-----BEGIN PRIVATE", "-----END PRIVATE");
    format!("{begin} KEY-----\n{body}{end} KEY-----\n")
}

/// The mask in a text that begins so.
fn mask<'a>(text: &'a str, kind: &str) -> &'a str {
    let start = text.find(&format!("[masked {kind} ")).unwrap_or_else(|| panic!("{text}"));
    &text[start..=start + text[start..].find(']').unwrap()]
}

#[test]
fn results_hold_masks_and_say_how_many() {
    let text = format!("a {GITHUB}\nb {GITHUB}\nc {ANTHROPIC}\n{URL}\n");
    let sandbox = redacting_outside().file("env", &text);
    let block = act(&sandbox, "<nagent-read path=\"env\"/>", "nagent-read-result");
    assert_eq!(block.get("redacted"), "4");
    let github = mask(&block.body, "github-token").to_owned();
    assert!(block.body.starts_with(&format!("a {github}\nb {github}\nc [masked anthropic-key ")));
    assert!(block.body.contains("postgres://app:[masked url-password "), "{block:?}");
    for tag in [
        shell("cat env"),
        "<nagent-grep pattern=\"a |b \"/>".to_owned(),
        "<nagent-file-read path=\"env\"/>".to_owned(),
    ] {
        let name = tag[1..].split([' ', '>']).next().unwrap().to_owned();
        let block = act(&sandbox, &tag, &format!("{name}-result"));
        assert!(
            block.body.contains(&github),
            "another run, another tool, the same mask: {block:?}"
        );
    }
    let everything = sandbox.everything_at_home();
    for secret in [GITHUB, ANTHROPIC, "hunter2"] {
        assert!(!everything.contains(secret), "{secret}");
        for request in sandbox.requests() {
            assert!(!request.text().contains(secret), "{secret}");
        }
    }
}

#[test]
fn nothing_is_masked_unless_it_is_asked_for() {
    let sandbox = Sandbox::new().file("env", GITHUB);
    let block = act(&sandbox, "<nagent-read path=\"env\"/>", "nagent-read-result");
    assert_eq!(block.body, GITHUB);
    assert!(!format!("{block:?}").contains("redacted"));
    sandbox.llm.push("<nagent-read path=\"env\"/>");
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--redact", "task"]).assert_exit(0);
    assert!(sandbox.blocks_of("nagent-read-result")[1].body.starts_with("[masked github-token "));
    let status = sandbox.run(&["--status", "--json", "--redact"]).assert_exit(0).json();
    assert_eq!(status["settings"]["redact"], json!({"value": true, "from": "flag"}));
}

#[test]
fn whole_outputs_are_masked_before_they_have_a_name() {
    let sandbox = redacting();
    // One secret across the end of the head, one in what is left out, one across a chunk of the pipe.
    let commands = format!(
        "printf '%8180s' x; echo ' {GITHUB}'; yes line | head -c 60000; echo; echo {ANTHROPIC}; yes line | head -c 70000; echo; echo {URL}"
    );
    let block = act(&sandbox, &shell(&commands), "nagent-shell-result");
    assert_eq!(block.get("redacted"), "3");
    let whole = std::fs::read_to_string(block.get("output")).unwrap();
    assert_eq!(block.get("bytes"), whole.len().to_string());
    for kind in ["github-token", "anthropic-key", "url-password"] {
        assert_eq!(whole.matches(&format!("[masked {kind} ")).count(), 1, "{kind}");
    }
    for part in ["ghp_", "sk-ant-", "hunter2"] {
        let results: String = sandbox.blocks_of("nagent-shell-result")[0].body.clone();
        assert!(!results.contains(part) && !whole.contains(part), "{part}");
    }
    let outputs = std::fs::read_dir(sandbox.root().join("outputs")).unwrap().count();
    assert_eq!(outputs, 1, "the raw output is nowhere");
}

#[test]
fn bytes_that_are_no_text_are_masked_where_they_are_kept() {
    let sandbox =
        redacting().file("mixed", [b"\xff ".as_slice(), GITHUB.as_bytes(), b"\n"].concat());
    for (tag, name) in [
        ("<nagent-read path=\"mixed\"/>".to_owned(), "nagent-read-result"),
        (shell("cat mixed"), "nagent-shell-result"),
    ] {
        let block = act(&sandbox, &tag, name);
        let kept = std::fs::read(block.get("output")).unwrap();
        assert!(kept.starts_with(b"\xff [masked github-token "), "{block:?}");
    }
}

#[test]
fn private_keys_are_masked_whole_and_in_pieces() {
    let key = pem();
    let sandbox = redacting().file("id", &key);
    for (tag, name) in [
        ("<nagent-read path=\"id\"/>", "nagent-read-result"),
        ("<nagent-read path=\"id\" offset=\"5\" limit=\"3\"/>", "nagent-read-result"),
        ("<nagent-grep pattern=\".\" path=\"id\"/>", "nagent-grep-result"),
        ("<nagent-shell>cat -n id</nagent-shell>", "nagent-shell-result"),
        ("<nagent-shell>head -5 id</nagent-shell>", "nagent-shell-result"),
        ("<nagent-shell>tail -5 id</nagent-shell>", "nagent-shell-result"),
    ] {
        let block = act(&sandbox, tag, name);
        assert!(block.body.contains("[masked private-key "), "{tag}: {block:?}");
        for line in key.lines().filter(|line| !line.contains("-----")) {
            assert!(!block.body.contains(line), "{tag}: {block:?}");
        }
    }
}

#[test]
fn attributes_and_names_are_masked() {
    let sandbox = redacting().file(&format!("dir/{GITHUB}"), "x\n");
    for tag in [
        format!("<nagent-read path=\"dir/{GITHUB}\"/>"),
        "<nagent-list path=\"dir\"/>".to_owned(),
        "<nagent-glob pattern=\"**\"/>".to_owned(),
        format!("<nagent-grep pattern=\"{GITHUB}\"/>"),
    ] {
        let name = tag[1..].split(' ').next().unwrap().to_owned();
        let block = act(&sandbox, &tag, &format!("{name}-result"));
        assert!(format!("{block:?}").contains("[masked github-token "), "{block:?}");
        assert!(!format!("{block:?}").contains("ghp_"), "{block:?}");
    }
}

#[test]
fn lines_that_a_search_cut_show_no_part_of_a_secret() {
    let sandbox = redacting();
    // 300 characters are shown: they end, and begin, within the token.
    let ends = format!("WORD {}{GITHUB}\n", "ab ".repeat(92));
    let begins = format!("{}{GITHUB} {}WORD\n", "cd ".repeat(200), "ab ".repeat(90));
    for (line, part) in [(ends, "ghp_"), (begins, "Pq9z")] {
        sandbox.write("long", &line);
        let block = act(&sandbox, "<nagent-grep pattern=\"WORD\"/>", "nagent-grep-result");
        assert!(block.body.contains('…') && block.body.contains("ab "), "{block:?}");
        assert!(!block.body.contains(part), "{block:?}");
    }
}

#[test]
fn a_write_that_holds_a_mask_is_refused() {
    let sandbox = redacting();
    let path = sandbox.tmp().join("env");
    let text = format!("user=me\ntoken {GITHUB}\nport=1\n");
    std::fs::write(&path, &text).unwrap();
    let block =
        act(&sandbox, &format!("<nagent-read path=\"{}\"/>", path.display()), "nagent-read-result");
    let word = mask(&block.body, "github-token").to_owned();
    for (tag, name) in [
        (
            format!("<nagent-write path=\"{}\">token {word}\n</nagent-write>", path.display()),
            "nagent-write-result",
        ),
        (
            format!(
                "<nagent-edit path=\"{}\">\n<<<<<<< SEARCH\ntoken {word}\n=======\ntoken x\n>>>>>>> REPLACE\n</nagent-edit>",
                path.display()
            ),
            "nagent-edit-result",
        ),
    ] {
        let block = act(&sandbox, &tag, name);
        assert_eq!(block.get("status"), "error");
        assert!(block.body.contains(&word) && block.body.contains("smaller SEARCH"), "{block:?}");
        assert_eq!(block.get("path"), path.display().to_string());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // Around it, it may be edited; and what it held is kept as it was.
    let tag = format!(
        "<nagent-edit path=\"{}\">\n<<<<<<< SEARCH\nport=1\n=======\nport=2\n>>>>>>> REPLACE\n</nagent-edit>",
        path.display()
    );
    let block = act(&sandbox, &tag, "nagent-edit-result");
    assert_eq!(block.get("status"), "ok");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text.replace("port=1", "port=2"));
    assert_eq!(std::fs::read_to_string(sandbox.stored(block.get("previous"))).unwrap(), text);
}

#[test]
fn segments_that_hold_a_mask_are_not_put_back() {
    let sandbox = redacting();
    let text: String = (0..4000).map(|n| format!("line {n} of a long file\n")).collect();
    let text = format!("{text}token {GITHUB}\n");
    let path = sandbox.tmp().join("long.txt");
    std::fs::write(&path, &text).unwrap();
    let tag = format!("<nagent-file-read path=\"{}\"/>", path.display());
    let block = act(&sandbox, &tag, "nagent-file-read-result");
    let folder = block.body.lines().find_map(|line| line.strip_prefix("The segments are in "));
    let name = block.body.lines().last().unwrap().split(", ").nth(2).unwrap();
    let name = name.split_once(": ").unwrap().0;
    let last = format!("{}{name}", folder.unwrap().trim_end_matches(':'));
    let block_read =
        act(&sandbox, &format!("<nagent-read path=\"{last}\"/>"), "nagent-read-result");
    let word = mask(&block_read.body, "github-token");
    let commands = format!("sed -i 's/token .*/token {word}/' {last}");
    act(&sandbox, &shell(&commands), "nagent-shell-result");
    let tag = format!("<nagent-file-patch index=\"{}\"/>", block.get("index_path"));
    let refused = act(&sandbox, &tag, "nagent-file-patch-result");
    assert_eq!(refused.get("status"), "error");
    assert!(refused.body.contains(word), "{refused:?}");
    // Nor those that are too large to tell.
    act(&sandbox, &shell(&format!("truncate -s 65M {last}")), "nagent-shell-result");
    let refused = act(&sandbox, &tag, "nagent-file-patch-result");
    assert!(refused.body.contains("cannot be checked for masked credentials"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn children_and_files_conversations_mask_too() {
    let sandbox = Sandbox::outside_temp().file("env", GITHUB);
    sandbox.llm.choose(move |request| {
        if request.user().contains("</nagent-conversation-result") {
            answer("done").into()
        } else if request.user().contains("</nagent-read-result") {
            answer("read it").into()
        } else if request.user().contains("child work") {
            "<nagent-read path=\"env\"/>".into()
        } else {
            "<nagent-conversation>child work</nagent-conversation>".into()
        }
    });
    sandbox.run(&["--redact", "task"]).assert_exit(0);
    let file_edit = env!("CARGO_BIN_EXE_nagent-file-edit");
    sandbox.program(file_edit, &["a", "--redact", "child work"]).run().assert_exit(0);
    assert!(!sandbox.everything_at_home().contains(GITHUB));
    assert!(sandbox.everything_at_home().matches("[masked github-token ").count() >= 2);
}

#[test]
fn what_the_user_and_the_model_say_is_theirs() {
    let sandbox = redacting().reply(answer(&format!("your token is {GITHUB}")));
    let run = sandbox.run(&[format!("remember {GITHUB}")]).assert_exit(0);
    run.stdout_is(&format!("your token is {GITHUB}\n"));
    assert!(sandbox.block("user-prompt").body.contains(GITHUB));
    assert!(sandbox.block("agent-response").body.contains(GITHUB));
}

#[test]
fn the_output_of_a_check_is_masked() {
    let sandbox = redacting().replies([answer("one"), answer("two")]);
    let check = format!(
        "if [ -e {0}/ok ]; then true; else touch {0}/ok; echo {GITHUB}; false; fi",
        sandbox.tmp().display()
    );
    sandbox.run(&["--check", &check, "task"]).assert_exit(0);
    let block = &sandbox.blocks_of("system")[0];
    assert!(block.body.contains("[masked github-token "), "{block:?}");
    assert!(!format!("{block:?}").contains("ghp_"), "the command in its attribute too: {block:?}");
}

// Without any flag: what this process knows.

#[test]
fn a_credential_of_the_environment_is_masked_by_whatever_way_it_comes() {
    let sandbox = Sandbox::outside_temp()
        .env("OTHER_TOKEN", "another canary, 99 words")
        .file("copy", format!("key: {CANARY}; {CANARY}x another canary, 99 words\n"))
        .file("bytes", [b"\xff".as_slice(), CANARY.as_bytes()].concat());
    let expect = "key: [key OPENAI_API_KEY]; [key OPENAI_API_KEY]x [key OTHER_TOKEN]";
    for (tag, name) in [
        (shell("cat copy"), "nagent-shell-result"),
        (shell("cat copy >&2; exit 3"), "nagent-shell-result"),
        ("<nagent-read path=\"copy\"/>".to_owned(), "nagent-read-result"),
        ("<nagent-grep pattern=\"key\" path=\"copy\"/>".to_owned(), "nagent-grep-result"),
    ] {
        let block = act(&sandbox, &tag, name);
        assert!(block.body.contains(expect), "{block:?}");
        assert_eq!(block.get("redacted"), "3", "{block:?}");
    }
    let block = act(&sandbox, &shell("cat bytes"), "nagent-shell-result");
    assert!(std::fs::read(block.get("output")).unwrap().ends_with(b"[key OPENAI_API_KEY]"));
    // Across the end of the head, and where only the whole has it.
    let commands = "for n in 8185 8170 70000; do printf \"%${n}s\" x; cat copy; done";
    let block = act(&sandbox, &shell(commands), "nagent-shell-result");
    assert_eq!(block.get("redacted"), "9");
    sandbox.llm.push(answer("one"));
    sandbox
        .run(&["--check", "cat copy; [ $(cat n 2>/dev/null || echo 0) = 0 ] && echo 1 >n", "task"])
        .assert_exit(0);
    assert!(!sandbox.everything_at_home().contains(CANARY));
    for request in sandbox.requests() {
        assert!(!request.text().contains(CANARY));
    }
}

#[test]
fn a_childs_answer_and_a_long_one_hold_no_credential_of_the_environment() {
    let sandbox = Sandbox::new();
    let long = format!("{}{CANARY}", "long ".repeat(5000));
    sandbox.llm.choose(move |request| {
        if request.user().contains("</nagent-conversation-result") {
            answer("done").into()
        } else if request.user().contains("child work") {
            answer(&long).into()
        } else {
            "<nagent-conversation name=\"kid\">child work</nagent-conversation>".into()
        }
    });
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let text = std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap();
    assert!(!text.contains(CANARY) && text.contains("[key OPENAI_API_KEY]"), "{text}");
    let outputs = sandbox.root().join("outputs");
    for entry in std::fs::read_dir(outputs).unwrap() {
        assert!(!std::fs::read_to_string(entry.unwrap().path()).unwrap().contains(CANARY));
    }
}

#[test]
fn what_is_passed_to_commands_is_shown_and_short_values_are_no_secrets() {
    let sandbox = Sandbox::new()
        .env("SHORT_KEY", "1234567")
        .config_also(json!({"pass_env": ["OPENAI_API_KEY"]}));
    let block = act(&sandbox, &shell("echo $OPENAI_API_KEY 1234567"), "nagent-shell-result");
    assert_eq!(block.body, format!("{CANARY} 1234567"));
}

#[test]
fn a_look_makes_no_key_and_a_second_run_goes_on_with_the_first_ones() {
    let sandbox = Sandbox::new().file("env", GITHUB);
    let key = sandbox.root().join("redact.key");
    let shown =
        sandbox.run(&["--redact", "--show-request", "--read", "env", "task"]).assert_exit(0);
    assert!(!shown.stdout.contains(GITHUB) && !key.exists());
    sandbox.llm.push(answer("done"));
    let nagent = sandbox.program(NAGENT, &["--redact", "task"]);
    nagent.run().assert_exit(0);
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
}
