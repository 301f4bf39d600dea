//! Actions on files: read and look around. Each gives one result block, an error as well.
//!
//! A failure of an action is a result with `status="error"` and a text that teaches; only a failure to keep the
//! record itself is an `Err`. Writing is in `write`, beside this file.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::World;
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::protocol::Action;
use crate::sys::fs;
use crate::sys::grep;
use crate::sys::look::{self, Found};
use crate::sys::look_error::LookError;
use crate::sys::names::expand_home;
use crate::sys::read::{self, Range, TextRead};
use crate::sys::read_error::ReadError;

/// The largest file whose true bytes are kept because it is no UTF-8.
const KEPT: u64 = 64 << 20;

impl World<'_> {
    /// Runs an action that is no conversation: its result, and the signal that ended it, if one did.
    pub fn run_action(&mut self, action: &Action) -> Result<(Block, Option<Signal>)> {
        let block = Block::new(action.result_block());
        if let Some(why) = self.holds_mask(action) {
            return Ok((self.veil.block(error(about(block, action), why)), None));
        }
        let block = match action {
            Action::Shell { commands, timeout } => {
                let (block, signal) = self.run_shell(commands, *timeout);
                return Ok((self.veil.block(block), signal));
            }
            Action::Next { prompt } => block.body(prompt),
            Action::Read { path, offset, limit } => self.read(block, path, *offset, *limit)?,
            Action::FileRead { path } => self.file_read(block, path)?,
            Action::FilePatch { index } => self.patch(block, index)?,
            Action::Write { path, text } => self.write(block.with("path", path), path, text)?,
            Action::Edit { path, blocks } => self.edit(block.with("path", path), path, blocks)?,
            Action::List { path } => {
                let found = look::list(&self.folder, &self.expand(path), &self.asked_to_stop());
                self.found(block.with("path", path), found)?
            }
            Action::Glob { pattern, path } => {
                let folder = self.expand(path.as_deref().unwrap_or("."));
                let found = look::glob(&self.folder, pattern, &folder, &self.asked_to_stop());
                self.found(asked(block.with("pattern", pattern), "path", path.as_deref()), found)?
            }
            Action::Grep { pattern, path, glob } => {
                let folder = self.expand(path.as_deref().unwrap_or("."));
                let found = grep::grep(
                    &self.folder,
                    pattern,
                    &folder,
                    glob.as_deref(),
                    &self.asked_to_stop(),
                );
                let block = asked(block.with("pattern", pattern), "path", path.as_deref());
                self.found(asked(block, "glob", glob.as_deref()), found)?
            }
            // Conversations are run in groups, by super::child.
            Action::Conversation { .. } => {
                error(block, "a conversation cannot be run as a plain action")
            }
        };
        let signal = self.interrupts.pending();
        Ok((self.veil.block(block), signal))
    }

    pub(super) fn asked_to_stop(&self) -> impl Fn() -> bool + use<'_> {
        let interrupts = self.interrupts;
        move || interrupts.pending().is_some()
    }

    pub(super) fn expand(&self, path: &str) -> PathBuf {
        expand_home(Path::new(path), self.env.home().as_deref())
    }

    fn read(
        &self,
        block: Block,
        path: &str,
        offset: Option<u64>,
        limit: Option<u64>,
    ) -> Result<Block> {
        let mut block = block.with("path", path);
        for (name, value) in [("offset", offset), ("limit", limit)] {
            if let Some(value) = value {
                block = block.with(name, value);
            }
        }
        let range = (offset.is_some() || limit.is_some())
            .then(|| Range { offset: offset.unwrap_or(1), limit });
        let full = self.folder.join(self.expand(path));
        self.shown(
            block,
            &full,
            read::read_text(&full, range, read::WHOLE_LIMIT, &self.asked_to_stop()),
        )
    }

    fn file_read(&mut self, block: Block, path: &str) -> Result<Block> {
        let block = block.with("path", path);
        let full = self.folder.join(self.expand(path));
        let read = read::read_text(&full, None, read::WHOLE_LIMIT, &self.asked_to_stop());
        match read {
            Err(ReadError::TooLarge { .. }) => self.split(block, &full),
            result => self.shown(block.with("mode", "inline"), &full, result),
        }
    }

    fn shown(
        &self,
        block: Block,
        path: &Path,
        result: Result<TextRead, ReadError>,
    ) -> Result<Block> {
        let read = match result {
            Ok(read) => read,
            Err(failure) => return Ok(error(block, failure.to_string())),
        };
        let mut block =
            block.with("status", "ok").with("bytes", read.bytes).with("lines", read.lines);
        if read.first_line != 1 || read.more || read.cut {
            block = block.with("first_line", read.first_line).with("last_line", read.last_line);
        }
        if read.more || read.cut {
            block = block.with("more", "true");
        }
        if !read.valid_utf8 {
            block = block.with("utf8", "false");
            if let Ok((mut file, _)) = read::open_regular(path)
                && read.bytes <= KEPT
                && let Ok(bytes) = fs::read_all(&mut file)
            {
                let bytes = self.masked_bytes(bytes);
                block = block.with("output", fs::keep(&self.root.outputs(), &bytes)?.display());
            }
        }
        let lines = (read.more || read.cut || read.first_line != 1)
            .then_some(read.first_line..read.last_line + 1);
        block = self.remember_read(block, path, lines)?;
        let text = self.piece(path, read.text, read.more || read.first_line != 1, read.cut);
        Ok(block.body(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)))
    }

    fn found(&self, block: Block, result: Result<Found, LookError>) -> Result<Block> {
        match result {
            Ok(found) => {
                let text = found.text();
                let block = block.with("status", "ok").with("lines", found.shown);
                let block = if found.total > found.shown {
                    block.with("total", found.total)
                } else {
                    block
                };
                let text = text.strip_suffix('\n').map(str::to_owned).unwrap_or(text);
                self.inline_cut(block, text)
            }
            Err(failure) => Ok(error(block, failure.to_string())),
        }
    }
}

/// A failed action's block.
pub(super) fn error(block: Block, text: impl Into<String>) -> Block {
    block.with("status", "error").body(text)
}

/// The block with what an action that writes was to write.
fn about(block: Block, action: &Action) -> Block {
    match action {
        Action::Write { path, .. } | Action::Edit { path, .. } => block.with("path", path),
        Action::FilePatch { index } => block.with("index", index),
        _ => block,
    }
}

/// The block with what was asked, where it was.
fn asked(block: Block, name: &str, value: Option<&str>) -> Block {
    match value {
        Some(value) => block.with(name, value),
        None => block,
    }
}
