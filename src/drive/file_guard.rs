//! Writes files for the model: whole ones, and by search and replace. Each action gives one result block, an error as well.
//!
//! Where writes may go is decided by [`sys::boundary`], how an edit is found by [`edits::apply`]. A whole file is
//! written only over the content that the model was last shown (`freshness`). An edit whose search text is found
//! exactly needs no such check, since the search text is one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::change_result::{ChangeResult, Logged};
use super::file_changes::{RunChange, change_block, content_hash};
use super::freshness::{
    KnownContent, LastSeen, ShownChange, describe_change, recorded_content, with_resolved,
    with_shown,
};
use conversation::format::edit::EditBlock;
use conversation::format::file::Block;
use conversation::format::harmless;
use conversation::limits;
use conversation::memory::changes::{NO_FILE, is_hash_of, short_hash};
use conversation::protocol::{Action, Change};
use conversation::reason::{Failure, Reason};
use edits::apply::{self, How};
use edits::diff::lines;
use edits::written::{parse_edits, remove_numbers};
use sys::boundary::Boundary;
use sys::change_log::ChangeLog;
use sys::conversation_file::ConversationFile;
use sys::file_stamp::{self, FileStamp};
use sys::opening::Opened;
use sys::{fs, replace};

/// Decides whether the model may write a file, and writes it.
#[derive(Debug)]
pub struct FileGuard {
    /// Where writes may go.
    pub boundary: Boundary,
    /// Where each write is recorded, so that it can be undone.
    pub log: ChangeLog,
    /// The files that were written, and the conversation's own file.
    written: BTreeMap<PathBuf, WrittenFile>,
    /// When files were made that tags replaced since.
    pub(super) born: BTreeMap<PathBuf, Duration>,
    /// The content of the conversation's own file when the run began.
    at_start: Option<String>,
    /// The run's changes to that file, one for each span between those of others.
    changes: Vec<RunChange>,
    pub(super) last_seen: LastSeen,
    outputs: PathBuf,
    /// Whether the model was told that nothing is unescaped.
    told_entities: bool,
}

/// A file that was written.
#[derive(Debug)]
struct WrittenFile {
    /// The hash of the content that was written.
    hash: String,
    /// The stamp of the file after that write.
    stamp: Option<FileStamp>,
    /// Unchanged by others when the current command started.
    is_own: bool,
}

impl WrittenFile {
    fn new(path: &Path, hash: String) -> Self {
        Self { hash, stamp: FileStamp::of_path(path), is_own: true }
    }
}

impl FileGuard {
    /// A guard that has written nothing yet. Previous contents go to `outputs`.
    pub fn new(boundary: Boundary, outputs: PathBuf, log: ChangeLog) -> Self {
        let (written, born, at_start, changes, last_seen, told_entities) = Default::default();
        Self { boundary, log, written, born, at_start, changes, last_seen, outputs, told_entities }
    }

    /// Notes the content of the conversation's own file at the start of a run; with `keep`, stores it.
    ///
    /// # Errors
    /// The content could not be kept.
    pub fn begin(&mut self, keep: bool) -> Result<Option<String>> {
        if let Some(path) = self.boundary.target() {
            self.at_start = content_hash(path, keep.then_some(&self.outputs))?;
            if let Some(hash) = &self.at_start {
                self.written.insert(path.to_owned(), WrittenFile::new(path, hash.clone()));
            }
        }
        Ok(self.at_start.clone())
    }

    /// The blocks that record the run's changes to its own file, and the last change. Called once, at the end.
    pub(super) fn finish(&mut self) -> (Vec<Block>, Option<RunChange>) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.retain(|change| change.before != change.after);
        let path = self.boundary.target().unwrap_or(Path::new(""));
        let blocks = changes.iter().map(|change| change_block(path, change)).collect();
        (blocks, changes.pop())
    }

    /// Notes what the run has made of a file.
    fn note_written(&mut self, path: &Path, before: String, after: String) {
        self.written.insert(path.to_owned(), WrittenFile::new(path, after.clone()));
        if self.boundary.target() != Some(path) {
            return;
        }
        match self.changes.last_mut() {
            Some(last) if last.after == before => last.after = after,
            _ => self.changes.push(RunChange { before, after }),
        }
    }

    /// Checks the files that the run has written before a command starts: changes up to here are somebody else's.
    pub(super) fn before_command(&mut self) {
        for (path, written) in &mut self.written {
            written.is_own = FileStamp::of_path(path) == written.stamp;
        }
    }

    /// Records the changes of a command to files that the run has written, so that undo takes them back, too. Returns
    /// their paths.
    pub(super) fn record_rewritten(&mut self) -> Result<Vec<PathBuf>> {
        let mut rewritten = Vec::new();
        for (path, written) in &self.written {
            let stamp = FileStamp::of_path(path);
            // A file that was removed or moved is refused when it is undone, unless it is the conversation's own.
            let is_gone = stamp.is_none() && self.boundary.target() != Some(path);
            if !written.is_own || is_gone || stamp == written.stamp {
                continue;
            }
            let after = content_hash(path, Some(&self.outputs))?;
            let Some(after) = after.filter(|after| *after != written.hash) else { continue };
            rewritten.push((path.clone(), written.hash.clone(), after));
        }
        for (path, before, after) in &rewritten {
            let (before, after) = (before.clone(), after.clone());
            Logged::append(&self.log, path, before.clone(), after.clone())?;
            self.note_written(path, before, after);
        }
        Ok(rewritten.into_iter().map(|(path, ..)| path).collect())
    }

    /// Whether a write will be refused, since the model has not read the file. Nobody need be asked about it.
    pub(super) fn is_unread(&self, action: &Action, conversation: &ConversationFile) -> bool {
        let Action::Change(Change::Write { path, .. }) = action else { return false };
        self.boundary.open_for_write(Path::new(path)).is_ok_and(|opened| {
            let shown = self.last_seen.content_known_at_reply(conversation.pieces(), opened.path());
            shown.is_none_or(|known| !known.is_read)
                && !opened.is_empty()
                && opened.bytes() <= limits::KEPT_CONTENT
        })
    }

    pub(super) fn write_file(
        &mut self,
        block: Block,
        path: &str,
        text: &str,
        conversation: &ConversationFile,
        stop: &dyn Fn() -> bool,
    ) -> Result<ChangeResult, Failure> {
        let opened = self.boundary.open_for_write(Path::new(path))?;
        let shown = self.last_seen.content_known_at_reply(conversation.pieces(), opened.path());
        let is_unread = shown.as_ref().is_none_or(|known| !known.is_read) && !opened.is_empty();
        if let Some(seen) = shown.or_else(|| self.content_at_start(opened.path())) {
            let now = replace::hash_target(&opened)?.unwrap_or_else(|| NO_FILE.to_owned());
            let is_same = is_hash_of(&seen.hash, &now);
            if !is_same && now == NO_FILE {
                return Ok(self.removed_since(block, &opened));
            }
            if !is_same {
                let why = "nothing was written: the file has changed since it was last shown, and this would undo that";
                let then = "Send the write again with these changes in it, or edit only the lines that matter.";
                let seen = KnownContent { is_read: true, ..seen };
                return self.refuse_stale(block, &opened, &seen, conversation, [why, then]);
            }
        }
        // A larger file cannot be kept, and so the write is refused below.
        if is_unread && opened.bytes() <= limits::KEPT_CONTENT {
            let text = format!(
                "nothing was written: the file exists ({} bytes), and you had read nothing of it when you wrote this\nRead it, or the part \
                 that matters, and send the write again;\nor change parts of it with <nagent-edit>",
                opened.bytes()
            );
            return Err(Failure::new(Reason::Unread, text));
        }
        let path = opened.path().to_owned();
        let (mut block, logged) = self.replace_content(block, opened, text.as_bytes(), stop)?;
        if let Some(note) = self.note_entities(text, &path) {
            let body = block.body.take().unwrap_or_default() + &note;
            block = block.body(body.trim_start());
        }
        let known = KnownContent { hash: fs::sha256(text.as_bytes()), is_read: true };
        let result = ChangeResult::written(block, &logged, &known);
        self.last_seen.record_write(conversation.pieces(), &path, known);
        Ok(result)
    }

    /// Tells once that entities in a text stay what they are, unless the file is of a kind that has them.
    fn note_entities(&mut self, text: &str, path: &Path) -> Option<String> {
        let found = ["&lt;", "&gt;", "&amp;"].into_iter().find(|entity| text.contains(entity))?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let has_them = matches!(
            ending,
            "html" | "htm" | "xhtml" | "xml" | "svg" | "md" | "vue" | "jsx" | "tsx"
        );
        (!has_them && !std::mem::replace(&mut self.told_entities, true))
            .then(|| format!("\nthe text has {found}: bodies are raw, nothing is unescaped"))
    }

    pub(super) fn edit_file(
        &mut self,
        block: Block,
        path: &str,
        (blocks, all): (&str, bool),
        conversation: &ConversationFile,
        stop: &dyn Fn() -> bool,
    ) -> Result<ChangeResult, Failure> {
        let mut edits = parse_edits(blocks)
            .map_err(|why| format!("line {} of the blocks: {}", why.line, why.message))?;
        let opened = self.boundary.open_for_write(Path::new(path))?;
        let path = opened.path().to_owned();
        let seen = self.last_seen.content_known_at_reply(conversation.pieces(), &path);
        let seen = seen.or_else(|| self.content_at_start(&path));
        if !opened.exists() && seen.as_ref().is_some_and(|seen| seen.hash != NO_FILE) {
            return Ok(self.removed_since(block, &opened));
        }
        let old = text_to_edit(&opened, &edits)?;
        let mut is_as_sent = true;
        for block in &mut edits {
            let sent = block.replace.clone();
            remove_numbers(block, &old);
            is_as_sent &= block.replace == sent;
        }
        let old_hash =
            if opened.exists() { fs::sha256(old.as_bytes()) } else { NO_FILE.to_owned() };
        let stale = seen.as_ref().filter(|seen| !is_hash_of(&seen.hash, &old_hash));
        let applied = match apply::apply(&old, &edits, all) {
            Ok(applied) => applied,
            Err(refusals) => {
                let refusals: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                let text = format!("{}\nNothing was changed.", refusals.join("\n"));
                let Some(seen) = stale else { return Err(Failure::new(Reason::NoMatch, text)) };
                let text = format!("{text} The file has changed since it was last shown");
                return self.refuse_stale(block, &opened, seen, conversation, [&text, ""]);
            }
        };
        let is_lax = applied.changes.iter().any(|change| change.how > How::LineEnds);
        if let Some(seen) = stale.filter(|_| is_lax) {
            let why = "nothing was changed: the file has changed since it was last shown, and a search matches only if \
                       white space, indentation or quotes are ignored";
            let then = "If the edit is still right, send it again.";
            return self.refuse_stale(block, &opened, seen, conversation, [why, then]);
        }
        let (done, logged) = self.replace_content(block, opened, applied.text.as_bytes(), stop)?;
        let note = done.body.iter().map(|note| format!("\n{note}"));
        let note = note.chain(self.note_entities(blocks, &path));
        let text =
            describe_edit(&old, &applied.text, is_as_sent && !is_lax) + &note.collect::<String>();
        let replaced = all.then_some(applied.places);
        let done = done.with("blocks", edits.len()).with_some("replaced", replaced).body(text);
        // A partial view stays partial after an edit.
        let new_hash = fs::sha256(applied.text.as_bytes());
        let known_now = |known: Option<KnownContent>| match known {
            Some(known) if !is_hash_of(&known.hash, &old_hash) => known,
            known => KnownContent {
                hash: new_hash.clone(),
                is_read: old.is_empty() || known.is_some_and(|known| known.is_read),
            },
        };
        let after_results = recorded_content(conversation.pieces(), &path).or_else(|| seen.clone());
        self.last_seen.record_write(conversation.pieces(), &path, known_now(seen));
        Ok(ChangeResult::written(done, &logged, &known_now(after_results)))
    }

    /// The result of a read, with the record that the model knows the content: all of it, or where `whole` is missing a part.
    pub(super) fn record_read(
        &self,
        block: Block,
        path: &Path,
        whole: Option<&[u8]>,
        conversation: &ConversationFile,
    ) -> Block {
        // A file that the model cannot write needs no record.
        let Some(opened) = self.open_existing(path) else { return block };
        let hash = if let Some(bytes) = whole {
            Some(fs::sha256(bytes))
        } else {
            let known = recorded_content(conversation.pieces(), opened.path());
            let is_news = !known.is_some_and(|known| known.is_read);
            // A larger file is not overwritten in any case.
            let is_hashed = is_news && opened.bytes() <= limits::KEPT_CONTENT;
            is_hashed.then(|| replace::hash_target(&opened).ok()).flatten().flatten()
        };
        let Some(hash) = hash else { return block };
        let known = KnownContent { hash, is_read: true };
        with_shown(self.with_resolved(block, opened.path()), &known)
    }

    /// The result of a split of a file, of which nothing was shown.
    pub(super) fn record_split(&self, block: Block, path: &Path, hash: &str) -> Block {
        let Some(opened) = self.open_existing(path) else { return block };
        let known = KnownContent { hash: hash.to_owned(), is_read: false };
        with_shown(self.with_resolved(block, opened.path()), &known)
    }

    fn open_existing(&self, path: &Path) -> Option<Opened> {
        self.boundary.open_for_write(path).ok().filter(Opened::exists)
    }

    /// The result of a patch, which the model wrote by its segments.
    pub(super) fn record_patch(
        &mut self,
        block: Block,
        source: &Path,
        conversation: &ConversationFile,
    ) -> Result<ChangeResult> {
        let hash = content_hash(source, Some(&self.outputs))?;
        let (Some(previous), Some(hash)) = (block.get("previous"), hash) else {
            return Ok(ChangeResult::unchanged(block));
        };
        let before = fs::stored_hash(Path::new(previous));
        let logged = Logged::append(&self.log, source, before.clone(), hash.clone())?;
        self.note_written(source, before, hash.clone());
        let block = self.with_resolved(block, source);
        let is_target = self.boundary.target() == Some(source);
        let block = if is_target { block.with("after", short_hash(&hash)) } else { block };
        // The model has read segments, but not the file itself.
        let known = KnownContent { hash, is_read: false };
        let result = ChangeResult::written(block, &logged, &known);
        self.last_seen.record_write(conversation.pieces(), source, known);
        Ok(result)
    }

    /// The content of the conversation's own file when the run began. It was not shown.
    fn content_at_start(&self, path: &Path) -> Option<KnownContent> {
        let hash = self.at_start.clone().filter(|_| self.boundary.target() == Some(path))?;
        Some(KnownContent { hash, is_read: false })
    }

    /// Writes the file, after its previous content was kept.
    fn replace_content(
        &mut self,
        block: Block,
        opened: Opened,
        bytes: &[u8],
        stop: &dyn Fn() -> bool,
    ) -> Result<(Block, Logged), Failure> {
        let is_target = self.boundary.target() == Some(opened.path());
        let (path, after) = (opened.path().to_owned(), fs::sha256(bytes));
        let record = |before: String| {
            // The new content is kept, too: what the file holds later is compared and merged with it.
            fs::store_output(&self.outputs, bytes)?;
            Logged::append(&self.log, &path, before, after.clone())
        };
        if let Some(born) = file_stamp::born_at(&path) {
            self.born.entry(path.clone()).or_insert(born);
        }
        let mut logged = None;
        if !opened.exists() {
            logged = Some(record(NO_FILE.to_owned())?);
        }
        let mut keep = |file: &mut File| {
            let kept = fs::store_file(&self.outputs, file, stop)?;
            logged = Some(record(fs::stored_hash(&kept))?);
            Ok(kept)
        };
        let written = replace::replace_file(opened, bytes, &mut keep)?;
        let logged = logged.ok_or("the file was written, and its previous content was not kept")?;
        let before =
            written.previous.as_deref().map_or_else(|| NO_FILE.to_owned(), fs::stored_hash);
        self.note_written(&written.path, before, after.clone());
        self.boundary.renew_target();
        let mut block = self
            .with_resolved(block.with("status", "ok"), &written.path)
            .with("bytes", written.bytes)
            .with("lines", written.lines)
            .with_some("created", written.created.then_some("true"))
            .with_some("previous", written.previous.map(|path| path.display().to_string()));
        if written.parted > 0 {
            block = block.body("other hard links to this file keep the previous content");
        }
        let block = if is_target { block.with("after", short_hash(&after)) } else { block };
        Ok((block, logged))
    }

    /// Refuses a write because the file is not as the model knows it. The result shows the change to the model.
    fn refuse_stale(
        &mut self,
        block: Block,
        opened: &Opened,
        seen: &KnownContent,
        conversation: &ConversationFile,
        [why, then]: [&str; 2],
    ) -> Result<ChangeResult, Failure> {
        let now = replace::read_target(opened)
            .map_err(|denied| format!("{why}; {}", denied.for_model()))?;
        let hash = fs::sha256(&now);
        // A later change is compared with what this result shows; without it, the whole file is shown then.
        let _ = fs::store_output(&self.outputs, &now);
        let (mut change, is_whole) =
            describe_change(conversation, &self.outputs, &seen.hash, &now, opened.path());
        let record =
            ShownChange { path: opened.path().into(), from: seen.hash.clone(), to: hash.clone() };
        if !self.last_seen.record_change(conversation.pieces(), record) {
            "The change is shown in a result above".clone_into(&mut change);
        }
        let block = self.with_resolved(block, opened.path());
        let text = format!("{why}. {change}\n{then}").trim_end().to_owned();
        // A change that is shown in part must not refuse the next write, too: `then` tells the model to go on.
        let shows = is_whole || !then.is_empty();
        let known = KnownContent { hash, is_read: seen.is_read };
        let failure = Failure::new(Reason::Changed, text);
        Ok(ChangeResult::refused(block, failure, shows.then_some(&known)))
    }

    /// Refuses a write to a file that was removed after the model was shown it.
    fn removed_since(&self, block: Block, opened: &Opened) -> ChangeResult {
        let text = "nothing was written: the file has been removed since it was last shown\nTo create it again, send \
                    <nagent-write> with its whole text";
        let block = self.with_resolved(block, opened.path());
        let known = KnownContent { hash: NO_FILE.to_owned(), is_read: true };
        ChangeResult::refused(block, Failure::new(Reason::Changed, text), Some(&known))
    }

    fn with_resolved(&self, block: Block, path: &Path) -> Block {
        with_resolved(block, self.boundary.folder(), path)
    }
}

/// The text that the blocks are applied to, or why there is none. A single block without a search text creates a file.
fn text_to_edit(opened: &Opened, edits: &[EditBlock]) -> Result<String, Failure> {
    if opened.exists() {
        let text = String::from_utf8(replace::read_target(opened)?);
        return text.map_err(|_| "the file is not UTF-8 text\nChange it with a command".into());
    }
    match edits {
        [only] if only.search.trim().is_empty() => Ok(String::new()),
        _ => {
            let text = "there is no such file\nCreate it with <nagent-write>";
            Err(Failure::new(Reason::Missing, text))
        }
    }
}

/// Describes what an edit changed: `line 12: -1 +2`; then each current line as `12:text`, unless the model has sent them just so.
fn describe_edit(old: &str, new: &str, is_as_sent: bool) -> String {
    let mut text = String::new();
    let mut number = 1;
    let mut at = 0;
    for range in lines::changed_ranges(old.as_bytes(), new.as_bytes()) {
        number += new[at..range.new.start].matches('\n').count();
        at = range.new.start;
        let (gone, come) = (&old[range.old], &new[range.new]);
        let (removed, added) = (gone.lines().count(), come.lines().count());
        let separator = if is_as_sent && !text.is_empty() { "; " } else { "" };
        text.push_str(&format!("{separator}line {number}: -{removed} +{added}"));
        let mut before = gone.lines();
        let come = if is_as_sent { "" } else { come };
        for (index, line) in come.lines().enumerate() {
            let line = cut_around_change(before.next().unwrap_or_default(), line);
            text.push_str(&format!("\n{}:{line}", number + index));
        }
        if !is_as_sent {
            text.push('\n');
        }
        if let Some(cut) = harmless::cut_at_line(&text, limits::EDIT_SHOWN) {
            return format!("{cut}\n[… more changed lines are not shown]");
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// The current line; if it is too long to be shown, the part around its first change.
fn cut_around_change<'a>(before: &str, line: &'a str) -> Cow<'a, str> {
    // The head of the result needs room, too.
    const MOST: usize = limits::EDIT_SHOWN - 64;
    if line.len() <= MOST {
        return line.into();
    }
    let same = before.bytes().zip(line.bytes()).take_while(|(old, new)| old == new).count();
    let start = line.floor_char_boundary(same.min(line.len() - MOST / 2).saturating_sub(MOST / 2));
    let end = line.floor_char_boundary(start + MOST);
    let (left, right) =
        (["", "…"][usize::from(start > 0)], ["", "…"][usize::from(end < line.len())]);
    format!("{left}{}{right}", &line[start..end]).into()
}
