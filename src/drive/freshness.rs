//! Checks whether a file is unchanged since the model was last shown it.
//!
//! The result of a read, of a write and of an edit records the first digits of the hash of the content that the model knows
//! from then on, in the attribute `shown` (or `after`, where that is the same). So the record lasts from run to run, and a
//! user who deletes a result from the conversation takes its record back. Where there is no record, a write over the whole
//! file is refused; a file in its own conversation is known as the run found it. A read of a part of the file is enough, and
//! does not replace a record of an earlier read. With `part`, the record is of an edit or a split of a file of
//! which nothing was read.
//!
//! The model writes a reply before it has read the results of that reply's own actions: their records count from the
//! next reply on. Content that the reply has written itself counts at once.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use conversation::format::file::{Block, Piece};
use conversation::format::harmless;
use conversation::limits::{CHANGE_SHOWN, DIFF_INPUT};
use conversation::memory::changes::{NO_FILE, is_hash_of, short_hash};
use edits::diff::file_diff;
use sys::conversation_file::ConversationFile;
use sys::fs;

#[derive(Debug, Default)]
pub(super) struct LastSeen {
    /// The reply's place among the pieces of the conversation.
    reply: Option<usize>,
    /// Paths that the reply has written, and the content that the model knows.
    written: Vec<(PathBuf, KnownContent)>,
    /// The changes of files that results of this reply have shown.
    changes: Vec<ShownChange>,
}

/// The content of a file that the model knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownContent {
    /// The hash of the content, or its first digits.
    pub(super) hash: String,
    /// Whether the model has read any of it, or written all of it.
    pub(super) is_read: bool,
}

/// A change of a file that a refusal has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownChange {
    pub(super) path: PathBuf,
    /// The hashes before and after.
    pub(super) from: String,
    pub(super) to: String,
}

impl LastSeen {
    /// Returns what the model knew of a file when it wrote its last reply, or what that reply has written since.
    pub(super) fn content_known_at_reply(
        &self,
        pieces: &[Piece],
        path: &Path,
    ) -> Option<KnownContent> {
        let reply = last_reply(pieces);
        let written = self.written.iter().find(|(file, _)| file == path);
        match written.filter(|_| self.reply == reply) {
            Some((_, known)) => Some(known.clone()),
            None => recorded_content(&pieces[..reply.unwrap_or(0)], path),
        }
    }

    pub(super) fn record_write(&mut self, pieces: &[Piece], path: &Path, known: KnownContent) {
        self.begin_reply(pieces);
        self.written.retain(|(file, _)| file != path);
        self.written.push((path.to_owned(), known));
    }

    /// Records that a result shows a change; false if a result of the same reply shows it already.
    pub(super) fn record_change(&mut self, pieces: &[Piece], change: ShownChange) -> bool {
        self.begin_reply(pieces);
        let is_new = !self.changes.contains(&change);
        if is_new {
            self.changes.push(change);
        }
        is_new
    }

    fn begin_reply(&mut self, pieces: &[Piece]) {
        let reply = last_reply(pieces);
        if self.reply != reply {
            *self = Self { reply, ..Self::default() };
        }
    }
}

/// Returns what the results among these pieces record for a file, by its true path: the first digits of its hash.
pub(super) fn recorded_content(pieces: &[Piece], path: &Path) -> Option<KnownContent> {
    let name = path.display().to_string();
    let (mut cwd, mut last) = ("", None);
    for (at, piece) in pieces.iter().enumerate() {
        // The results of `--read` come right before their prompt.
        let is_read = |piece: &&Piece| piece.name() == Some("nagent-read-result");
        let prompt = pieces[at..].iter().find(|piece| !is_read(piece) && piece.name().is_some());
        cwd = prompt.and_then(|prompt| prompt.get("cwd")).unwrap_or(cwd);
        let Some(hash) = piece.get("shown").or_else(|| piece.get("after")) else { continue };
        let is_it = match piece.get("resolved") {
            Some(resolved) => resolved == name,
            // `resolved` is omitted where the path leads there from the folder of the prompt.
            None if piece.name() == Some("system") => false,
            None => piece.get("path").is_some_and(|given| Path::new(cwd).join(given) == path),
        };
        let is_read = piece.get("part").is_none();
        last = if is_it { Some(KnownContent { hash: hash.to_owned(), is_read }) } else { last };
    }
    last
}

fn last_reply(pieces: &[Piece]) -> Option<usize> {
    pieces.iter().rposition(|piece| piece.name() == Some("agent-response"))
}

/// The block with the record that the model knows a content from here on.
pub(super) fn with_shown(block: Block, known: &KnownContent) -> Block {
    let hash = short_hash(&known.hash);
    let block = if block.get("after") == Some(hash) { block } else { block.with("shown", hash) };
    if known.is_read { block } else { block.with("part", "true") }
}

/// The block with the true path of its file, unless its path from the working folder is the same.
pub(super) fn with_resolved(block: Block, cwd: &Path, path: &Path) -> Block {
    let is_plain = block.get("path").is_some_and(|given| cwd.join(given) == path);
    if is_plain { block } else { block.with("resolved", path.display()) }
}

/// Finds the content with a hash: in `outputs`, or in the result of a read.
fn find_content(conversation: &ConversationFile, outputs: &Path, hash: &str) -> Option<Vec<u8>> {
    let in_result = |piece: &Piece| {
        // The result lacks the last line feed of the file.
        let text = piece.body_text(conversation.text());
        let candidates = [format!("{text}\n"), text.to_owned()];
        let is_it = |bytes: &Vec<u8>| is_hash_of(hash, &fs::sha256(bytes));
        candidates.into_iter().map(String::into_bytes).find(is_it)
    };
    let results = conversation.pieces().iter().rev();
    let names = fs::list_names(outputs).unwrap_or_default();
    let stored = names.iter().filter_map(|name| name.strip_suffix(".txt"));
    let mut stored = stored.filter(|name| is_hash_of(hash, name));
    let shows_it = |piece: &&Piece| piece.get("shown").is_some_and(|shown| is_hash_of(shown, hash));
    stored
        .find_map(|name| fs::read_stored(outputs, name).ok())
        .or_else(|| results.filter(shows_it).find_map(in_result))
}

/// Describes for the model how a file has changed since it saw the content with this hash. True if nothing is left out.
pub(super) fn describe_change(
    conversation: &ConversationFile,
    outputs: &Path,
    seen: &str,
    now: &[u8],
    path: &Path,
) -> (String, bool) {
    let old =
        if seen == NO_FILE { Some(Vec::new()) } else { find_content(conversation, outputs, seen) };
    let old = old.filter(|old| old.len().max(now.len()) <= DIFF_INPUT);
    let (lead, text) = if let Some(old) = old {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let diff = file_diff::unified_diff(name, &old, now).unwrap_or_default();
        // The two lines of its head name the file, as the result does already.
        let text = String::from_utf8_lossy(&diff).into_owned();
        ("What changed:", text.splitn(3, '\n').nth(2).unwrap_or_default().to_owned())
    } else {
        let head = &now[..now.len().min(CHANGE_SHOWN + 1)];
        ("The file is now:", String::from_utf8_lossy(head).into_owned())
    };
    match harmless::cut_at_line(&text, CHANGE_SHOWN) {
        None => (format!("{lead}\n{}", text.trim_end_matches('\n')), true),
        Some(cut) => (format!("{lead}\n{cut}\n[… cut: read the file again]"), false),
    }
}
