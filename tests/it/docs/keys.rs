//! The keys that `--json` prints, beside those that `docs/json.md` tells: heading by heading, both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::runs::{LARGE, PATCH, SPLIT};
use super::{quoted, text};
use crate::answers::Answer;
use crate::compact;
use crate::conversations::CONVERSATIONS;
use crate::each::EACH;
use crate::file_edit::{edit, write};
use crate::file_memory::{commit, willing};
use crate::js::JS;
use crate::mcp::MCP;
use crate::sandbox::{Sandbox, answer, shell};
use crate::steering::{MESSAGE, STATUS};
use crate::summarize::SUMMARIZE;
use crate::think::THINK;

/// All keys of a document, and of objects in it.
fn keys_of(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| keys_of(item, found)),
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                match (key.as_str(), value) {
                    // Settings are values with their sources, whatever they are called; a request is its provider's.
                    ("settings", Value::Object(settings)) => {
                        keys_of(settings.values().next().unwrap(), found);
                    }
                    ("settings" | "request", _) => {}
                    (_, value) => keys_of(value, found),
                }
            }
        }
        _ => {}
    }
}

/// What `docs/json.md` tells under a heading, and what was printed of it.
struct Keys {
    page: String,
    printed: BTreeMap<String, BTreeSet<String>>,
}

impl Keys {
    /// What stands under a heading.
    fn section(&self, heading: &str) -> &str {
        let start = format!("\n## {heading}\n");
        let at = self.page.find(&start).unwrap_or_else(|| panic!("no heading {heading}"));
        let text = &self.page[at + start.len()..];
        text.split("\n## ").next().unwrap()
    }

    /// Notes the keys of a document that is told under some headings: each must stand under one of them.
    fn note(&mut self, headings: &[&str], what: &str, document: &Value) {
        let mut keys = BTreeSet::new();
        keys_of(document, &mut keys);
        let all = headings.iter().chain(&["Every document"]).copied();
        let all: Vec<(&str, Vec<String>)> =
            all.map(|heading| (heading, quoted(self.section(heading)))).collect();
        for key in keys {
            let told = all.iter().filter(|(_, quoted)| quoted.contains(&key));
            let told: Vec<&str> = told.map(|(heading, _)| *heading).collect();
            assert!(
                !told.is_empty(),
                "docs/json.md does not tell the key {key} of {what} under {headings:?}"
            );
            for heading in told {
                self.printed.entry(heading.to_owned()).or_default().insert(key.clone());
            }
        }
    }

    /// The keys of tables that nothing printed.
    fn unseen(&self) -> Vec<String> {
        let headings = self.page.lines().filter_map(|line| line.strip_prefix("## "));
        let mut unseen = Vec::new();
        for heading in headings {
            let rows = self.section(heading).lines().filter(|line| line.starts_with("| `"));
            let keys = rows.flat_map(|row| quoted(row.split(" | ").next().unwrap()));
            let printed = self.printed.get(heading);
            let is_unseen = |key: &String| !printed.is_some_and(|printed| printed.contains(key));
            unseen.extend(keys.filter(is_unseen).map(|key| format!("{heading}: {key}")));
        }
        unseen
    }
}

#[test]
fn every_key_that_is_printed_is_told_and_every_key_that_is_told_is_printed() {
    let mut keys = Keys { page: text("docs/json.md"), printed: BTreeMap::new() };
    keys_of_conversations(&mut keys);
    keys_of_other_tools(&mut keys);
    keys_of_large_files(&mut keys);
    keys_of_file_edits(&mut keys);
    keys_of_undone_commands(&mut keys);
    keys_of_histories(&mut keys);
    keys_of_compaction(&mut keys);
    keys_of_rework(&mut keys);
    keys_of_catalogs(&mut keys);
    keys_of_runs(&mut keys);
    keys_of_each(&mut keys);
    assert_eq!(keys.unseen(), [""; 0], "told in docs/json.md, and printed by none of these runs");
}

fn keys_of_conversations(keys: &mut Keys) {
    let sandbox = Sandbox::new().file("AGENTS.md", "words\n");
    sandbox.write(".agents/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: x\n---\n");
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| answer("done").into());
    let calls: [(&[&str], &[&str]); 18] = [
        (&["A run"], &["task"]),
        (&["A run"], &["--code", "task"]),
        (&["Doctor"], &["--doctor"]),
        (&["Managing conversations"], &["--save-conversation", "one"]),
        (&["Managing conversations"], &["--load-conversation", "one"]),
        (&["A run", "Managing conversations"], &["--clear", "task"]),
        (&["Managing conversations"], &["--summarize"]),
        (&["Status"], &["--status"]),
        (&["nagent-conversations"], &["--list-conversations"]),
        (&["Lists and texts"], &["--list-models", "--list-providers"]),
        (&["Lists and texts"], &["--list-file-edits"]),
        (&["Lists and texts"], &["--print-protocol"]),
        (&["Lists and texts"], &["--trust"]),
        (&["Lists and texts"], &["--skills"]),
        (&["Lists and texts"], &["--show-request", "task"]),
        (&["Lists and texts"], &["--description"]),
        (&["Lists and texts"], &["--help"]),
        (&["Every document"], &["--no-such-flag"]),
    ];
    for (headings, args) in calls {
        let run = sandbox.run(&[&["--json"], args].concat());
        keys.note(headings, &args.join(" "), &run.json());
    }
}

fn keys_of_other_tools(keys: &mut Keys) {
    let sandbox = Sandbox::new().file("q.txt", "2+2?");
    sandbox.llm.choose(|_| answer("done").into());
    let run = sandbox.llm_text(&["--json", "--file", "q.txt"]).run().assert_exit(0);
    keys.note(&["nagent-llm-text"], "nagent-llm-text", &run.json());
    sandbox.llm.push(answer("hi"));
    let run = sandbox.repl(&["--json"]).stdin("x\n").run().assert_exit(0);
    keys.note(&["nagent-repl", "A run"], "nagent-repl", &run.json());
    let run = sandbox.program(JS, &["--json", "-e", "1"]).run().assert_exit(0);
    keys.note(&["nagent-js"], "nagent-js", &run.json());
    let servers = crate::mcp::world();
    let calls: [&[&str]; 4] = [
        &["list"],
        &["help", "s", "echo"],
        &["call", "s", "count"],
        &["add", "x", "--url", "http://x"],
    ];
    for args in calls {
        let run = servers.program(MCP, &[&["--json"], args].concat()).run().assert_exit(0);
        let mut document = run.json();
        // Tools are as their server describes them.
        for (at, key) in [("/servers/0", "tools"), ("", "tool")] {
            let object = document.pointer_mut(at).and_then(Value::as_object_mut);
            let tools = object.and_then(|object| object.get_mut(key));
            if let Some(tools) = tools {
                *tools = Value::Null;
            }
        }
        keys.note(&["nagent-mcp"], &args.join(" "), &document);
    }
    let run = sandbox.program(THINK, &["--json", "q.txt"]).run().assert_exit(0);
    keys.note(&["nagent-think", "A run"], "nagent-think", &run.json());
    let schema = Sandbox::new().file("q.txt", "2+2?").file("s.json", "{}");
    schema.llm.choose(|_| "7".into());
    let args = ["--json", "--schema", "s.json", "-o", "out", "q.txt"];
    keys.note(
        &["nagent-llm-text"],
        "--schema",
        &schema.llm_text(&args).run().assert_exit(0).json(),
    );
    schema.llm.choose(|_| answer("7").into());
    let args = ["--json", "--schema", "s.json", "-o", "out", "task"];
    keys.note(&["A run"], "--schema", &schema.run(&args).assert_exit(0).json());
    keys_of_decisions(keys);
    for args in [["--prompt", "What?"].as_slice(), &["--prompt", "What?", "--show-request"]] {
        let run = sandbox.llm_upload(&[&["--json", "--file", "q.txt"], args].concat()).run();
        let headings = ["nagent-llm-upload", "nagent-llm-text"];
        keys.note(&headings, "nagent-llm-upload", &run.assert_exit(0).json());
    }
}

fn keys_of_decisions(keys: &mut Keys) {
    let decide = env!("CARGO_BIN_EXE_nagent-decide");
    let question = |kind: &str| json!({"question": "?", "type": kind, "options": ["a", "b"]});
    let mut request = json!({"questions": {"q": question("choice"), "m": question("multi"), "s": question("score")}});
    request["questions"]["s"]["levels"] = json!(["l", "h"]);
    let sandbox = Sandbox::new().file("r.json", request.to_string());
    let mut answers = json!({"q": {"choice": "a"}, "m": {"choices": ["b"]}, "s": {"scores": {"a": "l", "b": "h"}}});
    for answer in answers.as_object_mut().unwrap().values_mut() {
        (answer["why"], answer["confidence"]) = ("so".into(), 0.5.into());
    }
    sandbox.llm.push(json!({"decisions": [{"item": "1", "answers": answers}]}).to_string());
    for args in [&["--input", "r.json"] as &[&str]] {
        let run = sandbox.program(decide, &[&["--json"], args].concat()).run().assert_exit(0);
        let mut document = run.json();
        // Questions and options have the names that the user gave them.
        if let Some(answers) = document.pointer_mut("/decisions/0/answers") {
            let named: Vec<Value> = answers.as_object().unwrap().values().cloned().collect();
            *answers = named.into();
            for answer in answers.as_array_mut().unwrap() {
                answer["scores"] = Value::Null;
            }
        }
        keys.note(&["nagent-decide"], &args.join(" "), &document);
    }
}

fn keys_of_large_files(keys: &mut Keys) {
    let sandbox = Sandbox::new().file("q.txt", "2+2?").file("big.py", LARGE.repeat(14_000));
    sandbox.llm.choose(|_| "three words here".into());
    let index = ["--index", "parts/index.json"];
    let calls: [(&str, &str, &[&str], i32); 8] = [
        ("nagent-file-split", SPLIT, &["--file", "big.py", "--output", "parts", "--summarize"], 0),
        ("nagent-file-split", SPLIT, &["--file", "none.py"], 1),
        ("nagent-file-patch", PATCH, &index, 0),
        ("nagent-file-patch", PATCH, &["--index", "none.json"], 1),
        ("nagent-file-summarize", SUMMARIZE, &["--file", "q.txt"], 0),
        ("nagent-file-summarize", SUMMARIZE, &["--file", "big.py"], 0),
        ("nagent-file-summarize", SUMMARIZE, &["--file", "none.py"], 1),
        ("nagent-file-summarize", SUMMARIZE, &["--file", "q.txt", "--limit-word-count", "1"], 1),
    ];
    for (heading, program, args, exit) in calls {
        let run = sandbox.program(program, &[&["--json"], args].concat()).run().assert_exit(exit);
        keys.note(&[heading], &args.join(" "), &run.json());
    }
}

fn keys_of_file_edits(keys: &mut Keys) {
    let sandbox = Sandbox::new().file("q.txt", "2+2?").file("big.py", LARGE.repeat(14_000));
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        if request.user().contains("nagent-edit-result") {
            answer("done").into()
        } else {
            crate::file_edit::edit("q.txt", "2+2?", "new").into()
        }
    });
    let run = ["A run in a file's own conversation", "A run"];
    let cleared = ["A run in a file's own conversation", "Managing conversations"];
    let undone = ["Undo"];
    let calls: [(&[&str], &[&str], i32); 8] = [
        (&run, &["--file", "q.txt", "task"], 0),
        (&undone, &["--file", "q.txt", "--undo", "--list"], 0),
        (&undone, &["--file", "q.txt", "--undo"], 0),
        (&run, &["--file", "q.txt", "task"], 0),
        (&cleared, &["--file", "q.txt", "--clear"], 0),
        (&run, &["--file", "q.txt", "last task"], 0),
        (&["Every document"], &["--file", "q.txt"], 2),
        (&undone, &["--file", "q.txt", "--undo"], 1),
    ];
    for (headings, args, exit) in calls {
        let run = sandbox.file_edit(&[&["--json"], args].concat()).run().assert_exit(exit);
        keys.note(headings, &args.join(" "), &run.json());
        if args.contains(&"last task") {
            sandbox.write("q.txt", "by hand");
        }
    }
}

fn keys_of_undone_commands(keys: &mut Keys) {
    let reply = write("one.txt", "1\n") + &shell("echo 2 > two.txt");
    let sandbox = Sandbox::new().replies([reply, answer("done")]);
    sandbox.run(&["-c", "c", "--write", ".", "task"]).assert_exit(0);
    let run = sandbox.run(&["-c", "c", "--undo", "--json"]).assert_exit(1);
    keys.note(&["Undo"], "--undo", &run.json());
}

fn keys_of_histories(keys: &mut Keys) {
    let sandbox = Sandbox::new().git();
    let name = OsStr::from_bytes(b"n\xff.txt");
    std::fs::write(sandbox.work().join(name), "a line that stays\n").unwrap();
    std::fs::write(sandbox.work().join(OsStr::from_bytes(b"o\xff.txt")), "x\n").unwrap();
    commit(&sandbox, "one");
    std::fs::rename(sandbox.work().join(name), sandbox.work().join("new.txt")).unwrap();
    commit(&sandbox, "two");
    sandbox.llm.choose(willing);
    sandbox.file_edit(&["--file", "new.txt", "task"]).run().assert_exit(0);
    let run = sandbox.file_edit(&["--json", "--file", "new.txt", "--history"]).run().assert_exit(0);
    keys.note(&["History"], "--history", &run.json());
    // Names of such bytes cannot be written as words of these tests.
    let index = sandbox.root().join("conversations/file-index.json");
    let mut all: Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    all["by_file_id"]["path:x"] = json!({
        "file_id": "path:x", "path": "/\u{fffd}", "path_bytes": "2fff", "conversation": "x",
    });
    std::fs::write(&index, all.to_string()).unwrap();
    let run = sandbox.run(&["--json", "--list-file-edits"]).assert_exit(0);
    keys.note(&["Lists and texts"], "--list-file-edits", &run.json());
}

fn keys_of_catalogs(keys: &mut Keys) {
    let sandbox = Sandbox::new().replies([answer("4"), answer("5")]);
    sandbox.run(&["-c", "one", "2+2?"]).assert_exit(0);
    std::fs::write(sandbox.root().join("conversations/odd"), "<user-prompt>\n").unwrap();
    for args in [
        &["list"] as &[&str],
        &["show", "one"],
        &["path", "one"],
        &["export", "one"],
        &["usage", "--by", "day"],
        &["usage", "--by", "model"],
        &["usage", "--by", "conversation"],
        &["remove", "one"],
        &["prune"],
    ] {
        let run =
            sandbox.program(CONVERSATIONS, &[&["--json"], args].concat()).run().assert_exit(0);
        keys.note(&["nagent-conversations"], &args.join(" "), &run.json());
    }
}

fn keys_of_runs(keys: &mut Keys) {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let mut note = |tool: &str, heading: &str, args: &[&str], exit: i32| {
        let args = [&["--json"], args].concat();
        let run = sandbox.program(tool, &args).run().assert_exit(exit);
        keys.note(&[heading], &args.join(" "), &run.json());
    };
    note(MESSAGE, "nagent-message", &["-c", "c", "x"], 0);
    note(STATUS, "nagent-status", &[], 0);
    note(STATUS, "nagent-status", &["--stop", "c"], 0);
    note(STATUS, "nagent-status", &["--wait", "c"], 130);
    drop(running);
}

fn keys_of_compaction(keys: &mut Keys) {
    let sandbox = compact::window(16_000);
    compact::fill(&sandbox, 8, 3_000);
    sandbox.llm.push(compact::checkpoint("x"));
    let run = sandbox.run(&["-c", "c", "--json", "--compact"]).assert_exit(0);
    keys.note(&["Managing conversations"], "--compact", &run.json());
    let args = ["--json", "rewind", "c", "--turn", "16"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(0);
    keys.note(&["nagent-conversations"], "rewind", &run.json());
}

fn keys_of_each(keys: &mut Keys) {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("s.json", "{}");
    sandbox.llm.choose(|request| match request.user() {
        user if user.contains("-edit-result") => answer("done").into(),
        user if user.contains("change") => edit("a.txt", "one", "two").into(),
        _ => answer("1").into(),
    });
    let mut note = |args: &[&str], exit: i32| {
        let args = [&["--json"], args].concat();
        let run = sandbox.program(EACH, &args).stdin("a\na\n").run().assert_exit(exit);
        keys.note(&["nagent-each"], &args.join(" "), &run.json());
    };
    note(&["--lines", "--schema", "s.json", "x"], 0);
    note(&["--lines", "--code", "y"], 0);
    note(&["--own", "--no-summaries", "change", "a.txt"], 0);
    note(&["z", "missing.txt"], 1);
}

fn keys_of_rework(keys: &mut Keys) {
    let heading = ["Managing conversations", "A run"];
    let sandbox = Sandbox::new().replies([answer("4"), answer("nothing to do")]);
    sandbox.run(&["--conversation", "main", "2+2?"]).assert_exit(0);
    let args = ["--json", "--conversation", "main", "--edit-conversation", "x"];
    let run = sandbox.run(&args).assert_exit(1);
    keys.note(&heading, "--edit-conversation", &run.json());
    let copy = "main-edit-????????????????????????????????";
    let change = |with: &str| {
        let folder = sandbox.root().join("conversations");
        format!("<nagent-shell>sed -i '{with}' {}/{copy}</nagent-shell>", folder.display())
    };
    for (with, exit) in [("s/2+2/2+3/", 0), ("1s/user-prompt/other/", 1)] {
        sandbox.llm.push(change(with));
        sandbox.llm.push(answer("done"));
        let run = sandbox.run(&args).assert_exit(exit);
        keys.note(&heading, "--edit-conversation", &run.json());
    }
}
