//! `--undo [N]`: takes back what the last N runs of a file's conversation did to the file, and tells the conversation.
//!
//! Which changes there are is read from the conversation ([`crate::memory::changes`]), what the file held before them
//! from `outputs/`. Nothing is lost: the present content is kept first. No model is asked.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Args, Ground, nagent};
use crate::cmd::nagent::changed::{self, Changed, Content};
use crate::cmd::nagent::start::wait;
use crate::cmd::settings::pick;
use crate::diff::file_diff::DiffText;
use crate::drive;
use crate::exit::Exit;
use crate::format::conversation::Block;
use crate::memory::changes::{Change, NO_FILE, changes, killed};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::protocol::tags;
use crate::sys::boundary::{Boundary, Places};
use crate::sys::conversation_file::{Appended, ConversationFile};
use crate::sys::file_error::FileError;
use crate::sys::names::shown;
use crate::sys::root::Root;
use crate::sys::{env, file_index, fs, replace, terminal};
use crate::turn::unfinished::unfinished_results;

/// Characters of a prompt's first line that are told.
const PROMPT: usize = 100;
/// The longest diff that the conversation gets, in bytes.
const TOLD: usize = 6 << 10;

/// A change that is taken back, for a reader.
struct Undone {
    at: String,
    prompt: String,
    before: Option<String>,
    after: Option<String>,
    /// Lines that went and came when it was made; `None` where that cannot be told.
    lines: Option<(u64, u64)>,
}

pub(super) fn run(args: &Args, file: &Path, count: usize) -> Result<Report, Problem> {
    let ground = Ground::find(args)?;
    let root = &ground.settings.root.value;
    let path = nagent::file_edit::absolute(&ground.env, file)?;
    let name = nagent::file_edit::conversation(&ground.settings, &ground.env, &path)?;
    let parents = ground.env.get(env::PARENTS).unwrap_or_default();
    if parents.split('/').any(|parent| parent == name) {
        return Err(Problem::usage(format!(
            "the conversation of {} started this command and is at work; its user can undo once it has ended",
            shown(&path)
        )));
    }
    if !fs::exists(&root.conversation(&name)) {
        return Err(failed(format!(
            "nothing to undo: {} has no conversation of its own yet",
            shown(&path)
        )));
    }
    let mut journal = open(args, &ground, &name)?;
    let boundary = boundary(&ground, &path)?;
    let opened = boundary.open_for_write(&path).map_err(denied)?;
    let now = Content::of(replace::read_whole(&opened).map_err(denied)?);
    let mut all = changes(journal.text(), journal.pieces());
    let recorded = all.len();
    // What a killed run did, nobody wrote down: that it was the run, only the user can say.
    all.extend(
        killed(journal.text(), journal.pieces()).filter(|change| change.before != now.sha256),
    );
    let is_guess = all.len() > recorded;
    let chosen = choose(&all, count, &path)?;
    let (newest, oldest) = (&chosen[0], &chosen[chosen.len() - 1]);
    let is_there_already = now.sha256 == oldest.before;
    if !args.force && !is_there_already {
        if now.sha256 != newest.after {
            return Ok(refuse_changed_since(root, &path, newest, &now, is_guess));
        }
        unless_changed_between(&chosen, &path)?;
    }
    let goal = goal(root, oldest, &path)?;

    let changed = Changed { path: &path, before: &now, after: &goal };
    let diff = changed.diff();
    let mut undone: Vec<Undone> =
        chosen.iter().map(|change| describe(root, &path, &now, change)).collect();
    if is_guess {
        undone[0].after.clone_from(&now.sha256);
        undone[0].lines = None;
    }
    let outputs = root.outputs();
    let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file);
    let previous = match &goal.bytes {
        _ if is_there_already => None,
        Some(bytes) => replace::replace_file(opened, bytes, &mut keep).map_err(denied)?.previous,
        None => replace::remove_file(opened, &mut keep).map_err(denied)?,
    };
    // Found by its identity when it is moved next.
    let wait = wait(&ground.interrupts);
    if let Err(error) = file_index::update_identity(root, &name, wait) {
        out::line(&format!("nagent-file-edit: note: {}", Problem::from(error).message));
    }
    // From here on the file is changed: a failure to record it is said with that.
    let block = block(&journal, &path, &now, &goal, &undone, diff.as_ref())
        .with("count", undone.len() - usize::from(is_guess));
    if let Err(error) = record(&mut journal, block) {
        return Err(failed(format!(
            "{} holds what it held before, but its conversation could not be told: {error:#}",
            shown(&path)
        )));
    }
    let quiet = args.quiet || ground.settings.config.quiet == Some(true);
    if let Some(diff) = diff.as_ref().filter(|_| !quiet && terminal::stderr_is_terminal()) {
        changed.show(root, diff);
    }
    let report = Report::done(text(&path, &undone, &goal, is_there_already))
        .with("source_path", path.display().to_string())
        .with("file_id", changed::file_id(root, &name))
        .with("file_index_path", root.file_index().display().to_string())
        .with("conversation_name", journal.name())
        .with("conversation_path", journal.path().display().to_string())
        .with("undone", undone.iter().map(Undone::json).collect::<Vec<_>>())
        .with("changed", !is_there_already)
        .with("before_sha256", now.name())
        .with("after_sha256", goal.name())
        .with("restored_sha256", goal.name())
        .with("previous_path", previous.map(|path| path.display().to_string()));
    Ok(changed::with_diff(report, diff.as_ref()))
}

fn failed(message: String) -> Problem {
    Problem::failed(message)
}

fn denied(denied: FileError) -> Problem {
    failed(denied.problem().to_owned())
}

fn open(args: &Args, ground: &Ground, name: &str) -> Result<ConversationFile, Problem> {
    let root = &ground.settings.root.value;
    let timeout =
        pick(args.lock_timeout, None, ground.settings.config.lock_timeout, 30.0, "config").value;
    let mut waiting = |by: &str| {
        out::line(&format!("nagent-file-edit: waiting for conversation {name}, in use{by}"));
    };
    root.prepare()?;
    ConversationFile::open(
        root,
        name,
        Duration::from_secs_f64(timeout),
        &ground.interrupts,
        &mut waiting,
    )
    .map_err(Problem::from)
}

fn boundary(ground: &Ground, path: &Path) -> Result<Boundary, Problem> {
    let folder = ground.env.folder.clone().map_err(Problem::usage)?;
    let home = ground.env.home();
    let places = Places {
        cwd: &folder,
        toplevel: None,
        home: home.as_deref(),
        root: ground.settings.root.value.path(),
        tmpdir: None,
    };
    Boundary::for_file(places, path).map_err(denied)
}

/// The last `count` changes, the newest first.
fn choose(all: &[Change], count: usize, path: &Path) -> Result<Vec<Change>, Problem> {
    let path = shown(path);
    if all.is_empty() {
        return Err(failed(format!(
            "nothing to undo: no change that a run of its conversation made to {path} still stands"
        )));
    }
    if count > all.len() {
        let there = match all.len() {
            1 => "there is one change".to_owned(),
            n => format!("there are {n} changes"),
        };
        return Err(failed(format!("cannot undo {count} changes of {path}: {there} to undo")));
    }
    Ok(all.iter().rev().take(count).cloned().collect())
}

/// The refusal for a file that is not as the last change left it, with what changed since.
fn refuse_changed_since(
    root: &Root,
    path: &Path,
    newest: &Change,
    now: &Content,
    is_guess: bool,
) -> Report {
    let left = Content::kept(root, newest.after.as_deref());
    let since = Changed { path, before: &left, after: now };
    let what = match (&now.sha256, &newest.after) {
        (None, _) => "was removed",
        (_, None) => "was made again",
        _ => "was changed",
    };
    let diff = since.diff();
    if let Some(diff) = &diff {
        since.show(root, diff);
    }
    let since = if is_guess {
        "since its last run began, which was killed before it could say whether it did that"
    } else {
        "by something else since the last change of its conversation"
    };
    let message = format!(
        "nothing was undone: {} {what} {since} (the diff is above); bring it back to that first, or add --force, which keeps \
         what it holds now in {}",
        shown(path),
        shown(root.outputs())
    );
    Report::failed(Exit::Failed, message)
        .with("source_path", path.display().to_string())
        .with("undone", Vec::<Value>::new())
        .with("diff_since", diff.map(|diff| diff.text))
}

/// Refuses when something else changed the file between the changes: that would be taken back too.
fn unless_changed_between(chosen: &[Change], path: &Path) -> Result<(), Problem> {
    let Some(at) = chosen.windows(2).position(|pair| pair[0].before != pair[1].after) else {
        return Ok(());
    };
    let own = at + 1;
    Err(failed(format!(
        "nothing was undone: before the last {own} of these changes something else changed {}, and that would be taken \
         back too; --undo {own} stops there, --force takes back all",
        shown(path)
    )))
}

/// What the file is to hold.
fn goal(root: &Root, oldest: &Change, path: &Path) -> Result<Content, Problem> {
    let Some(hash) = &oldest.before else { return Ok(Content::default()) };
    let bytes = fs::read_stored(&root.outputs(), hash).map_err(|error| {
        failed(format!(
            "nothing was undone: what {} held before is not to be had: {error:#}",
            shown(path)
        ))
    })?;
    Ok(Content { sha256: Some(hash.clone()), bytes: Some(bytes) })
}

fn describe(root: &Root, path: &Path, now: &Content, change: &Change) -> Undone {
    let content = |hash: &Option<String>| {
        if *hash == now.sha256 { now.clone() } else { Content::kept(root, hash.as_deref()) }
    };
    let (before, after) = (content(&change.before), content(&change.after));
    let diff = Changed { path, before: &before, after: &after }.diff();
    let first = change.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut prompt: String = first.trim().chars().take(PROMPT).collect();
    if prompt.len() < first.trim().len() {
        prompt.push('…');
    }
    Undone {
        at: change.at.clone(),
        prompt,
        before: change.before.clone(),
        after: change.after.clone(),
        lines: diff.and_then(|diff| diff.removed.zip(diff.added)),
    }
}

impl Undone {
    /// `2026-11-22T01:02:03Z  -3 +5  Accept CRLF too`
    fn line(&self) -> String {
        let lines = match self.lines {
            Some((removed, added)) => format!("-{removed} +{added}"),
            None => "lines not counted".to_owned(),
        };
        let at = if self.at.is_empty() { "(no time)" } else { &self.at };
        let prompt = if self.prompt.is_empty() { "(no prompt)" } else { &self.prompt };
        format!("{at}  {lines}  {prompt}")
    }

    fn json(&self) -> Value {
        json!({
            "at": self.at,
            "prompt": self.prompt,
            "before_sha256": self.before.as_deref().unwrap_or(NO_FILE),
            "after_sha256": self.after.as_deref().unwrap_or(NO_FILE),
            "lines_removed": self.lines.map(|lines| lines.0),
            "lines_added": self.lines.map(|lines| lines.1),
        })
    }
}

/// What stdout gets.
fn text(path: &Path, undone: &[Undone], goal: &Content, is_there_already: bool) -> String {
    let path = shown(path);
    let end = match (is_there_already, &goal.sha256) {
        (true, _) => "it held that already, nothing was written",
        (false, None) => "it was removed, as before",
        (false, Some(_)) => "it is as it was before",
    };
    let mut text = format!("undone in {path}: {end}\n");
    for change in undone {
        text.push_str(&change.line());
        text.push('\n');
    }
    text
}

/// What the conversation, and with it the model, is told.
fn block(
    journal: &ConversationFile,
    path: &Path,
    now: &Content,
    goal: &Content,
    undone: &[Undone],
    diff: Option<&DiffText>,
) -> Block {
    let path_name = path.display().to_string();
    let mut block = Block::new("system")
        .with("change", "undo")
        .with("path", &path_name)
        .with("before", now.name())
        .with("after", goal.name());
    let what = if undone.len() == 1 { "a change" } else { "changes" };
    let state = match goal.sha256 {
        Some(_) => "is as it was before that",
        None => "does not exist, as before that",
    };
    let mut text =
        format!("the user took back {what} of this conversation, and {path_name} {state}:\n");
    for change in undone {
        text.push_str(&format!("- {}\n", change.line()));
    }
    if undone.first().is_some_and(|newest| newest.after != now.sha256) && now.sha256 != goal.sha256
    {
        text.push_str("What something else had changed in it since went with that.\n");
    }
    let whole =
        diff.filter(|diff| !diff.is_cut && diff.text.len() <= TOLD && diff.removed.is_some());
    if let Some(diff) = whole {
        text.push_str(&format!("This is how the file was changed back:\n{}", diff.text));
        if knows(journal, &path_name, now) {
            // With the diff the model knows the file as it is now.
            block = block.with("resolved", &path_name);
        }
    } else {
        text.push_str("Read the file again before you change it.");
    }
    block.body(text.trim_end_matches('\n').to_owned())
}

/// Whether the model was last shown the file as it is.
fn knows(journal: &ConversationFile, path: &str, now: &Content) -> bool {
    let mut of_file =
        journal.pieces().iter().rev().filter(|piece| piece.get("resolved") == Some(path));
    let shown = of_file.find_map(|piece| piece.get("shown").or_else(|| piece.get("after")));
    shown.is_some() && shown == now.sha256.as_deref()
}

/// Appends the block, behind results that a killed run left out.
fn record(journal: &mut ConversationFile, block: Block) -> anyhow::Result<()> {
    let own: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    let mut blocks = unfinished_results(journal.text(), journal.pieces());
    if let Some(path) = journal.torn_tail() {
        blocks.push(Block::new("system").body(format!(
            "the end of this conversation was no whole block, as after a crash; what stood there is in {}",
            path.display()
        )));
    }
    blocks.push(block);
    let texts: Vec<String> = blocks.iter().map(|block| drive::format_block(block, &own)).collect();
    if let Appended::InFork(name) = journal.append(&texts.join("\n"))? {
        out::line(&format!(
            "nagent-file-edit: note: the conversation was changed by another program meanwhile and left as it is; \
             the undo stands in {name}"
        ));
    }
    Ok(())
}
