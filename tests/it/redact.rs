//! Credentials of the environment, masked in results, whole outputs and attributes; masks that may not be written.

use serde_json::json;

use crate::actions::act;
use crate::sandbox::{CANARY, Sandbox, answer, shell};

/// The mask of [`CANARY`].
const MASK: &str = "[key OPENAI_API_KEY]";

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
fn a_credential_in_a_path_is_masked_in_its_result() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(format!("<nagent-read path=\"/nowhere/{CANARY}\"/>"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.run(&["--lines", "task"]).assert_exit(0);
    let finish = run.stdout.lines().find(|line| line.contains("\"event\":\"finish\"")).unwrap();
    assert!(finish.contains("/nowhere/[key") && !finish.contains(CANARY), "{finish}");
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
fn attributes_and_names_are_masked() {
    let sandbox = Sandbox::new().file(&format!("dir/{CANARY}"), "x\n");
    for tag in [
        format!("<nagent-read path=\"dir/{CANARY}\"/>"),
        "<nagent-list path=\"dir\"/>".to_owned(),
        "<nagent-glob pattern=\"**\"/>".to_owned(),
        format!("<nagent-grep pattern=\"{CANARY}\"/>"),
    ] {
        let name = tag[1..].split(' ').next().unwrap().to_owned();
        let block = format!("{:?}", act(&sandbox, &tag, &format!("{name}-result")));
        assert!(block.contains(MASK) && !block.contains(CANARY), "{block}");
    }
}

#[test]
fn lines_that_a_search_cut_show_no_part_of_a_secret() {
    let sandbox = Sandbox::new();
    // 300 characters are shown: they end, and begin, within the key.
    let ends = format!("WORD {}{CANARY}\n", "ab ".repeat(92));
    let begins = format!("{}{CANARY} {}WORD\n", "cd ".repeat(200), "ab ".repeat(90));
    for (line, part) in [(ends, &CANARY[..8]), (begins, &CANARY[CANARY.len() - 6..])] {
        sandbox.write("long", &line);
        let block = act(&sandbox, "<nagent-grep pattern=\"WORD\"/>", "nagent-grep-result");
        assert!(block.body.contains('…') && block.body.contains("ab "), "{block:?}");
        assert!(!block.body.contains(part), "{block:?}");
    }
}

#[test]
fn a_write_that_holds_a_mask_is_refused() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("env");
    let text = format!("user=me\ntoken {CANARY}\nport=1\n");
    std::fs::write(&path, &text).unwrap();
    let block =
        act(&sandbox, &format!("<nagent-read path=\"{}\"/>", path.display()), "nagent-read-result");
    let word = MASK;
    assert!(block.body.contains(word), "{block:?}");
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
        assert!(block.body.contains(word) && block.body.contains("smaller SEARCH"), "{block:?}");
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
    let sandbox = Sandbox::new();
    let text: String = (0..4000).map(|n| format!("line {n} of a long file\n")).collect();
    let text = format!("{text}token {CANARY}\n");
    let path = sandbox.tmp().join("long.txt");
    std::fs::write(&path, &text).unwrap();
    let tag = format!("<nagent-file-read path=\"{}\"/>", path.display());
    let block = act(&sandbox, &tag, "nagent-file-read-result");
    let folder = block.body.lines().find_map(|line| line.strip_prefix("The segments are in "));
    let name = block.body.lines().last().unwrap().split(", ").nth(2).unwrap();
    let name = name.split_once(": ").unwrap().0;
    let last = format!("{}{name}", folder.unwrap().trim_end_matches(':'));
    let word = MASK;
    let commands = format!("sed -i 's/token .*/token {word}/' {last}");
    act(&sandbox, &shell(&commands), "nagent-shell-result");
    let tag = format!("<nagent-file-patch index=\"{}\"/>", block.get("index_path"));
    let refused = act(&sandbox, &tag, "nagent-file-patch-result");
    assert_eq!(refused.get("status"), "error");
    assert!(refused.body.contains(word), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_output_of_a_check_is_masked() {
    let sandbox = Sandbox::new().replies([answer("one"), answer("two")]);
    let check = format!(
        "if [ -e {0}/ok ]; then true; else touch {0}/ok; echo {CANARY}; false; fi",
        sandbox.tmp().display()
    );
    sandbox.run(&["--check", &check, "task"]).assert_exit(0);
    let block = &sandbox.blocks_of("system")[0];
    assert!(block.body.contains(MASK), "{block:?}");
    assert!(!format!("{block:?}").contains(CANARY), "the command in its attribute too: {block:?}");
}
