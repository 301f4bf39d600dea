//! The operations that rewrite a whole conversation: compaction, and what goes back.

use super::base::{CONVERSATIONS, Operation, bystanders, expect, nagent};
use super::{After, World};
use crate::sandbox::{Sandbox, answer};
use crate::wire::Reply;

const TOOL: &str = env!("CARGO_BIN_EXE_nagent-conversations");
const CHECKPOINT: &str =
    "Intent\na\nConstraints\nb\nDecisions\nc\nFiles\nd\nOpen questions\ne\nNext step\nf";

fn tool(words: &[&str]) -> (String, Vec<String>) {
    (TOOL.to_owned(), words.iter().map(|word| (*word).to_owned()).collect())
}

/// A conversation of some length, in a window that it fills.
fn talk(sandbox: &Sandbox) {
    sandbox.llm.choose(|request| {
        let text = match request.last() {
            _ if request.system().contains("Write a checkpoint") => CHECKPOINT.to_owned(),
            last if last.contains("once-more") => answer("again done"),
            _ => answer(&"words ".repeat(700)),
        };
        Reply::new(text).usage(request.body.len() as u64 * 27 / 100, 0, 20).into()
    });
    for turn in 0..6 {
        sandbox.run(&["--conversation", "c", &format!("prompt {turn}")]).assert_exit(0);
    }
    let path = sandbox.root().join("config.json");
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["context_window_tokens"] = 16_000.into();
    std::fs::write(&path, config.to_string()).unwrap();
    bystanders(sandbox);
}

/// The conversation is the old text or one with this mark, and then the old text is in its archive.
fn is_replaced(world: &World, after: &After, mark: &str, wrong: &mut Vec<String>) {
    let path = format!("{CONVERSATIONS}/c");
    let (old, now) = (world.before.text(&path), after.state.text(&path));
    let is_new = now != old && now.contains(mark) && now.starts_with("<initial_context");
    if now != old && !is_new {
        wrong.push("the conversation is neither the old nor the new".to_owned());
    }
    let mut texts = after.state.0.keys().filter(|path| path.starts_with(CONVERSATIONS));
    if is_new && !texts.any(|path| after.state.text(path).starts_with(old.as_str())) {
        wrong.push("the old text was not kept".to_owned());
    }
    if after.run.code == 0 && !is_new {
        wrong.push("exit 0 and the old text".to_owned());
    }
}

fn again(world: &World, _: &After, wrong: &mut Vec<String>) {
    let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
    expect(&run, "again done\n", wrong);
    // What a killed one has left beside conversations and summaries, the next that is written there removes.
    for verb in ["--clear", "--summarize"] {
        let name = if verb == "--clear" { "other" } else { "c" };
        let run = world.sandbox.run(&["--conversation", name, verb, "--quiet"]);
        if run.code != 0 {
            wrong.push(format!("{verb} afterwards: exit {}, {}", run.code, run.stderr));
        }
    }
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "compact",
            prepare: talk,
            command: |_| nagent(&["--conversation", "c", "--compact"]),
            stdin: "",
            check: |world, after, wrong| is_replaced(world, after, " checkpoint=", wrong),
            again,
            least_sites: 20,
        },
        Operation {
            name: "rewind",
            prepare: talk,
            command: |_| tool(&["rewind", "c", "--turn", "3"]),
            stdin: "",
            check: |world, after, wrong| is_replaced(world, after, " rewound=", wrong),
            again,
            least_sites: 10,
        },
    ]
}
