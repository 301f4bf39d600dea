//! Messages to runs, and one prompt over many inputs.

use super::base::{CONVERSATIONS, Operation, bystanders, expect, model, nagent};
use super::{After, World};
use crate::blocks::blocks;
use crate::ground::State;
use crate::sandbox::{Sandbox, answer};

const MESSAGE: &str = env!("CARGO_BIN_EXE_nagent-message");
const EACH: &str = env!("CARGO_BIN_EXE_nagent-each");
const SPOKEN: &str = "spoken words";

fn tool(program: &str, words: &[&str]) -> (String, Vec<String>) {
    (program.to_owned(), words.iter().map(|word| (*word).to_owned()).collect())
}

fn one_prompt(sandbox: &Sandbox) {
    model(sandbox);
    sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
    bystanders(sandbox);
}

/// How often the message is a block of the conversation or of a fork, and how many files of it wait.
fn places(state: &State, wrong: &mut Vec<String>) -> (usize, usize) {
    let folder = format!("{CONVERSATIONS}/c.messages");
    let waiting: Vec<String> =
        state.names(&folder).into_iter().filter(|name| name.ends_with(".txt")).collect();
    for name in &waiting {
        if state.text(format!("{folder}/{name}")) != SPOKEN {
            wrong.push("a part of a message waits".to_owned());
        }
    }
    let names = state.names(CONVERSATIONS);
    let texts = names.iter().filter(|name| *name == "c" || name.starts_with("c-"));
    let appended = texts.map(|name| {
        let text = state.text(format!("{CONVERSATIONS}/{name}"));
        let parsed = conversation::format::file::parse(&text);
        let end = parsed.pieces.last().map_or(0, |piece| piece.span.end);
        blocks(&text[..end]).iter().filter(|block| block.body == SPOKEN).count()
    });
    (appended.sum(), waiting.len())
}

/// After a run without a fault the message is a block once, and waits no more.
fn is_read_once(world: &World, must: bool, wrong: &mut Vec<String>) {
    let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
    expect(&run, "again done\n", wrong);
    let (appended, waiting) = places(&State::of(world.sandbox.base()), wrong);
    if appended > 1 || must && appended == 0 || waiting > 0 {
        wrong.push(format!("the message is there {appended} times, and {waiting} wait"));
    }
}

/// The lines of results, each whole.
fn results(text: &str, wrong: &mut Vec<String>) -> usize {
    let lines: Vec<Option<serde_json::Value>> =
        text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let is_whole = |(at, line): (usize, &Option<serde_json::Value>)| {
        line.as_ref().is_some_and(|line| {
            line["index"] == at && (line["exit_code"] != 0 || line["response"] == "the answer")
        })
    };
    if !lines.iter().enumerate().all(is_whole) {
        wrong.push(format!("odd results: {text}"));
    }
    lines.iter().flatten().filter(|line| line["exit_code"] == 0).count()
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "message",
            prepare: one_prompt,
            command: |_| tool(MESSAGE, &["-c", "c", SPOKEN]),
            stdin: "",
            check: |_, after, wrong| {
                let (appended, waiting) = places(&after.state, wrong);
                if appended > 0 || waiting > 1 || after.run.code == 0 && waiting == 0 {
                    wrong.push(format!("exit {}, and {waiting} wait", after.run.code));
                }
            },
            again: |world, after, wrong| is_read_once(world, after.run.code == 0, wrong),
            least_sites: 30,
        },
        Operation {
            name: "message-read",
            prepare: |sandbox| {
                one_prompt(sandbox);
                sandbox.program(MESSAGE, &["-c", "c", SPOKEN]).run().assert_exit(0);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: |_, after, wrong| {
                let (appended, waiting) = places(&after.state, wrong);
                if appended > 1 || appended + waiting == 0 {
                    wrong.push(format!("it is there {appended} times, and {waiting} wait"));
                }
            },
            again: |world, _, wrong| is_read_once(world, true, wrong),
            least_sites: 100,
        },
        Operation {
            name: "each",
            prepare: |sandbox| {
                sandbox.llm.choose(|_| answer("the answer").into());
                bystanders(sandbox);
            },
            command: |_| tool(EACH, &["--lines", "--resume", "-j", "1", "about {}"]),
            stdin: "one\ntwo\n",
            check: |_, after, wrong| {
                let good = results(&after.run.stdout, wrong);
                let names = after.state.names("home/.nagent/each");
                let journals = names.iter().filter(|name| name.ends_with(".jsonl"));
                let known: usize = journals
                    .map(|name| {
                        let text = after.state.text(format!("home/.nagent/each/{name}"));
                        text.matches("\"exit_code\":0").count()
                    })
                    .sum();
                if good > known || after.run.code == 0 && good != 2 {
                    wrong.push(format!("exit {}, {good} answers, {known} known", after.run.code));
                }
            },
            again: |world, after, wrong| {
                let args = ["--lines", "--resume", "-j", "1", "about {}"];
                let run = world.sandbox.program(EACH, &args).stdin("one\ntwo\n").run();
                let good = results(&run.stdout, wrong);
                // One may have been under way when it was killed.
                let asked = world.sandbox.requests().len();
                if run.code != 0 || good != 2 || asked > 3 || after.asked > 2 {
                    wrong.push(format!("exit {}, {good} answers, {asked} requests", run.code));
                }
            },
            least_sites: 60,
        },
    ]
}
