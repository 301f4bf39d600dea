//! What must hold after an operation with a fault: old or new, acknowledged is there once, nothing lies about.

use std::path::Path;

use super::base::{CONVERSATIONS, NEW, OLD, SPLIT, bystanders, expect, model};
use super::{After, Fault, World};
use crate::blocks::{Block, blocks};
use crate::sandbox::Sandbox;

// Append.

/// The conversation and its forks.
pub(crate) fn forks(state: &crate::ground::State) -> Vec<String> {
    let names = state.names(CONVERSATIONS);
    names.into_iter().filter(|name| name.starts_with("c-") && !name.contains('.')).collect()
}

/// The blocks of the run with a fault: those of the last fork, or those of the conversation.
pub(crate) fn found(
    state: &crate::ground::State,
    is_whole: bool,
    wrong: &mut Vec<String>,
) -> Vec<Block> {
    let name = forks(state).pop().unwrap_or_else(|| "c".to_owned());
    let text = state.text(format!("{CONVERSATIONS}/{name}"));
    let parsed = conversation::format::file::parse(&text);
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
pub(crate) fn blocks_of(text: &str, name: &str) -> impl Iterator<Item = Block> {
    let loads = conversation::format::file::parse(text).trouble.is_none();
    let all = if loads && text.starts_with('<') { blocks(text) } else { Vec::new() };
    all.into_iter().filter(move |block| block.name == name)
}

pub(crate) fn count(blocks: &[Block], name: &str, words: &str) -> usize {
    blocks.iter().filter(|block| block.name == name && block.body.contains(words)).count()
}

pub(crate) fn check_append(world: &World, after: &After, wrong: &mut Vec<String>) {
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
pub(crate) fn acked(after: &After, now: &[Block], wrong: &mut Vec<String>) {
    let is_told = after.run.stdout.contains("the last answer");
    for (name, words, is_acked) in [
        ("user-prompt", "the second prompt", after.asked >= 1),
        ("agent-response", "echo x", after.asked >= 2),
        ("nagent-shell-result", "", after.asked >= 2),
        ("agent-response", "the last answer", is_told),
    ] {
        let times = count(now, name, words);
        if times > 1 || times == 0 && is_acked {
            wrong
                .push(format!("{name} {words:?} is there {times} times, acknowledged: {is_acked}"));
        }
    }
}

pub(crate) fn append_again(world: &World, after: &After, wrong: &mut Vec<String>) {
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
    if conversation::format::file::parse(&state.text(&path)).trouble.is_some() {
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
    if results.len() != replies
        || results.iter().any(|status| !["ok", "unknown", "error"].contains(status))
    {
        wrong.push(format!("{replies} replies with a command, results: {results:?}"));
    }
    if ran.is_empty() && results == ["ok"] {
        wrong.push("a result for a command that did not run".to_owned());
    }
}

// Replace.

pub(crate) fn old_or_new(after: &After, path: &str, wrong: &mut Vec<String>) {
    let now = after.state.text(path);
    if now != OLD && now != NEW {
        wrong.push(format!("{path} is neither the old nor the new: {now:?}"));
    }
    match after.state.0.get(Path::new(path)) {
        Some(crate::ground::Thing::File(_, 0o644)) => {}
        other => wrong.push(format!("{path} is {other:?}")),
    }
}

pub(crate) fn apply(sandbox: &Sandbox, path: &str, wrong: &mut Vec<String>) {
    let path = sandbox.base().join(path);
    if std::fs::read_to_string(&path).unwrap_or_default() == OLD {
        apply_in(sandbox, &path, "two", "zwei", wrong);
    } else {
        apply_in(sandbox, &path, "three", "drei", wrong);
        apply_in(sandbox, &path, "drei", "three", wrong);
    }
}

pub(crate) fn apply_in(
    sandbox: &Sandbox,
    path: &Path,
    from: &str,
    to: &str,
    wrong: &mut Vec<String>,
) {
    let text = std::fs::read_to_string(path).unwrap_or_default().replace(from, to);
    let (program, words) = crate::put::words(path);
    let run = sandbox.program(&program, &words).stdin(text).run();
    if run.code != 0 {
        wrong.push(format!("writing afterwards: {}", run.stderr));
    }
}

// Save, load, clear.

pub(crate) fn saved(sandbox: &Sandbox) {
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
pub(crate) fn texts(after: &After) -> Vec<String> {
    let names = after.state.names(CONVERSATIONS).into_iter().filter(|name| !name.starts_with('.'));
    names.map(|name| after.state.text(format!("{CONVERSATIONS}/{name}"))).collect()
}

pub(crate) fn same(world: &World, after: &After, name: &str, wrong: &mut Vec<String>) {
    let path = format!("{CONVERSATIONS}/{name}");
    if world.before.text(&path) != after.state.text(&path) {
        wrong.push(format!("{name} was changed"));
    }
}

/// A conversation that was written anew is the old one or the new, and the old text is somewhere.
pub(crate) fn rewritten(
    old: &String,
    now: &str,
    is_new: bool,
    after: &After,
    wrong: &mut Vec<String>,
) {
    if !is_new && now != old {
        wrong.push("the conversation is neither the old nor the new".to_owned());
    }
    if is_new && !texts(after).contains(old) {
        wrong.push("the old text was not kept".to_owned());
    }
    if after.run.code == 0 && !is_new {
        wrong.push("exit 0 and the old text".to_owned());
    }
}

pub(crate) fn exchanged(world: &World, after: &After, with: Option<&str>, wrong: &mut Vec<String>) {
    let text = |name: &str| world.before.text(format!("{CONVERSATIONS}/{name}"));
    let (old, now) = (text("c"), after.state.text(format!("{CONVERSATIONS}/c")));
    let is_new = match with {
        Some(name) => now == text(name),
        None => now.starts_with("<initial_context") && !now.contains("<user-prompt"),
    };
    rewritten(&old, &now, is_new, after, wrong);
    if after.run.code == 1 && !is_new {
        // A copy that says nothing more does not stay.
        let names = after.state.names(CONVERSATIONS);
        if names.iter().any(|name| name.starts_with("c-")) && after.fault == Fault::Fails("ENOSPC")
        {
            wrong.push(format!("a copy stayed though nothing was done: {names:?}"));
        }
    }
    same(world, after, "s", wrong);
    same(world, after, "other", wrong);
}

pub(crate) fn exchanged_again(world: &World, _: &After, _: &str, wrong: &mut Vec<String>) {
    let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
    expect(&run, "again done\n", wrong);
    let run = world.sandbox.run(&["--conversation", "c", "--clear"]);
    if run.code != 0 {
        wrong.push(format!("clearing afterwards: {}", run.stderr));
    }
}

// Split and patch.

pub(crate) fn numbered(word: &str) -> String {
    (1..=100).map(|n| format!("{word} {n}\n")).collect()
}

pub(crate) fn split(sandbox: &Sandbox, more: &[&str]) -> crate::process_under_test::Run {
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
pub(crate) fn patched(world: &World) -> String {
    let index = world.before.text("work/split/index.json");
    let index = conversation::format::index::parse(&index).unwrap();
    let text = numbered("line");
    let segment = &index.segments[1];
    let (from, to) =
        (usize::try_from(segment.start_byte).unwrap(), usize::try_from(segment.end_byte).unwrap());
    format!("{}edited\n{}", &text[..from], &text[to..])
}

/// Index and segments are of one mind.
pub(crate) fn agrees(after: &After, wrong: &mut Vec<String>) {
    let text = after.state.text("work/split/index.json");
    let Ok(index) = conversation::format::index::parse(&text) else {
        wrong.push(format!("the index does not load: {text:?}"));
        return;
    };
    let mut joined = Vec::new();
    for segment in &index.segments {
        let name = Path::new(&segment.path).file_name().unwrap();
        let bytes = after.state.file(Path::new("work/split").join(name)).unwrap_or_default();
        if sys::fs::sha256(bytes) != segment.sha256 {
            wrong.push(format!("{} is not what the index says", name.display()));
        }
        joined.extend_from_slice(bytes);
    }
    if sys::fs::sha256(&joined) != index.source_sha256 {
        wrong.push("the segments are not the source".to_owned());
    }
}

/// The index of files is one, and names the file's conversation once.
pub(crate) fn file_index(after: &After, wrong: &mut Vec<String>) {
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
