//! The file of a conversation: opened under its lock, read whole, appended to durably.
//!
//! Append is one write and one `fdatasync`; a torn tail of an earlier run is moved aside first. If another program has
//! added text to the file meanwhile, the run continues with that text; if it has changed the file otherwise, the file
//! is not touched and the run continues in a fork. This module handles text and does not know what blocks mean.

// No panic: anybody may have written what is read here.
#![deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

pub mod replace;

use std::fs::{File, OpenOptions, Permissions};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::file_stamp::FileStamp;
use super::interrupt::Interrupts;
use super::lock::{self, Lock, LockError};
use super::root::Root;
use super::run_note::Activity;
use super::{durable, fs, messages};
use conversation::exit::Exit;
use conversation::format::file::{self, Piece, Trouble};
use conversation::limits::{self, CONVERSATION, CONVERSATION_SPARE};

/// An open conversation.
#[derive(Debug)]
pub struct ConversationFile {
    root: Root,
    name: String,
    path: PathBuf,
    /// `None` until the first append of a new conversation.
    file: Option<StampedFile>,
    text: String,
    pieces: Vec<Piece>,
    /// The file with the torn tail that was found at the start.
    torn: Option<PathBuf>,
    lock: Option<Lock>,
    /// The original of a fork, with its lock.
    left: Option<(String, Option<Lock>)>,
    /// Whether the names of the file and of the lock's note are durable. Without the note, a torn tail would look like damage.
    is_noted: bool,
}

/// A file that was read or appended to, and its stamp at that time.
#[derive(Debug)]
struct StampedFile {
    file: File,
    stamp: Option<FileStamp>,
}

impl StampedFile {
    fn renew_stamp(&mut self) {
        self.stamp = FileStamp::of_open(&self.file);
    }
}

impl ConversationFile {
    /// Opens a conversation for a run: takes its lock, reads it, and moves a torn tail aside.
    pub fn open(
        root: &Root,
        name: &str,
        timeout: Duration,
        interrupts: &Interrupts,
        waiting: &mut dyn FnMut(&str),
    ) -> Result<Self, LockError> {
        let mut journal = Self::without_text(root, name);
        let mut lock = lock::lock_conversation(root, name, timeout, interrupts, waiting)?;
        journal.read_file(false, lock.is_after_crash())?;
        journal.forget_taken(&lock);
        // The note of the killed run is no longer needed.
        lock.clear_crash_note();
        journal.lock = Some(lock);
        Ok(journal)
    }

    /// Takes the lock of a conversation that is to be archived or replaced. A torn tail that its last holder left is moved aside
    /// first, and its path returned; a failure to do so is not an error.
    pub fn lock_only(
        root: &Root,
        name: &str,
        timeout: Duration,
        interrupts: &Interrupts,
        waiting: &mut dyn FnMut(&str),
    ) -> Result<(Lock, Option<PathBuf>), LockError> {
        let mut lock = lock::lock_conversation(root, name, timeout, interrupts, waiting)?;
        let mut journal = Self::without_text(root, name);
        if lock.is_after_crash() && journal.read_file(false, true).is_ok() {
            journal.forget_taken(&lock);
            lock.clear_crash_note();
        }
        Ok((lock, journal.torn))
    }

    /// Removes the messages that a killed run has appended but not removed: in another text they would count as new.
    fn forget_taken(&self, lock: &Lock) {
        if lock.is_after_crash() {
            let taken = self.pieces.iter().filter_map(|piece| piece.get(messages::ID));
            taken.for_each(|id| messages::remove(&self.root, &self.name, id));
        }
    }

    fn without_text(root: &Root, name: &str) -> Self {
        Self {
            root: root.clone(),
            name: name.to_owned(),
            path: root.conversation(name),
            file: None,
            text: String::new(),
            pieces: Vec::new(),
            torn: None,
            lock: None,
            left: None,
            is_noted: false,
        }
    }

    /// Reads a conversation without its lock, for read-only upkeep. A torn tail is skipped, not moved.
    pub fn read_only(root: &Root, name: &str) -> Result<Self> {
        let mut journal = Self::without_text(root, name);
        journal.read_file(true, false)?;
        journal.file = None;
        Ok(journal)
    }

    /// Publishes what the run is doing, for `nagent-status`.
    pub fn set_activity(&mut self, activity: Activity) {
        self.lock.iter_mut().for_each(|lock| lock.set_activity(activity.clone()));
    }

    /// Publishes how the run ended, and closes the file. The process ends, too, which frees the pieces at once.
    pub fn record_exit(mut self, exit: Exit) {
        self.lock.iter().for_each(|lock| lock.record_exit(exit));
        std::mem::forget(std::mem::take(&mut self.pieces));
    }

    /// The conversation's name; another one after a fork.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The blocks and notes of the text.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The file with the torn tail that was found at the start, if there was one.
    pub fn torn_tail(&self) -> Option<&std::path::Path> {
        self.torn.as_deref()
    }

    /// Reads the file. With `looks_only`, a torn tail is not moved aside.
    fn read_file(&mut self, looks_only: bool, after_crash: bool) -> Result<()> {
        let Some((mut file, bytes)) = self.open_file(looks_only)? else { return Ok(()) };
        let (text, tail) = split_text(bytes);
        let parsed = file::parse(&text);
        let cut = self.find_torn_tail(&text, &tail, &parsed, after_crash)?;
        self.text = text;
        self.pieces = parsed.pieces;
        if let Some(offset) = cut {
            let mut torn = self.text.as_bytes().get(offset..).unwrap_or_default().to_vec();
            torn.extend_from_slice(&tail);
            self.text.truncate(offset);
            self.pieces.retain(|piece| piece.span.end <= offset);
            if looks_only {
                return Ok(());
            }
            if !torn.iter().all(u8::is_ascii_whitespace) {
                // Copy first, then truncate, so that a kill in between loses nothing.
                self.torn =
                    Some(fs::store_numbered(&self.root.invalid_replies_folder(&self.name), &torn)?);
            }
            let cut = file.file.set_len(offset as u64).and_then(|()| file.file.sync_data());
            cut.with_context(|| format!("cannot open the conversation {}", self.path.display()))?;
            file.renew_stamp();
        }
        self.file = Some(file);
        Ok(())
    }

    /// Opens the file, where there is one, and reads it whole.
    fn open_file(&self, looks_only: bool) -> Result<Option<(StampedFile, Vec<u8>)>> {
        let what = || format!("cannot open the conversation {}", self.path.display());
        let opened = fs::open_own_file(&self.path, OpenOptions::new().append(!looks_only));
        let Some((file, metadata)) = opened.with_context(what)? else { return Ok(None) };
        if !looks_only {
            fs::check_owner(&self.path, &metadata)?;
            if metadata.mode() & 0o077 != 0 {
                // An older tool or an editor made it readable. Some file systems have no modes.
                let _ = file.set_permissions(Permissions::from_mode(metadata.mode() & 0o600));
            }
        }
        // Take the stamp before reading: a change meanwhile then counts as one.
        let stamp = FileStamp::of_open(&file);
        let bytes = fs::read_within(&file, metadata.len(), CONVERSATION).with_context(what)?;
        Ok(Some((StampedFile { file, stamp }, bytes)))
    }

    /// Finds the start of the part that a crash left half written, if there is one.
    fn find_torn_tail(
        &self,
        text: &str,
        tail: &[u8],
        parsed: &file::Parsed,
        after_crash: bool,
    ) -> Result<Option<usize>> {
        let is_hole = after_crash && is_hole(tail);
        let damage = |line: usize, what: &str| {
            anyhow::anyhow!("{} is damaged at line {line}: {what}", self.path.display())
        };
        let bad_byte =
            || damage(text.matches('\n').count() + 1, &format!("it has {}", name_bad_byte(tail)));
        if tail_holds_blocks(tail) && !is_hole {
            return Err(bad_byte());
        }
        let is_zeros = tail.iter().all(|byte| *byte == 0);
        let is_torn = is_hole || is_zeros || is_half_character(tail);
        Ok(match &parsed.trouble {
            Some(Trouble::Damaged { perhaps_torn: Some(offset), .. }) if after_crash && is_torn => {
                Some(*offset)
            }
            Some(Trouble::Damaged { line, message, .. }) => {
                return Err(damage(*line, message));
            }
            Some(Trouble::Torn { offset, .. }) if is_torn => Some(*offset),
            None if tail.is_empty() => None,
            // Bytes after the last block that are not text: zeros of the file system, or half a character.
            None if is_zeros || after_crash && is_torn => {
                let last_block = parsed.pieces.iter().rfind(|piece| piece.name().is_some());
                if last_block.is_none() && !text.trim().is_empty() {
                    let path = self.path.display();
                    bail!("{path} is not a text file; a conversation is UTF-8 text");
                }
                Some(last_block.map_or(0, |piece| piece.span.end))
            }
            // Not a crash: somebody edited the file.
            _ => return Err(bad_byte()),
        })
    }

    /// Refuses a new prompt that leaves too little room: a conversation past [`limits::CONVERSATION`] could not be opened again.
    pub fn check_room(&self, more: usize) -> Result<()> {
        let bytes = (self.text.len() as u64).saturating_add(more as u64);
        if bytes.saturating_add(limits::CONVERSATION_SPARE) <= limits::CONVERSATION {
            return Ok(());
        }
        bail!(
            "conversation {} would have {bytes} bytes; the maximum is {CONVERSATION}, of which {CONVERSATION_SPARE} are reserved for \
             what a run adds: nagent-conversations clear archives it and starts a new one, compact shortens it",
            self.name
        )
    }

    /// Appends text, durably. On a failed write the file is cut back to its old length. If another program has changed
    /// the file other than by adding text, the run continues in a fork, whose name is returned;
    /// [`Self::append_to_left`] then writes to the original.
    pub fn append(&mut self, blocks: &str) -> Result<Option<String>> {
        let mut forked = None;
        // The editor of the original may continue there.
        self.left = None;
        if self.was_changed() && !self.take_additions() {
            self.continue_in_fork()?;
            forked = Some(self.name.clone());
        }
        let mut addition = String::with_capacity(blocks.len() + 2);
        if !self.text.is_empty() {
            addition.push_str(if self.text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        let lead = addition.len();
        addition.push_str(blocks);
        self.write_text(&addition)?;
        let start = self.text.len() + lead;
        self.text.push_str(&addition);
        self.add_pieces(start);
        Ok(forked)
    }

    fn add_pieces(&mut self, start: usize) {
        let shift = |range: &mut Range<usize>| *range = range.start + start..range.end + start;
        for mut piece in file::parse(&self.text[start..]).pieces {
            shift(&mut piece.body);
            shift(&mut piece.span);
            self.pieces.push(piece);
        }
    }

    fn write_text(&mut self, addition: &str) -> Result<()> {
        let what = || format!("cannot append to the conversation {}", self.path.display());
        let is_new = self.file.is_none();
        if is_new {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create_new(true).mode(0o600);
            let file = options.open(&self.path).with_context(what)?;
            self.file = Some(StampedFile { file, stamp: None });
        }
        if !self.is_noted {
            // Sync the folder first, so that after a power cut the `.run` note exists and recovery knows a crash happened.
            let noted = fs::sync_folder(&self.root.conversations());
            if noted.is_err() && is_new {
                self.file = None;
                let _ = fs::remove_file(&self.path);
            }
            noted?;
            self.is_noted = true;
        }
        let Some(stamped) = &mut self.file else { bail!("{}: it is not open", what()) };
        let file = &mut stamped.file;
        if let Err(error) = durable::append(file, addition.as_bytes()) {
            // Half of a block would be taken for a torn tail.
            let length = self.text.len() as u64;
            let is_cut = file.metadata().is_ok_and(|metadata| metadata.len() == length);
            stamped.renew_stamp();
            let state = if is_cut { "nothing of it was kept" } else { "its end may be torn" };
            if is_new && is_cut {
                self.file = None;
                let _ = fs::remove_file(&self.path);
            }
            return Err(error).with_context(|| format!("{}; {state}", what()));
        }
        stamped.renew_stamp();
        Ok(())
    }

    /// Whether another program has replaced or changed the file since the last append.
    fn was_changed(&self) -> bool {
        let Some(file) = &self.file else { return fs::exists(&self.path) };
        let stamps = file.stamp.zip(FileStamp::of_path(&self.path));
        // The size must also be that of the text: another program may have written right after this one.
        stamps.is_none_or(|(known, now)| {
            !known.is_unchanged(&now) || now.size() != self.text.len() as u64
        })
    }

    /// Accepts text that another program has added to the file, at any place. Returns false if it did more than that,
    /// or if the file is not a whole conversation now.
    fn take_additions(&mut self) -> bool {
        if self.file.is_none() {
            return false;
        }
        let Ok(Some((file, text, pieces))) = self.read_whole() else { return false };
        if !has_only_additions(&self.text, &text) {
            return false;
        }
        (self.file, self.text, self.pieces) = (Some(file), text, pieces);
        // An editor that replaced the file may not have made its name durable.
        self.is_noted = false;
        true
    }

    /// Opens and reads the file if it is a conversation without a fault.
    fn read_whole(&self) -> Result<Option<(StampedFile, String, Vec<Piece>)>> {
        let Some((file, bytes)) = self.open_file(false)? else { return Ok(None) };
        let (text, tail) = split_text(bytes);
        let parsed = file::parse(&text);
        let is_whole = tail.is_empty() && parsed.trouble.is_none();
        Ok(is_whole.then_some((file, text, parsed.pieces)))
    }

    /// Appends a block to the original of the fork, if that is still a conversation: a person who continues there finds
    /// the fork by it. A failure is not an error: the fork has everything.
    pub fn append_to_left(&mut self, block: &str) {
        let Some((name, _lock)) = self.left.take() else { return };
        let left = Self::without_text(&self.root, &name);
        if let Ok(Some((StampedFile { mut file, .. }, text, pieces))) = left.read_whole()
            && pieces.iter().any(|piece| piece.name().is_some())
        {
            let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
            let _ = durable::append(&mut file, format!("{gap}{block}").as_bytes());
        }
    }

    /// Continues in a new file, with the text that this run knows.
    fn continue_in_fork(&mut self) -> Result<()> {
        let stem: String = self.name.chars().take(60).collect();
        let name = format!("{stem}-{}", uuid::Uuid::new_v4().simple());
        let lock = self.lock.replace(lock::lock_new_conversation(&self.root, &name)?);
        self.path = self.root.conversation(&name);
        self.left = Some((std::mem::replace(&mut self.name, name), lock));
        self.file = None;
        self.is_noted = false;
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            let written = self.write_text(&text);
            self.text = text;
            written?;
        }
        Ok(())
    }
}

/// Whether a text is another one with additions: at one place, or whole lines anywhere.
fn has_only_additions(old: &str, new: &str) -> bool {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let rest = old.as_bytes().get(same..).unwrap_or_default();
    let is_one = new.len() > old.len() && new.as_bytes().ends_with(rest);
    let mut lines = new.lines();
    is_one || old.lines().all(|line| lines.any(|other| other == line))
}

/// Splits bytes into the longest beginning that is text without zeros, and the remaining bytes.
fn split_text(mut bytes: Vec<u8>) -> (String, Vec<u8>) {
    let zero = memchr::memchr(0, &bytes);
    let mut tail = zero.map_or_else(Vec::new, |zero| bytes.split_off(zero));
    match String::from_utf8(bytes) {
        Ok(text) => (text, tail),
        Err(error) => {
            let end = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            let mut behind = bytes.split_off(end);
            behind.append(&mut tail);
            (String::from_utf8(bytes).unwrap_or_default(), behind)
        }
    }
}

/// The first byte that cannot be in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadByte {
    /// Its line number, from 1.
    pub line: usize,
    /// A description, with advice on what to do.
    pub what: &'static str,
    /// Whether it begins a character that the end of the file cuts off, as after a crash in the middle of a block.
    pub is_cut: bool,
}

/// Finds a byte that is not text. Zeros at the end do not count: a power cut produces them.
pub fn find_bad_byte(bytes: &[u8]) -> Option<BadByte> {
    let (text, tail) = split_text(bytes.to_vec());
    let line = text.matches('\n').count() + 1;
    let is_zeros = tail.iter().all(|byte| *byte == 0);
    let bad = BadByte { line, what: name_bad_byte(&tail), is_cut: is_half_character(&tail) };
    (!is_zeros).then_some(bad)
}

/// Describes the first byte that is not text, and what to do.
fn name_bad_byte(tail: &[u8]) -> &'static str {
    if tail.first() == Some(&0) {
        "a NUL byte; remove it"
    } else {
        "a byte that is not UTF-8 text; remove it, or write the character as UTF-8"
    }
}

/// Whether these bytes are only the beginning of a character.
fn is_half_character(tail: &[u8]) -> bool {
    std::str::from_utf8(tail)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Whether there are blocks after the first byte that is not text.
fn tail_holds_blocks(tail: &[u8]) -> bool {
    let text = String::from_utf8_lossy(tail);
    let parsed = file::parse(&text.replace('\0', "\n"));
    let is_damaged = matches!(parsed.trouble, Some(Trouble::Damaged { .. }));
    is_damaged || parsed.pieces.iter().any(|piece| piece.name().is_some())
}

/// Whether these bytes are the remains of one append after a power cut, when the disk wrote later sectors before
/// earlier ones: zeros, then text without a reply. A later append would have begun with a reply.
fn is_hole(tail: &[u8]) -> bool {
    let text = String::from_utf8_lossy(tail).replace('\0', "\n");
    tail.first() == Some(&0) && !file::holds_reply(&text)
}

#[cfg(test)]
mod tests;
