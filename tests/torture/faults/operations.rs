//! The operations that are run with faults, from which state, and what must hold after one.

use std::path::Path;

use super::{After, Fault, World};
use crate::blocks::{Block, blocks};
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const APPLY: &str = env!("CARGO_BIN_EXE_nagent-file-apply");
const EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

/// Where a conversation is in its world.
const CONVERSATIONS: &str = "home/.nagent/conversations";

type Check = fn(&World, &After, &mut Vec<String>);

/// An operation.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Makes the state that each run begins from.
    pub(crate) prepare: fn(&Sandbox),
    pub(crate) command: fn(&Sandbox) -> (String, Vec<String>),
    pub(crate) stdin: &'static str,
    /// Looks at what a run with a fault left.
    pub(crate) check: Check,
    /// Runs without a fault, and looks again.
    pub(crate) again: Check,
    /// Fewer sites than these mean that the harness does not see them.
    pub(crate) least_sites: usize,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "append",
            prepare: |sandbox| {
                model(sandbox);
                sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 30,
        },
        Operation {
            name: "append-new",
            prepare: |sandbox| {
                model(sandbox);
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 30,
        },
        Operation {
            name: "repair",
            prepare: |sandbox| {
                model(sandbox);
                sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
                let path = sandbox.root().join("conversations/c");
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, text + "\n<user-prompt at=\"x\">\nhalf a pro").unwrap();
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 35,
        },
        Operation {
            name: "write",
            prepare: |sandbox| {
                let path = sandbox.work().join("target.txt");
                sandbox.write("target.txt", OLD);
                sandbox.llm.choose(move |request| {
                    if request.last().contains("once-more") {
                        answer("again done").into()
                    } else if request.last().contains("nagent-write-result") {
                        answer("written").into()
                    } else {
                        format!("<nagent-write path=\"{}\">\n{NEW}</nagent-write>", path.display())
                            .into()
                    }
                });
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "write it"]),
            stdin: "",
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                if after.run.code == 0 && after.run.stdout != "written\n" {
                    wrong.push(format!("exit 0 and {:?}", after.run.stdout));
                }
                let text = after.state.text(format!("{CONVERSATIONS}/c"));
                if text.contains("<nagent-write-result status=\"ok\"")
                    && after.state.text("work/target.txt") != NEW
                {
                    wrong.push("said to be written, and was not".to_owned());
                }
                if after.state.text("work/target.txt") == NEW {
                    let kept = after
                        .state
                        .0
                        .keys()
                        .filter(|path| path.starts_with("home/.nagent/outputs"));
                    if !kept.clone().any(|path| after.state.text(path) == OLD) {
                        wrong.push("the content before was not kept".to_owned());
                    }
                }
            },
            again: |world, after, wrong| {
                let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
                expect(&run, "again done\n", wrong);
                // A write of the same file takes away what a killed one left.
                apply(&world.sandbox, "work/target.txt", wrong);
                let _ = after;
            },
            least_sites: 50,
        },
        Operation {
            name: "replace",
            prepare: |sandbox| {
                sandbox.write("target.txt", OLD);
                bystanders(sandbox);
            },
            command: |sandbox| {
                let path = sandbox.work().join("target.txt");
                (APPLY.to_owned(), words(&["--file", path.to_str().unwrap()]))
            },
            stdin: BLOCKS,
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                if after.run.code == 0 && after.state.text("work/target.txt") != NEW {
                    wrong.push("exit 0 and the old content".to_owned());
                }
            },
            again: |world, _, wrong| {
                apply(&world.sandbox, "work/target.txt", wrong);
                if world.sandbox.read("target.txt") != NEW {
                    wrong.push("not the new content in the end".to_owned());
                }
            },
            least_sites: 20,
        },
        Operation {
            name: "create",
            prepare: bystanders,
            command: |sandbox| {
                let path = sandbox.work().join("sub/target.txt");
                (APPLY.to_owned(), words(&["--file", path.to_str().unwrap()]))
            },
            stdin: CREATES,
            check: |_, after, wrong| match after.state.file("work/sub/target.txt") {
                None if after.run.code == 0 => wrong.push("exit 0 and no file".to_owned()),
                Some(bytes) if bytes != b"made\n" => {
                    wrong.push("a file that is half made".to_owned())
                }
                _ => {}
            },
            again: |world, _, wrong| {
                let path = world.sandbox.work().join("sub/target.txt");
                if !path.exists() {
                    let run = world.sandbox.program(APPLY, &["--file", path.to_str().unwrap()]);
                    let run = run.stdin(CREATES).run();
                    if run.code != 0 {
                        wrong.push(format!("afterwards: {}", run.stderr));
                    }
                }
                apply_in(&world.sandbox, &path, "made", "again", wrong);
            },
            least_sites: 8,
        },
        Operation {
            name: "save",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--save-conversation", "s"]),
            stdin: "",
            check: |world, after, wrong| {
                same(world, after, "c", wrong);
                let old = world.before.text(format!("{CONVERSATIONS}/s"));
                let new = world.before.text(format!("{CONVERSATIONS}/c"));
                let now = texts(after);
                if !now.contains(&old) {
                    wrong.push("the older copy is gone".to_owned());
                }
                let at = after.state.text(format!("{CONVERSATIONS}/s"));
                if !(at == old || at == new || at.is_empty()) {
                    wrong.push("the copy is neither the old nor the new".to_owned());
                }
                if after.run.code == 0 && at != new {
                    wrong.push("exit 0 and not saved".to_owned());
                }
                index(after, wrong);
            },
            again: |world, _, wrong| {
                let run = world.sandbox.run(&["--conversation", "c", "--save-conversation", "s"]);
                if run.code != 0 {
                    wrong.push(format!("saving afterwards: {}", run.stderr));
                }
                let run = world.sandbox.run(&["--list-conversations"]);
                if run.code != 0
                    || !run.stdout.contains("the first prompt")
                    || run.stdout.contains(".new-")
                {
                    wrong.push(format!("the list afterwards: {} {}", run.stdout, run.stderr));
                }
                let run = world.sandbox.run(&["--conversation", "s", "once-more"]);
                expect(&run, "again done\n", wrong);
            },
            least_sites: 40,
        },
        Operation {
            name: "load",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--load-conversation", "s"]),
            stdin: "",
            check: |world, after, wrong| exchanged(world, after, Some("s"), wrong),
            again: |world, after, wrong| exchanged_again(world, after, "s", wrong),
            least_sites: 30,
        },
        Operation {
            name: "clear",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--clear"]),
            stdin: "",
            check: |world, after, wrong| exchanged(world, after, None, wrong),
            again: |world, after, wrong| exchanged_again(world, after, "", wrong),
            least_sites: 30,
        },
        Operation {
            name: "split",
            prepare: |sandbox| {
                sandbox.write("big.txt", numbered("line"));
                split(sandbox, &[]);
                sandbox.write("big.txt", numbered("other line"));
                bystanders(sandbox);
            },
            command: |sandbox| {
                let (source, folder) =
                    (sandbox.work().join("big.txt"), sandbox.work().join("split"));
                let args = [
                    "--file",
                    source.to_str().unwrap(),
                    "--output",
                    folder.to_str().unwrap(),
                    "--target-bytes",
                    "400",
                ];
                (SPLIT.to_owned(), words(&args))
            },
            stdin: "",
            check: |world, after, wrong| {
                if after.state.text("work/big.txt") != world.before.text("work/big.txt") {
                    wrong.push("the source was changed".to_owned());
                }
                // Without an index nothing can be put back from a mixture.
                if after.state.file("work/split/index.json").is_some() {
                    agrees(after, wrong);
                } else if after.run.code == 0 {
                    wrong.push("exit 0 and no index".to_owned());
                }
            },
            again: |world, after, wrong| {
                let run = split(&world.sandbox, &[]);
                if run.code != 0 {
                    wrong.push(format!("splitting afterwards: {}", run.stderr));
                }
                let state = crate::ground::State::of(world.sandbox.base());
                agrees(&After { state, run, call: String::new(), ..*after }, wrong);
                if world.sandbox.read("split/big.txt.orig") != numbered("other line") {
                    wrong.push("the split afterwards is not that of the source".to_owned());
                }
            },
            least_sites: 60,
        },
        Operation {
            name: "patch",
            prepare: |sandbox| {
                sandbox.write("big.txt", numbered("line"));
                split(sandbox, &[]);
                sandbox.write("split/big-0002.txt", "edited\n");
                bystanders(sandbox);
            },
            command: |sandbox| {
                let index = sandbox.work().join("split/index.json");
                (PATCH.to_owned(), words(&["--index", index.to_str().unwrap()]))
            },
            stdin: "",
            check: |world, after, wrong| {
                let source = after.state.text("work/big.txt");
                let is_old = source == world.before.text("work/big.txt");
                if !is_old && source != patched(world) {
                    wrong.push("the source is neither the old nor the new".to_owned());
                }
                if after.run.code == 0 {
                    agrees(after, wrong);
                    if is_old {
                        wrong.push("exit 0 and the old source".to_owned());
                    }
                }
            },
            again: |world, after, wrong| {
                let index = world.sandbox.work().join("split/index.json");
                let run = world.sandbox.program(PATCH, &["--index", index.to_str().unwrap()]).run();
                if run.code != 0 {
                    wrong.push(format!("patching afterwards: {}", run.stderr));
                }
                let state = crate::ground::State::of(world.sandbox.base());
                if state.text("work/big.txt") != patched(world) {
                    wrong.push("the edit is not in the source in the end".to_owned());
                }
                agrees(&After { state, run, call: String::new(), ..*after }, wrong);
                apply_in(
                    &world.sandbox,
                    &world.sandbox.work().join("big.txt"),
                    "edited",
                    "once more",
                    wrong,
                );
            },
            least_sites: 100,
        },
        Operation {
            name: "file-edit",
            prepare: |sandbox| {
                sandbox.write("target.txt", OLD);
                sandbox.llm.choose(|request| {
                    let last = request.last();
                    if last.contains("once-more") {
                        answer("again done").into()
                    } else if last.contains("nagent-edit-result") {
                        answer("edited").into()
                    } else {
                        let edit = BLOCKS.trim_end();
                        format!("<nagent-edit path=\"target.txt\">\n{edit}\n</nagent-edit>").into()
                    }
                });
                bystanders(sandbox);
            },
            command: |_| (EDIT.to_owned(), words(&["--file", "target.txt", "edit it"])),
            stdin: "",
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                // What fails is told to the model, which goes on.
                let names = after.state.names(CONVERSATIONS);
                let is_told = names.iter().any(|name| {
                    let text = after.state.text(format!("{CONVERSATIONS}/{name}"));
                    blocks_of(&text, "nagent-edit-result")
                        .any(|block| block.get("status") == "error")
                });
                let is_done = after.state.text("work/target.txt") == NEW || is_told;
                if after.run.code == 0
                    && (!is_done
                        || after.run.stdout
                            != "edited
")
                {
                    wrong.push(format!("exit 0, and {:?}", after.run.stdout));
                }
                file_index(after, wrong);
            },
            again: |world, after, wrong| {
                let run = world.sandbox.program(EDIT, &["--file", "target.txt", "once-more"]).run();
                expect(&run, "again done\n", wrong);
                let state = crate::ground::State::of(world.sandbox.base());
                file_index(&After { state, run, call: String::new(), ..*after }, wrong);
                apply(&world.sandbox, "work/target.txt", wrong);
            },
            least_sites: 80,
        },
    ]
}

const OLD: &str = "one\ntwo\nthree\n";
const NEW: &str = "one\nzwei\nthree\n";
const BLOCKS: &str = "<<<<<<< SEARCH\ntwo\n=======\nzwei\n>>>>>>> REPLACE\n";
const CREATES: &str = "<<<<<<< SEARCH\n=======\nmade\n>>>>>>> REPLACE\n";

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn nagent(args: &[&str]) -> (String, Vec<String>) {
    (NAGENT.to_owned(), words(args))
}

/// A model that runs one command for the second prompt.
fn model(sandbox: &Sandbox) {
    sandbox.llm.choose(|request| {
        let last = request.last();
        if last.contains("once-more") {
            answer("again done").into()
        } else if last.contains("the first prompt") {
            answer("the first answer").into()
        } else if last.contains("nagent-shell-result") {
            answer("the last answer").into()
        } else {
            shell("echo x >> counter; echo from the command").into()
        }
    });
}

/// Files of others in every folder that is written to.
fn bystanders(sandbox: &Sandbox) {
    for folder in ["conversations", "conversations/.locks", "outputs"] {
        let folder = sandbox.root().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("bystander"), "by\n").unwrap();
    }
}

fn expect(run: &crate::process_under_test::Run, stdout: &str, wrong: &mut Vec<String>) {
    if run.code != 0 || run.stdout != stdout {
        wrong.push(format!(
            "the run afterwards: exit {}, {:?}, {}",
            run.code, run.stdout, run.stderr
        ));
    }
}

// Append.

/// The conversation and its forks.
fn forks(state: &crate::ground::State) -> Vec<String> {
    let names = state.names(CONVERSATIONS);
    names.into_iter().filter(|name| name.starts_with("c-") && !name.contains('.')).collect()
}

/// The blocks of the run with a fault: those of the last fork, or those of the conversation.
fn found(state: &crate::ground::State, is_whole: bool, wrong: &mut Vec<String>) -> Vec<Block> {
    let name = forks(state).pop().unwrap_or_else(|| "c".to_owned());
    let text = state.text(format!("{CONVERSATIONS}/{name}"));
    let parsed = nagent::format::conversation::parse(&text);
    match parsed.trouble {
        None => {}
        Some(trouble) if is_whole => {
            wrong.push(format!("{name} does not load: {trouble:?}"));
            return Vec::new();
        }
        Some(_) => {}
    }
    let end = parsed.pieces.last().map_or(0, |piece| piece.span.end);
    blocks(&text[..end])
}

/// The blocks of one name in a text that loads; none in another.
fn blocks_of(text: &str, name: &str) -> impl Iterator<Item = Block> {
    let loads = nagent::format::conversation::parse(text).trouble.is_none();
    let all = if loads && text.starts_with('<') { blocks(text) } else { Vec::new() };
    all.into_iter().filter(move |block| block.name == name)
}

fn count(blocks: &[Block], name: &str, words: &str) -> usize {
    blocks.iter().filter(|block| block.name == name && block.body.contains(words)).count()
}

fn check_append(world: &World, after: &After, wrong: &mut Vec<String>) {
    let path = format!("{CONVERSATIONS}/c");
    let first = world.before.text(&path);
    let whole =
        first.rfind("\n<user-prompt at=\"x\">\nhalf").map_or(first.as_str(), |at| &first[..at]);
    if !after.state.text(&path).starts_with(whole.trim_end()) {
        wrong.push("what stood in the conversation is gone".to_owned());
    }
    let now = found(&after.state, false, wrong);
    acked(after, &now, wrong);
    let ran = after.state.text("work/counter").lines().count();
    if ran > 0 && count(&now, "agent-response", "echo x") == 0 {
        wrong.push("a command ran whose reply was not kept".to_owned());
    }
    let is_ok = |block: &&Block| block.name == "nagent-shell-result" && block.get("status") == "ok";
    if now.iter().any(|block| is_ok(&block)) && ran != 1 {
        wrong.push(format!("a result, and the command ran {ran} times"));
    }
    if after.run.code == 0 && after.run.stdout != "the last answer\n" {
        wrong.push(format!("exit 0 and {:?}", after.run.stdout));
    }
}

/// What was acknowledged is there once, what was not at most once.
fn acked(after: &After, now: &[Block], wrong: &mut Vec<String>) {
    let is_told = after.run.stdout.contains("the last answer");
    for (name, words, is_acked) in [
        ("user-prompt", "the second prompt", after.asked >= 1),
        ("agent-response", "echo x", after.asked >= 2),
        ("nagent-shell-result", "from the command", after.asked >= 2),
        ("agent-response", "the last answer", is_told),
    ] {
        let times = count(now, name, words);
        if times > 1 || times == 0 && is_acked {
            wrong
                .push(format!("{name} {words:?} is there {times} times, acknowledged: {is_acked}"));
        }
    }
}

fn append_again(world: &World, after: &After, wrong: &mut Vec<String>) {
    let ran = after.state.text("work/counter");
    let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
    expect(&run, "again done\n", wrong);
    let state = crate::ground::State::of(world.sandbox.base());
    if state.text("work/counter") != ran || ran.lines().count() > 1 {
        wrong.push("a command ran again".to_owned());
    }
    let now = found(&state, true, wrong);
    acked(after, &now, wrong);
    let path = format!("{CONVERSATIONS}/c");
    if nagent::format::conversation::parse(&state.text(&path)).trouble.is_some() {
        wrong.push("the conversation does not load afterwards".to_owned());
        return;
    }
    let now = blocks(&state.text(path));
    let first =
        usize::from(world.before.text(format!("{CONVERSATIONS}/c")).contains("the first prompt"));
    for (name, words, times) in [
        ("user-prompt", "the first prompt", first),
        ("agent-response", "the first answer", first),
        ("user-prompt", "once-more", 1),
        ("agent-response", "again done", 1),
    ] {
        if count(&now, name, words) != times {
            wrong.push(format!(
                "afterwards {name} {words:?} is there {} times",
                count(&now, name, words)
            ));
        }
    }
    let replies = count(&now, "agent-response", "echo x");
    let results: Vec<&str> =
        now.iter().filter(|b| b.name == "nagent-shell-result").map(|b| b.get("status")).collect();
    if results.len() != replies || results.iter().any(|status| !["ok", "unknown"].contains(status))
    {
        wrong.push(format!("{replies} replies with a command, results: {results:?}"));
    }
    if ran.is_empty() && results == ["ok"] {
        wrong.push("a result for a command that did not run".to_owned());
    }
}

// Replace.

fn old_or_new(after: &After, path: &str, wrong: &mut Vec<String>) {
    let now = after.state.text(path);
    if now != OLD && now != NEW {
        wrong.push(format!("{path} is neither the old nor the new: {now:?}"));
    }
    match after.state.0.get(Path::new(path)) {
        Some(crate::ground::Thing::File(_, 0o644)) => {}
        other => wrong.push(format!("{path} is {other:?}")),
    }
}

fn apply(sandbox: &Sandbox, path: &str, wrong: &mut Vec<String>) {
    let path = sandbox.base().join(path);
    if std::fs::read_to_string(&path).unwrap_or_default() == OLD {
        apply_in(sandbox, &path, "two", "zwei", wrong);
    } else {
        apply_in(sandbox, &path, "three", "drei", wrong);
        apply_in(sandbox, &path, "drei", "three", wrong);
    }
}

fn apply_in(sandbox: &Sandbox, path: &Path, from: &str, to: &str, wrong: &mut Vec<String>) {
    let blocks = format!("<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n");
    let run = sandbox.program(APPLY, &["--file", path.to_str().unwrap()]).stdin(blocks).run();
    if run.code != 0 {
        wrong.push(format!("writing afterwards: {}", run.stderr));
    }
}

// Save, load, clear.

fn saved(sandbox: &Sandbox) {
    model(sandbox);
    sandbox.run(&["--conversation", "c", "an older prompt"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "--save-conversation", "s"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "--save-conversation", "other"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "--clear"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
    for name in std::fs::read_dir(sandbox.root().join("conversations")).unwrap().flatten() {
        if name.file_name().to_string_lossy().starts_with("c-") {
            std::fs::remove_file(name.path()).unwrap();
        }
    }
    std::fs::remove_file(sandbox.work().join("counter")).unwrap();
    bystanders(sandbox);
}

/// The texts of all conversations.
fn texts(after: &After) -> Vec<String> {
    let names = after.state.names(CONVERSATIONS).into_iter().filter(|name| !name.starts_with('.'));
    names.map(|name| after.state.text(format!("{CONVERSATIONS}/{name}"))).collect()
}

fn same(world: &World, after: &After, name: &str, wrong: &mut Vec<String>) {
    let path = format!("{CONVERSATIONS}/{name}");
    if world.before.text(&path) != after.state.text(&path) {
        wrong.push(format!("{name} was changed"));
    }
}

fn index(after: &After, wrong: &mut Vec<String>) {
    let text = after.state.text(format!("{CONVERSATIONS}/saved-index.json"));
    let names = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|index| {
        let names = index["conversations"].as_array()?.iter();
        Some(
            names
                .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>(),
        )
    });
    let mut names = names.unwrap_or_default();
    names.sort();
    if names != ["other", "s"] {
        wrong.push(format!("the index of saved conversations lists {names:?}"));
    }
}

fn exchanged(world: &World, after: &After, with: Option<&str>, wrong: &mut Vec<String>) {
    let text = |name: &str| world.before.text(format!("{CONVERSATIONS}/{name}"));
    let (old, now) = (text("c"), after.state.text(format!("{CONVERSATIONS}/c")));
    let is_new = match with {
        Some(name) => now == text(name),
        None => now.starts_with("<initial_context") && !now.contains("<user-prompt"),
    };
    if !is_new && now != old {
        wrong.push("the conversation is neither the old nor the new".to_owned());
    }
    if is_new && !texts(after).contains(&old) {
        wrong.push("the old text was not kept".to_owned());
    }
    if after.run.code == 0 && !is_new {
        wrong.push("exit 0 and the old text".to_owned());
    }
    if after.run.code == 1 && !is_new {
        // A copy that says nothing more does not stay.
        let names = after.state.names(CONVERSATIONS);
        if names.iter().any(|name| name.starts_with("c-")) && after.fault == Fault::Fails("ENOSPC")
        {
            wrong.push(format!("a copy stayed though nothing was done: {names:?}"));
        }
    }
    same(world, after, "s", wrong);
    index(after, wrong);
}

fn exchanged_again(world: &World, _: &After, _: &str, wrong: &mut Vec<String>) {
    let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
    expect(&run, "again done\n", wrong);
    let run = world.sandbox.run(&["--conversation", "c", "--clear"]);
    if run.code != 0 {
        wrong.push(format!("clearing afterwards: {}", run.stderr));
    }
}

// Split and patch.

fn numbered(word: &str) -> String {
    (1..=100).map(|n| format!("{word} {n}\n")).collect()
}

fn split(sandbox: &Sandbox, more: &[&str]) -> crate::process_under_test::Run {
    let (source, folder) = (sandbox.work().join("big.txt"), sandbox.work().join("split"));
    let args = [
        "--file",
        source.to_str().unwrap(),
        "--output",
        folder.to_str().unwrap(),
        "--target-bytes",
        "400",
    ];
    sandbox.program(SPLIT, &[&args, more].concat()).run()
}

/// What the source is to be after the edit.
fn patched(world: &World) -> String {
    let index = world.before.text("work/split/index.json");
    let index = nagent::format::index::parse(&index).unwrap();
    let text = numbered("line");
    let segment = &index.segments[1];
    let (from, to) =
        (usize::try_from(segment.start_byte).unwrap(), usize::try_from(segment.end_byte).unwrap());
    format!("{}edited\n{}", &text[..from], &text[to..])
}

/// Index, segments and kept original are of one mind.
fn agrees(after: &After, wrong: &mut Vec<String>) {
    let text = after.state.text("work/split/index.json");
    let Ok(index) = nagent::format::index::parse(&text) else {
        wrong.push(format!("the index does not load: {text:?}"));
        return;
    };
    let mut joined = Vec::new();
    for segment in &index.segments {
        let name = Path::new(&segment.path).file_name().unwrap();
        let bytes = after.state.file(Path::new("work/split").join(name)).unwrap_or_default();
        if nagent::sys::fs::hash(bytes) != segment.sha256 {
            wrong.push(format!("{} is not what the index says", name.display()));
        }
        joined.extend_from_slice(bytes);
    }
    let original = after.state.file("work/split/big.txt.orig").unwrap_or_default();
    if joined != original || nagent::sys::fs::hash(original) != index.source_sha256 {
        wrong.push("the segments are not the kept original".to_owned());
    }
}

/// The index of files is one, and names the file's conversation once.
fn file_index(after: &After, wrong: &mut Vec<String>) {
    let path = format!("{CONVERSATIONS}/file-index.json");
    let Some(bytes) = after.state.file(&path) else { return };
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(index) => {
            let times = index.to_string().matches("target.txt\"").count();
            if index.as_object().is_none_or(serde_json::Map::is_empty) || times == 0 {
                wrong.push(format!("the index of files lost the file: {index}"));
            }
        }
        Err(error) => wrong.push(format!("the index of files is damaged: {error}")),
    }
}
