//! What runs leave behind, beside the tables of files and blocks.

use std::collections::BTreeSet;

use conversation::format;
use regex::Regex;

use super::{names, quoted, table};
use crate::approve::answer_questions;
use crate::blocks::blocks;
use crate::conversations::CONVERSATIONS;
use crate::each::EACH;
use crate::file_memory::commit;
use crate::sandbox::{Sandbox, answer, shell};
use crate::steering::MESSAGE;
use crate::summarize::SUMMARIZE;

pub(super) const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
pub(super) const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");

/// A definition. Some thousand of them are a large file.
pub(super) const LARGE: &str = "def f(): 0\n";

/// A world in which a run has left behind every kind of file and of block, and the files that were there meanwhile.
fn busy() -> (Sandbox, String) {
    let sandbox = Sandbox::outside_temp();
    let child = "<nagent-conversation>look</nagent-conversation>";
    let replies = [
        "no tag".to_owned(),
        [
            "<nagent-response>working</nagent-response>",
            "<nagent-list path=\".\"/><nagent-glob pattern=\"*.txt\"/>",
            "<nagent-grep pattern=\"x\" path=\".\" glob=\"*.txt\"/>",
            "<nagent-read path=\"a.txt\" offset=\"1\" limit=\"1\"/><nagent-file-read path=\"a.txt\"/>",
            "<nagent-file-read path=\"big.py\"/><nagent-file-patch index=\"i\"/><nagent-write path=\"a.txt\">new\n</nagent-write>",
            "<nagent-edit path=\"a.txt\" all=\"true\">\n<<<<<<< SEARCH\nnew\n=======\nnewer\n>>>>>>> REPLACE\n</nagent-edit>",
            "<nagent-shell>seq 9999; cd \"$NAGENT_ROOT\" && find . -type f</nagent-shell>",
        ]
        .concat(),
        format!("<nagent-next>go on</nagent-next>{child}"),
        answer("of the child"),
        answer("done"),
        answer("edited"),
        // An edit of the conversation that leaves nothing of it: the copy stays.
        format!("<nagent-shell>cp /dev/null \"$NAGENT_ROOT\"/conversations/main-edit-{}</nagent-shell>", "?".repeat(32)),
        answer("edited"),
    ];
    let sandbox =
        sandbox.file("a.txt", "x\ny\n").file("big.py", LARGE.repeat(7_000)).replies(replies);
    commit(&sandbox, "begin");
    sandbox.write("untracked.txt", "stored before a command\n");
    std::fs::create_dir(sandbox.root().join("bin")).unwrap();
    for (name, text) in
        [("mcp.json", "{}"), ("context.md", "Be brief.\n"), ("context.yaml", "[context.md]\n")]
    {
        std::fs::write(sandbox.root().join(name), text).unwrap();
    }
    sandbox.script(&sandbox.root().join("bin/own").display().to_string(), "#!/bin/sh\n");
    sandbox.run(&["--conversation", "main", "--check", "true", "task"]).assert_exit(0);
    let shown = sandbox.root().join("conversations/main");
    let shown = std::fs::read_to_string(shown).unwrap();
    let results = blocks(&shown);
    let output = results.iter().find(|b| b.name == "nagent-shell-result").unwrap().get("output");
    let meanwhile = std::fs::read_to_string(output).unwrap();
    sandbox.run(&["--conversation", "main", "--save-conversation", "kept"]).assert_exit(0);
    std::fs::write(sandbox.root().join("conversations/file-index-123.json"), "{}").unwrap();
    sandbox.run(&["--file-edit", "a.txt", "--no-summaries", "edit it"]).assert_exit(0);
    sandbox.run(&["--conversation", "main", "--edit-conversation", "spoil it"]).assert_exit(1);
    let conversations = sandbox.root().join("conversations");
    std::fs::copy(conversations.join("main"), conversations.join("gone")).unwrap();
    std::fs::create_dir(conversations.join("gone.invalid")).unwrap();
    std::fs::write(conversations.join("gone.invalid/1.txt"), "no tag").unwrap();
    sandbox.program(CONVERSATIONS, &["remove", "gone"]).run().assert_exit(0);
    sandbox.llm.push(answer("again"));
    sandbox.run(&["--continue", "go on"]).assert_exit(0);
    sandbox.run(&["--status", "--sandbox", "workspace"]).assert_exit(0);
    sandbox.llm.push("<nagent-conversation file=\"new.txt\">look</nagent-conversation>");
    sandbox.llm.push(answer("of the child"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--conversation", "advised", "task"]).assert_exit(0);
    sandbox.llm.push(shell("true"));
    sandbox.llm.push(answer("done"));
    answer_questions(&sandbox, &["--approve", "shell"], &["a"]);
    sandbox.program(MESSAGE, &["-c", "advised", "read"]).run().assert_exit(0);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--conversation", "advised", "task"]).assert_exit(0);
    sandbox.llm.push(answer("done"));
    sandbox.program(EACH, &["--lines", "x"]).stdin("a\n").run().assert_exit(0);
    sandbox.program(MESSAGE, &["-c", "advised", "not read"]).run().assert_exit(0);
    sandbox.llm.push(answer("hi"));
    let mut pty = sandbox.repl(&["--conversation", "typed"]).on_pty(80);
    pty.expect("» ");
    pty.type_keys("typed\r");
    pty.expect_times("\x1b[?2004h", 2);
    pty.type_keys("\x04");
    pty.wait();
    sandbox.llm.push("<nagent-write path=\"logged.txt\">x</nagent-write>");
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--conversation", "logged", "--write", ".", "task"]).assert_exit(0);
    sandbox.write("AGENTS.md", "words\n");
    sandbox.run(&["--trust"]).assert_exit(0);
    std::fs::create_dir(sandbox.root().join("looks")).unwrap();
    std::fs::create_dir_all(sandbox.root().join("skills/own")).unwrap();
    std::fs::write(sandbox.root().join("skills/own/SKILL.md"), "").unwrap();
    std::fs::write(sandbox.root().join("looks/own.json"), "{}").unwrap();
    sandbox.llm.push("text");
    sandbox.llm_text(&["a.txt"]).run().assert_exit(0);
    // A model that tells which files there are while a summary is asked for, in the summary.
    let list = format!("cd '{}' && find . -type f", sandbox.root().display());
    let program = serde_json::json!({"provider": "command", "command": ["sh", "-c", list]});
    sandbox.write("program.json", program.to_string());
    let args = ["--file", "a.txt", "--config", "program.json"];
    let listed = sandbox.program(SUMMARIZE, &args).run().assert_exit(0).stdout;
    let meanwhile = meanwhile + &listed;
    let meanwhile = meanwhile.lines().filter(|line| line.starts_with("./"));
    (sandbox, meanwhile.map(|line| format!("{}\n", &line[2..])).collect())
}

#[test]
fn every_file_on_disk_is_in_the_table() {
    let (sandbox, meanwhile) = busy();
    let found = std::process::Command::new("find")
        .args([".", "-type", "f", "-printf", "%P\\n"])
        .current_dir(sandbox.root())
        .output()
        .unwrap();
    let all = meanwhile + &String::from_utf8(found.stdout).unwrap();
    let rows = names(&table("ARCHITECTURE.md", "file"));
    let patterns: Vec<Regex> = rows
        .iter()
        .map(|row| {
            let pattern = regex::escape(row)
                .replace(r"\{name\}", "[A-Za-z0-9._-]+")
                .replace(r"\{n\}", r"\d+")
                .replace(r"\{sha256\}", "[0-9a-f]{64}")
                .replace(r"\{time\}", r"\d{16}")
                .replace(r"\{id8\}", "[0-9a-f]{8}")
                .replace(r"\{slug\}", "[a-z0-9-]+")
                .replace(r"\{uuid\}", "[0-9a-f-]{32,36}")
                .replace(r"\{id\}", "[0-9a-f]{12}")
                .replace(r"\{hash\}", "[0-9a-f]{12}")
                .replace(r"\{pid\}", r"\d+")
                .replace(
                    r"\{repository\}/\{path\}/\{head\}",
                    "[0-9a-f]{24}/[0-9a-f]{24}/[0-9a-f]{40}",
                )
                .replace(r"\{file\}", "[^/]+");
            Regex::new(&format!("(?m)^{pattern}$")).unwrap()
        })
        .collect();
    // Files that are being written.
    let unfinished = Regex::new(r"(^|/)\.(new|output)-\w+$").unwrap();
    for file in all.lines().filter(|file| !unfinished.is_match(file)) {
        // An index is no conversation, though it is called like one.
        let is_index = |name: &str| name.contains("-index");
        let is_lock = file.starts_with("conversations/.locks/");
        let mut all = rows.iter().zip(&patterns);
        assert!(
            all.any(|(row, pattern)| pattern.is_match(file)
                && (is_lock || is_index(row) == is_index(file))),
            "no row tells of {file}"
        );
    }
    for (row, pattern) in rows.iter().zip(patterns) {
        assert!(pattern.is_match(&all), "no run left a {row}:\n{all}");
    }
}

#[test]
fn every_file_of_a_split_is_in_the_table() {
    let sandbox = Sandbox::new().file("big.py", LARGE.repeat(7_000));
    let split = |args: &[&str]| {
        sandbox
            .program(SPLIT, &[&["--file", "big.py", "--output", "parts"], args].concat())
            .run()
            .assert_exit(0);
    };
    let edit = || sandbox.write("parts/big-0002.py", LARGE);
    split(&[]);
    edit();
    let args = ["--index", "parts/index.json"];
    sandbox.program(PATCH, &args).run().assert_exit(0);

    let mut found: Vec<String> = std::fs::read_dir(sandbox.work().join("parts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for row in names(&table("ARCHITECTURE.md", "in a split")) {
        let pattern = regex::escape(&row)
            .replace(r"\{stem\}", "big")
            .replace(r"\{suffix\}", r"\.py")
            .replace(r"\{source\}", r"big\.py")
            .replace(r"\{n\}", r"\d{4}");
        let pattern = Regex::new(&format!("^{pattern}$")).unwrap();
        let before = found.len();
        found.retain(|name| !pattern.is_match(name));
        assert!(found.len() < before, "{row}");
    }
    assert!(found.is_empty(), "no row tells of {found:?}");
}

#[test]
fn every_block_and_its_attributes_are_in_the_table() {
    let rows = table("docs/protocol.md", "block");
    let sorted = |names: Vec<String>| names.into_iter().collect::<BTreeSet<_>>();
    let blocks_of_the_code = format::file::BLOCKS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(sorted(names(&rows)), sorted(blocks_of_the_code));

    let (sandbox, _) = busy();
    let mut kinds = BTreeSet::new();
    for path in sandbox.conversation_paths() {
        for block in blocks(&std::fs::read_to_string(path).unwrap()) {
            let row = rows.iter().find(|row| row[0] == format!("`{}`", block.name)).unwrap();
            let told = quoted(row.get(3).map_or("", String::as_str));
            for name in block.attributes.keys().filter(|name| *name != "fence") {
                assert!(told.contains(name), "{} has the attribute {name}", block.name);
            }
            kinds.insert(block.name);
        }
    }
    // All but those of scripts, and the older tool's four.
    assert_eq!(kinds.len(), rows.len() - 6, "{kinds:?}");
}
