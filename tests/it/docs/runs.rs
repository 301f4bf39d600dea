//! What runs leave behind and print, beside the tables of files, blocks and keys.

use std::collections::BTreeSet;

use nagent::format;
use regex::Regex;

use super::{names, quoted, table, text};
use crate::blocks::blocks;
use crate::sandbox::{Sandbox, answer};
use crate::summarize::SUMMARIZE;

const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");

/// A definition. Some thousand of them are a large file.
const LARGE: &str = "def f(): 0\n";

/// A world in which a run has left behind every kind of file and of block, and the files that were there meanwhile.
fn busy() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let child = "<nagent-conversation>look</nagent-conversation>";
    let replies = [
        "no tag".to_owned(),
        [
            "<nagent-response>working</nagent-response>",
            "<nagent-list path=\".\"/><nagent-glob pattern=\"*.txt\"/>",
            "<nagent-grep pattern=\"x\" path=\".\" glob=\"*.txt\"/>",
            "<nagent-read path=\"a.txt\" offset=\"1\" limit=\"1\"/><nagent-file-read path=\"a.txt\"/>",
            "<nagent-file-read path=\"big.py\"/><nagent-file-patch index=\"i\"/><nagent-write path=\"a.txt\">new\n</nagent-write>",
            "<nagent-edit path=\"a.txt\">\n<<<<<<< SEARCH\nnew\n=======\nnewer\n>>>>>>> REPLACE\n</nagent-edit>",
            "<nagent-shell>seq 9999; cd \"$NAGENT_ROOT\" && find . -type f</nagent-shell>",
        ]
        .concat(),
        format!("<nagent-next>go on</nagent-next>{child}"),
        answer("of the child"),
        answer("done"),
        answer("edited"),
    ];
    let sandbox =
        sandbox.file("a.txt", "x\ny\n").file("big.py", LARGE.repeat(9000)).replies(replies);
    std::fs::create_dir(sandbox.root().join("bin")).unwrap();
    for (name, text) in
        [("bin/own", ""), ("context.md", "Be brief.\n"), ("context.yaml", "[context.md]\n")]
    {
        std::fs::write(sandbox.root().join(name), text).unwrap();
    }
    sandbox.run(&["--conversation", "main", "--check", "true", "task"]).assert_exit(0);
    let shown = sandbox.root().join("conversations/main");
    let shown = std::fs::read_to_string(shown).unwrap();
    let results = blocks(&shown);
    let output = results.iter().find(|b| b.name == "nagent-shell-result").unwrap().get("output");
    let meanwhile = std::fs::read_to_string(output).unwrap();
    sandbox.run(&["--conversation", "main", "--save-conversation", "kept"]).assert_exit(0);
    sandbox.run(&["--file-edit", "a.txt", "edit it"]).assert_exit(0);
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
    let library = text("src/lib.rs");
    let rows = names(&table("ARCHITECTURE.md", "file"));
    let patterns: Vec<Regex> = rows
        .iter()
        .map(|row| {
            assert!(library.contains(&format!("`{row}`")), "src/lib.rs does not tell of {row}");
            let pattern = regex::escape(row)
                .replace(r"\{name\}", "[A-Za-z0-9._-]+")
                .replace(r"\{n\}", r"\d+")
                .replace(r"\{sha256\}", "[0-9a-f]{64}")
                .replace(r"\{slug\}", "[a-z0-9-]+")
                .replace(r"\{uuid\}", "[0-9a-f-]{36}")
                .replace(r"\{file\}", "[^/]+");
            Regex::new(&format!("(?m)^{pattern}$")).unwrap()
        })
        .collect();
    // Files that are being written.
    let unfinished = Regex::new(r"(^|/)\.(new|output)-\w+$").unwrap();
    for file in all.lines().filter(|file| !unfinished.is_match(file)) {
        assert!(patterns.iter().any(|row| row.is_match(file)), "no row tells of {file}");
    }
    for (row, pattern) in rows.iter().zip(patterns) {
        assert!(pattern.is_match(&all), "no run left a {row}:\n{all}");
    }
}

#[test]
fn every_file_of_a_split_is_in_the_table() {
    let sandbox = Sandbox::new().file("big.py", LARGE.repeat(9000));
    let split = |args: &[&str]| {
        sandbox
            .program(SPLIT, &[&["--file", "big.py", "--output", "parts"], args].concat())
            .run()
            .assert_exit(0);
    };
    let edit = || sandbox.write("parts/big-0002.py", LARGE);
    split(&[]);
    edit();
    split(&["--force"]);
    edit();
    sandbox.write("big.py", "changed elsewhere\n");
    let args = ["--index", "parts/index.json", "--force"];
    sandbox.program(PATCH, &args).run().assert_exit(0);

    let mut found: Vec<String> = std::fs::read_dir(sandbox.work().join("parts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let library = text("src/lib.rs");
    for row in names(&table("ARCHITECTURE.md", "in a split")) {
        assert!(library.contains(&format!("`{row}`")), "src/lib.rs does not tell of {row}");
        let pattern = regex::escape(&row)
            .replace(r"\{stem\}", "big")
            .replace(r"\{suffix\}", r"\.py")
            .replace(r"\{source\}", r"big\.py")
            .replace(r"\{n\}", r"\d{4}");
        let pattern = Regex::new(&format!("^{pattern}$")).unwrap();
        let before = found.len();
        found.retain(|name| !pattern.is_match(name));
        // What stands there during a run alone; `patch_properties` has it.
        let is_brief = [".nagent-new", ".nagent-ours", "/"].iter().any(|end| row.ends_with(end));
        assert_eq!(found.len() < before, !is_brief, "{row}");
    }
    assert!(found.is_empty(), "no row tells of {found:?}");
}

#[test]
fn every_block_and_its_attributes_are_in_the_table() {
    let rows = table("docs/protocol.md", "block");
    let sorted = |names: Vec<String>| names.into_iter().collect::<BTreeSet<_>>();
    let blocks_of_the_code = format::conversation::BLOCKS.map(str::to_owned).to_vec();
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
    // All but the context's update, which needs a change, and the older tool's four.
    assert_eq!(kinds.len(), rows.len() - 5, "{kinds:?}");
}

/// All keys of an object, and of objects in its lists.
fn keys_of(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    let serde_json::Value::Object(object) = value else { return };
    for (key, value) in object {
        found.insert(key.clone());
        for item in value.as_array().into_iter().flatten() {
            keys_of(item, found);
        }
        // Settings are values with their sources, whatever they are called.
        if let Some(setting) = value.as_object().and_then(|settings| settings.values().next()) {
            keys_of(setting, found);
        }
    }
}

#[test]
fn every_key_that_is_printed_is_told() {
    let sandbox = Sandbox::new().file("q.txt", "2+2?");
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| answer("done").into());
    let mut printed = BTreeSet::new();
    let calls: [&[&str]; 11] = [
        &["--json", "task"],
        &["--json", "--save-conversation", "one"],
        &["--json", "--load-conversation", "one"],
        &["--json", "--clear", "task"],
        &["--json", "--status"],
        &["--json", "--list-conversations", "--list-models", "--list-providers"],
        &["--json", "--print-protocol"],
        &["--json", "--show-request", "task"],
        &["--json", "--description"],
        &["--json", "--help"],
        &["--json", "--no-such-flag"],
    ];
    for call in calls {
        keys_of(&sandbox.run(call).json(), &mut printed);
    }
    keys_of(&sandbox.llm_text(&["--json", "--file", "q.txt"]).run().json(), &mut printed);
    let about = ["--json", "--file", "q.txt", "--prompt", "What?"];
    keys_of(&sandbox.llm_upload(&about).run().assert_exit(0).json(), &mut printed);
    sandbox.write("big.py", LARGE.repeat(9000));
    let index = ["--index", "parts/index.json"];
    let calls: [(&str, &[&str], i32); 8] = [
        (SPLIT, &["--file", "big.py", "--output", "parts", "--summarize"], 0),
        (SPLIT, &["--file", "none.py"], 1),
        (PATCH, &index, 0),
        (PATCH, &["--index", "none.json"], 1),
        (SUMMARIZE, &["--file", "q.txt"], 0),
        (SUMMARIZE, &["--file", "big.py"], 0),
        (SUMMARIZE, &["--file", "big.py", "--output", "kept"], 0),
        (SUMMARIZE, &["--file", "none.py"], 1),
    ];
    for (program, args, exit) in calls {
        let run = sandbox.program(program, &[&["--json"], args].concat()).run().assert_exit(exit);
        keys_of(&run.json(), &mut printed);
    }
    sandbox.llm.choose(|_| "three words here".into());
    let short = ["--json", "--file", "q.txt", "--limit-word-count", "1"];
    let run = sandbox.program(SUMMARIZE, &short).run().assert_exit(1);
    keys_of(&run.json(), &mut printed);
    sandbox.llm.choose(|request| {
        if request.user().contains("nagent-write-result") {
            answer("done").into()
        } else {
            "<nagent-write path=\"q.txt\">new\n</nagent-write>".into()
        }
    });
    let calls: [(&[&str], i32); 6] = [
        (&["--file", "q.txt", "task"], 0),
        (&["--file", "q.txt", "--file", "big.py", "--undo"], 1),
        (&["--file", "q.txt", "--clear"], 0),
        (&["--file", "q.txt", "--file", "big.py", "task"], 0),
        (&["--file", "q.txt"], 2),
        (&["--file", "q.txt", "--undo"], 1),
    ];
    for (args, exit) in calls {
        let run = sandbox.file_edit(&[&["--json"], args].concat()).run().assert_exit(exit);
        keys_of(&run.json(), &mut printed);
        sandbox.write("big.py", LARGE);
        if exit == 0 && args.len() > 3 {
            sandbox.write("q.txt", "by hand");
        }
    }
    let told: BTreeSet<String> = quoted(&text("docs/json.md")).into_iter().collect();
    let missing: Vec<_> = printed.difference(&told).collect();
    assert!(missing.is_empty(), "keys that docs/json.md does not tell: {missing:?}");
    assert!(printed.len() > 80, "{printed:?}");
}
