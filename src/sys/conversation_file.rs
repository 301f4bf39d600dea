//! A conversation file on disk: opened under its lock, read whole, appended to durably.
//!
//! Append is one write and one `fdatasync`; a torn tail that an earlier run left is moved aside first; a file that
//! another program has changed meanwhile is left alone, and the run goes on in a fork. It must not know what blocks
//! mean: it takes text.

// No panic: what is read here, anybody may have written.
#![deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::file_stamp::FileStamp;
use super::fs;
use super::interrupt::Interrupts;
use super::lock::{self, Lock, LockError};
use super::root::Root;
use crate::format::conversation::{self, Kind, Piece, Trouble};

/// The largest conversation that is read, in bytes. No model's window holds a hundredth of it.
pub const LIMIT: u64 = 1 << 30;

/// What of [`LIMIT`] is left to replies and results of the run that a prompt begins.
const SPARE: u64 = 256 << 20;

/// An open conversation.
#[derive(Debug)]
pub struct ConversationFile {
    root: Root,
    name: String,
    path: PathBuf,
    /// `None` until the first append of a new conversation.
    file: Option<File>,
    text: String,
    pieces: Vec<Piece>,
    /// Where the torn tail that was found at the start is now.
    torn: Option<PathBuf>,
    lock: Option<Lock>,
    /// Whether the name of the file is durable, and that of the lock's note, which tells a torn tail from damage.
    is_noted: bool,
}

/// What an append had to do beside appending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// Nothing.
    Plainly,
    /// The file had been changed by another program: the run goes on in a fork of this name.
    InFork(String),
}

impl ConversationFile {
    /// Opens a conversation for a run: takes its lock, reads it, and moves a torn tail aside.
    ///
    /// # Errors
    /// The lock did not come free; the file cannot be read, is damaged, or is no text.
    pub fn open(
        root: &Root,
        name: &str,
        timeout: Duration,
        interrupts: &Interrupts,
        waiting: &mut dyn FnMut(&str),
    ) -> Result<Self, LockError> {
        let mut journal = Self::unread(root, name);
        let mut lock = lock::lock_conversation(root, name, timeout, interrupts, waiting)?;
        journal.load(Some(&mut lock))?;
        journal.lock = Some(lock);
        Ok(journal)
    }

    /// Takes the lock of a conversation that is to be put aside or written anew. What its last holder left torn is moved aside
    /// first, and told where it is; that it cannot be is no error.
    ///
    /// # Errors
    /// The lock did not come free.
    pub fn lock(
        root: &Root,
        name: &str,
        timeout: Duration,
        interrupts: &Interrupts,
        waiting: &mut dyn FnMut(&str),
    ) -> Result<(Lock, Option<PathBuf>), LockError> {
        let mut lock = lock::lock_conversation(root, name, timeout, interrupts, waiting)?;
        let mut journal = Self::unread(root, name);
        if lock.is_after_crash() {
            let _ = journal.load(Some(&mut lock));
        }
        Ok((lock, journal.torn))
    }

    fn unread(root: &Root, name: &str) -> Self {
        Self {
            root: root.clone(),
            name: name.to_owned(),
            path: root.conversation(name),
            file: None,
            text: String::new(),
            pieces: Vec::new(),
            torn: None,
            lock: None,
            is_noted: false,
        }
    }

    /// Reads a conversation without its lock, for upkeep that only looks. A torn tail is passed over, not moved.
    pub fn peek(root: &Root, name: &str) -> Result<Self> {
        let mut journal = Self::unread(root, name);
        journal.load(None)?;
        journal.file = None;
        Ok(journal)
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

    /// Its blocks and notes.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Where the torn tail is that the start found, if it found one.
    pub fn torn(&self) -> Option<&std::path::Path> {
        self.torn.as_deref()
    }

    /// Reads the file; under its lock, a torn tail is moved aside. Only then the note of a killed holder has served.
    fn load(&mut self, lock: Option<&mut Lock>) -> Result<()> {
        self.read(lock.is_none(), lock.as_deref().is_some_and(Lock::is_after_crash))?;
        if let Some(lock) = lock {
            lock.settle();
        }
        Ok(())
    }

    fn read(&mut self, looks_only: bool, after_crash: bool) -> Result<()> {
        let what = || format!("cannot open the conversation {}", self.path.display());
        let mut file = match OpenOptions::new()
            .read(true)
            .append(!looks_only)
            // Never waits at a FIFO.
            .custom_flags(fs::nonblock())
            .open(&self.path)
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(what),
        };
        let metadata = file.metadata().with_context(what)?;
        if !metadata.is_file() {
            bail!("{}: it is no regular file", what());
        }
        if !looks_only {
            fs::check_owner(&self.path, &metadata)?;
            if metadata.mode() & 0o077 != 0 {
                // An older tool or an editor made it so. Where there are no modes, there are none to take away.
                let _ = file.set_permissions(Permissions::from_mode(metadata.mode() & 0o600));
            }
        }
        if metadata.len() > LIMIT {
            bail!("{}: it has {} bytes, over the limit of {LIMIT}", what(), metadata.len());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
        file.read_to_end(&mut bytes).with_context(what)?;
        let (text, tail) = split_text(bytes);
        let parsed = conversation::parse(&text);
        let is_hole = after_crash && is_hole(&tail);
        if tail_holds_blocks(&tail) && !is_hole {
            let line = text.matches('\n').count() + 1;
            bail!(
                "{} is damaged at line {line}: bytes that are no UTF-8 text stand in the middle of it; \
                 remove or mend them",
                self.path.display()
            );
        }
        let cut = match parsed.trouble {
            Some(Trouble::Damaged { perhaps_torn: Some(offset), .. }) if after_crash => {
                Some(offset)
            }
            Some(Trouble::Damaged { line, message, .. }) => {
                bail!("{} is damaged at line {line}: {message}", self.path.display());
            }
            Some(Trouble::Torn { offset, .. }) => Some(offset),
            None if tail.is_empty() => None,
            // Bytes that are no text stand behind the last block: a file system's zeros, or half a character.
            None => {
                let last_block = parsed.pieces.iter().rfind(|piece| piece.kind != Kind::Note);
                let is_zeros =
                    text.trim().is_empty() && (is_hole || tail.iter().all(|byte| *byte == 0));
                if last_block.is_none() && !is_zeros {
                    bail!("{} is no text file; a conversation is UTF-8 text", self.path.display());
                }
                Some(last_block.map_or(0, |piece| piece.span.end))
            }
        };
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
                // Kept before it is cut off: at no instant is it in neither place.
                self.torn = Some(fs::keep_numbered(&self.root.invalid(&self.name), &torn)?);
            }
            file.set_len(offset as u64).and_then(|()| file.sync_data()).with_context(what)?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Refuses a new prompt that leaves too little room for what comes of it: a conversation that has grown past [`LIMIT`] could
    /// not be opened again.
    pub fn check_room(&self, more: usize) -> Result<()> {
        let bytes = (self.text.len() as u64).saturating_add(more as u64);
        if bytes.saturating_add(SPARE) <= LIMIT {
            return Ok(());
        }
        bail!(
            "conversation {} would have {bytes} bytes of the {LIMIT} that one may have, and {SPARE} stay for what a run adds: \
             --clear puts it aside for a new one, --edit-conversation shortens it",
            self.name
        )
    }

    /// Appends text, durably. On a failed write the file is cut back to its old length.
    pub fn append(&mut self, blocks: &str) -> Result<Appended> {
        let mut forked = Appended::Plainly;
        if self.was_changed() {
            self.fork()?;
            forked = Appended::InFork(self.name.clone());
        }
        let mut addition = String::with_capacity(blocks.len() + 2);
        if !self.text.is_empty() {
            addition.push_str(if self.text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        let lead = addition.len();
        addition.push_str(blocks);
        self.write(&addition)?;
        let start = self.text.len() + lead;
        self.text.push_str(&addition);
        self.adopt(start..self.text.len());
        Ok(forked)
    }

    /// Adds the pieces of the text that was appended.
    fn adopt(&mut self, range: Range<usize>) {
        let start = range.start;
        for piece in conversation::parse(&self.text[range]).pieces {
            let kind = match piece.kind {
                Kind::Block { name, attributes, body } => {
                    Kind::Block { name, attributes, body: body.start + start..body.end + start }
                }
                Kind::Note => Kind::Note,
            };
            self.pieces
                .push(Piece { kind, span: piece.span.start + start..piece.span.end + start });
        }
    }

    fn write(&mut self, addition: &str) -> Result<()> {
        let what = || format!("cannot append to the conversation {}", self.path.display());
        let is_new = self.file.is_none();
        if is_new {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&self.path)
                .with_context(what)?;
            self.file = Some(file);
        }
        if !self.is_noted {
            // Before anything is in pieces: who finds it so after a power cut is to find the note that says why.
            let noted = fs::sync_folder(&self.root.conversations());
            if noted.is_err() && is_new {
                self.file = None;
                let _ = fs::remove(&self.path);
            }
            noted?;
            self.is_noted = true;
        }
        let Some(file) = &mut self.file else { bail!("{}: it is not open", what()) };
        let result = file.write_all(addition.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = result {
            // A half-written block would be taken for a torn tail anyway; cut it off while we can.
            let cut = file.set_len(self.text.len() as u64).and_then(|()| file.sync_data());
            let state = if cut.is_ok() { "nothing of it was kept" } else { "its end may be torn" };
            if is_new && cut.is_ok() {
                self.file = None;
                let _ = fs::remove(&self.path);
            }
            let room = fs::room(&self.root.conversations());
            return Err(error).with_context(|| format!("{}; {state} ({room})", what()));
        }
        Ok(())
    }

    /// Whether the file at the path is no longer the one that was opened, at the length that was left.
    fn was_changed(&self) -> bool {
        let Some(file) = &self.file else { return fs::exists(&self.path) };
        match (FileStamp::of_open(file), FileStamp::of(&self.path)) {
            (Some(ours), Some(now)) => {
                !ours.same_file(&now) || now.size() != self.text.len() as u64
            }
            _ => true,
        }
    }

    /// Goes on in a new file that holds what this run has seen.
    fn fork(&mut self) -> Result<()> {
        let stem: String = self.name.chars().take(60).collect();
        let name = format!("{stem}-{}", uuid::Uuid::new_v4().simple());
        // The lock of what was left behind goes: whoever edited it may go on there.
        self.lock = Some(lock::lock_new_conversation(&self.root, &name)?);
        self.path = self.root.conversation(&name);
        self.name = name;
        self.file = None;
        self.is_noted = false;
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            let written = self.write(&text);
            self.text = text;
            written?;
        }
        Ok(())
    }
}

/// The longest beginning that is text without zeros, and the bytes behind it.
fn split_text(mut bytes: Vec<u8>) -> (String, Vec<u8>) {
    // `contains` is far faster than `position`, and the common case.
    let zero = bytes.contains(&0).then(|| bytes.iter().position(|byte| *byte == 0)).flatten();
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

/// Whether the file went on behind the first byte that is no text: a block's tag stands there.
fn tail_holds_blocks(tail: &[u8]) -> bool {
    let text = String::from_utf8_lossy(tail);
    let parsed = conversation::parse(&text.replace('\0', "\n"));
    let is_damaged = matches!(parsed.trouble, Some(Trouble::Damaged { .. }));
    is_damaged || parsed.pieces.iter().any(|piece| piece.kind != Kind::Note)
}

/// Whether this is what a power cut leaves of one append whose later blocks were written before its earlier ones: zeros,
/// and behind them no reply, which a later append would have begun with.
fn is_hole(tail: &[u8]) -> bool {
    tail.first() == Some(&0)
        && !tail
            .split(|byte| matches!(byte, 0 | b'\n'))
            .any(|line| line.starts_with(b"<agent-response"))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
