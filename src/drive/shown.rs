//! What the model was last shown of a file that it may change, and what has changed in the file since.
//!
//! The result of a read or a write names it by hash, in the attribute `shown` (or `after`, where that is the same), and
//! the text stands in `outputs/`: so it holds across runs, and a user who removes the result takes it back. Lines count
//! as shown one by one: of a file of which a range was read anew, the rest is as it was shown before. What is not known
//! is never in the way of a write.
//!
//! A reply was written before the results of its own actions: what those show counts from the next reply on, and within
//! the reply only what it wrote itself.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::World;
use super::target::Content;
use crate::diff::file_diff;
use crate::diff::lines::{ChangedRange, changed_ranges};
use crate::format::conversation::{Block, Piece};
use crate::memory::changes::NO_FILE;
use crate::sys::{fs, replace};

/// The largest file of which it is remembered what was shown, in bytes.
const LIMIT: u64 = 4 << 20;
/// The word for a text that is too large to be remembered: nothing is known from there on.
const TOO_LARGE: &str = "too-large";
/// The longest text of what has changed, in bytes.
const LONGEST: usize = 6 << 10;

/// What the model knows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing, or it was too large to be remembered.
    Nothing,
    /// That there was no such file.
    NoFile,
    /// This text.
    Text(Vec<u8>),
}

/// What the last reply's own writes made known, file by file.
#[derive(Debug, Default)]
pub struct Written {
    /// The reply's place among the conversation's pieces.
    reply: Option<usize>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// A path as an attribute has it.
pub(super) fn name(path: &Path) -> String {
    path.display().to_string()
}

impl World<'_> {
    /// What the model knows of the file at a true path, once it has read all results.
    pub(super) fn known(&self, path: &Path) -> Known {
        self.known_from(path, self.journal.pieces())
    }

    /// What it knew when it wrote its last reply, and what that reply has written since.
    pub(super) fn known_to_reply(&self, path: &Path) -> Known {
        let reply = self.reply();
        if self.written.reply == reply
            && let Some((_, text)) = self.written.files.iter().find(|(file, _)| file == path)
        {
            return Known::Text(text.clone());
        }
        self.known_from(path, &self.journal.pieces()[..reply.unwrap_or(0)])
    }

    /// Notes what the last reply has written itself.
    pub(super) fn wrote(&mut self, path: &Path, text: Vec<u8>) {
        let reply = self.reply();
        if self.written.reply != reply {
            self.written = Written { reply, files: Vec::new() };
        }
        self.written.files.retain(|(file, _)| file != path);
        self.written.files.push((path.to_owned(), text));
    }

    fn reply(&self) -> Option<usize> {
        self.journal.pieces().iter().rposition(|piece| piece.name() == Some("agent-response"))
    }

    fn known_from(&self, path: &Path, pieces: &[Piece]) -> Known {
        let path_name = name(path);
        let of_file = |piece: &&Piece| piece.get("resolved") == Some(path_name.as_str());
        let shown = pieces
            .iter()
            .rev()
            .filter(of_file)
            .find_map(|piece| piece.get("shown").or_else(|| piece.get("after")));
        // What a per-file conversation was begun about is known in so far as it is the file's present.
        let is_target = self.boundary.target() == Some(path);
        let begun = || is_target.then(|| self.before.as_ref().map(Content::name)).flatten();
        match shown.or_else(begun) {
            None => Known::Nothing,
            Some(NO_FILE) => Known::NoFile,
            // The attribute stands in a file that anybody may edit: what is no hash, or is not there, is not known.
            Some(hash) => {
                fs::read_kept(&self.root.outputs(), hash).map_or(Known::Nothing, Known::Text)
            }
        }
    }

    /// The result of a read, with what the model knows now; `lines`, from 1, where it was not the whole file.
    pub(super) fn remember_read(
        &self,
        block: Block,
        path: &Path,
        lines: Option<Range<u64>>,
    ) -> Result<Block> {
        let Ok(opened) = self.boundary.open_for_write(path) else { return Ok(block) };
        let size = opened.file().and_then(|file| file.metadata().ok()).map(|data| data.len());
        let Some(size) = size else { return Ok(block) };
        if size > LIMIT {
            // What was known may be of an older text, and must not stand in the way of a write for ever.
            let is_other = match self.known(opened.path()) {
                Known::Text(known) => {
                    replace::read_target(&opened).map_or(true, |now| now != known)
                }
                Known::NoFile => true,
                Known::Nothing => false,
            };
            return Ok(if is_other {
                block.with("resolved", name(opened.path())).with("shown", TOO_LARGE)
            } else {
                block
            });
        }
        let Ok(now) = replace::read_target(&opened) else { return Ok(block) };
        let shown = match (lines, self.known(opened.path())) {
            (Some(lines), Known::Text(before)) => learn(&before, &now, &[bytes_of(&now, &lines)]),
            _ => now,
        };
        let block = block.with("resolved", name(opened.path()));
        self.with_shown(block, &shown)
    }

    /// The result of a patch of a file, with what the model knows now: it wrote it by segments.
    pub(super) fn remember_patch(&mut self, block: Block, source: &Path) -> Result<Block> {
        if self.boundary.target() != Some(source) {
            return Ok(block);
        }
        let outputs = self.root.outputs();
        let content = super::target::content(source, Some(&outputs))?;
        let block = block.with("resolved", name(source));
        Ok(match content {
            Some(content) => {
                if let Ok(text) = fs::read_kept(&outputs, content.name()) {
                    self.wrote(source, text);
                }
                block.with("after", content.name())
            }
            None => block,
        })
    }

    /// The result with the text that the model knows now.
    pub(super) fn with_shown(&self, block: Block, text: &[u8]) -> Result<Block> {
        let hash = fs::hash(text);
        let is_after = block.get("after") == Some(hash.as_str());
        if text.len() as u64 > LIMIT {
            return Ok(if is_after { block } else { block.with("shown", TOO_LARGE) });
        }
        fs::keep(&self.root.outputs(), text)?;
        Ok(if is_after { block } else { block.with("shown", hash) })
    }
}

/// What is known after some ranges of a text were seen: there it is the text as it is now, elsewhere what was known before.
/// A difference that was seen in part is not known.
pub(super) fn learn(known: &[u8], now: &[u8], seen: &[Range<usize>]) -> Vec<u8> {
    let mut text = Vec::with_capacity(now.len());
    let mut at = 0;
    for region in changed_ranges(known, now) {
        text.extend_from_slice(&known[at..region.old.start]);
        let is_seen =
            seen.iter().any(|seen| seen.start <= region.new.start && region.new.end <= seen.end);
        text.extend_from_slice(if is_seen { &now[region.new] } else { &known[region.old.clone()] });
        at = region.old.end;
    }
    text.extend_from_slice(&known[at..]);
    text
}

/// What an edit writes over that is not as the model was shown it.
pub(super) fn stale(known: &[u8], now: &[u8], edited: &[ChangedRange]) -> Vec<ChangedRange> {
    let mut changed = changed_ranges(known, now);
    changed.retain(|changed| edited.iter().any(|edited| meet(&edited.old, &changed.new)));
    changed
}

/// Whether two ranges share a byte, or one lies empty within the other.
fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The changes as a unified diff, bounded. True: it is whole.
pub(super) fn difference(
    old: &[u8],
    new: &[u8],
    changes: &[ChangedRange],
    path: &Path,
) -> (String, bool) {
    let file = path.file_name().unwrap_or_default();
    let diff = file_diff::unified_diff_of(file.as_bytes(), old, new, changes).unwrap_or_default();
    let text = String::from_utf8_lossy(&diff).into_owned();
    // The head names the file twice, which the result does already.
    let text = text.splitn(3, '\n').nth(2).unwrap_or_default();
    if text.len() <= LONGEST {
        return (text.trim_end_matches('\n').to_owned(), true);
    }
    let end = text[..text.floor_char_boundary(LONGEST)].rfind('\n').unwrap_or(0);
    (format!("{}\n[… cut: read the file again]", &text[..end]), false)
}

/// The bytes of lines, counted from 1.
fn bytes_of(text: &[u8], lines: &Range<u64>) -> Range<usize> {
    let start = |line: u64| match line.checked_sub(2) {
        None => 0,
        Some(before) => usize::try_from(before)
            .ok()
            .and_then(|n| memchr::memchr_iter(b'\n', text).nth(n))
            .map_or(text.len(), |at| at + 1),
    };
    start(lines.start)..start(lines.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_was_read_is_known_and_the_rest_stays_as_it_was_known() {
        let check = |known: &str, now: &str, lines: Range<u64>, expect: &str| {
            let range = bytes_of(now.as_bytes(), &lines);
            let learnt = learn(known.as_bytes(), now.as_bytes(), &[range]);
            assert_eq!(String::from_utf8(learnt).unwrap(), expect);
        };
        check("a\nb\nc\n", "A\nb\nC\n", 1..2, "A\nb\nc\n");
        check("a\nb\nc\n", "A\nb\nC\n", 3..4, "a\nb\nC\n");
        check("a\nb\nc\n", "A\nb\nC\n", 1..4, "A\nb\nC\n");
        check("a\nb\nc\n", "b\n", 1..2, "b\n");
        // A difference of two lines of which one was seen.
        check("a\nb\nc\n", "A\nB\nc\n", 1..2, "a\nb\nc\n");
        check("", "x\n", 1..2, "x\n");
    }

    #[test]
    fn an_edit_of_what_has_changed_is_stale() {
        let check = |known: &str, now: &str, new: &str, expect: usize| {
            let edited = changed_ranges(now.as_bytes(), new.as_bytes());
            let found = stale(known.as_bytes(), now.as_bytes(), &edited);
            assert_eq!(found.len(), expect, "{known:?} {now:?} {new:?}");
        };
        check("a\nb\nc\n", "a\nb\nc\n", "a\nB\nc\n", 0);
        check("a\nb\nc\n", "a\nx\nc\n", "a\nB\nc\n", 1);
        check("a\nb\nc\n", "a\nx\nc\n", "A\nx\nc\n", 0);
        // Lines that went from within the edited ones.
        check("a\nb\nc\nd\n", "a\nd\n", "x\n", 1);
        // An insertion within lines that are new.
        check("a\nd\n", "a\nb\nc\nd\n", "a\nb\nx\nc\nd\n", 1);
        check("a\nd\n", "a\nb\nc\nd\n", "a\nb\nc\nd\nx\n", 0);
    }

    #[test]
    fn the_lines_of_a_text() {
        let check = |text: &str, lines: Range<u64>, expect: &str| {
            assert_eq!(&text[bytes_of(text.as_bytes(), &lines)], expect);
        };
        check("a\nb\nc", 1..2, "a\n");
        check("a\nb\nc", 2..4, "b\nc");
        check("a\nb\nc", 1..9, "a\nb\nc");
        check("", 1..2, "");
    }
}
