//! Actions on files: read, look around, write, edit. Each gives one result block, an error as well.
//!
//! A failure of an action is a result with `status="error"` and a text that teaches; only a failure to keep the
//! record itself is an `Err`. Where writes may go is [`crate::sys::boundary`]'s matter, how an edit is looked up
//! [`crate::apply`]'s.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{World, inline};
use crate::apply;
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::format::edit;
use crate::protocol::Action;
use crate::sys::fs;
use crate::sys::grep;
use crate::sys::look::{self, Found};
use crate::sys::look_error::LookError;
use crate::sys::names::expand_home;
use crate::sys::opening::Opened;
use crate::sys::read::{self, Range, TextRead};
use crate::sys::read_error::ReadError;
use crate::sys::replace;

/// The largest file whose true bytes are kept because it is no UTF-8.
const KEPT: u64 = 64 << 20;

impl World<'_> {
    /// Runs an action that is no conversation: its result, and the signal that ended it, if one did.
    pub fn run_action(&mut self, action: &Action) -> Result<(Block, Option<Signal>)> {
        let block = Block::new(action.result_block());
        let block = match action {
            Action::Shell { commands, timeout } => return Ok(self.run_shell(commands, *timeout)),
            Action::Next { prompt } => block.body(prompt),
            Action::Read { path, offset, limit } => self.read(block, path, *offset, *limit)?,
            Action::FileRead { path } => self.file_read(block, path)?,
            Action::FilePatch { index } => self.patch(block, index),
            Action::Write { path, text } => self.write(block.with("path", path), path, text),
            Action::Edit { path, blocks } => self.edit(block.with("path", path), path, blocks),
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
        Ok((block, signal))
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
                block = block.with("output", fs::keep(&self.root.outputs(), &bytes)?.display());
            }
        }
        let text = read.text;
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
                inline::text(block, text, &self.root.outputs())
            }
            Err(failure) => Ok(error(block, failure.to_string())),
        }
    }

    fn write(&mut self, block: Block, path: &str, text: &str) -> Block {
        match self.boundary.open_for_write(Path::new(path)) {
            Ok(opened) => self.put(block, opened, text.as_bytes()),
            Err(denied) => error(block, denied.to_string()),
        }
    }

    /// Writes the whole file and tells of it. What it held before is kept.
    fn put(&mut self, block: Block, opened: Opened, bytes: &[u8]) -> Block {
        let outputs = self.root.outputs();
        let mut keep = |file: &mut std::fs::File| fs::keep_file(&outputs, file);
        match replace::replace(opened, bytes, &mut keep) {
            Ok(written) => {
                self.boundary.renew_target();
                let mut block = block
                    .with("status", "ok")
                    .with("resolved", written.path.display())
                    .with("bytes", written.bytes)
                    .with("lines", written.lines);
                if written.created {
                    block = block.with("created", "true");
                }
                if let Some(previous) = written.previous {
                    block = block.with("previous", previous.display());
                }
                block
            }
            Err(denied) => error(block, denied.to_string()),
        }
    }

    fn edit(&mut self, block: Block, path: &str, blocks: &str) -> Block {
        let edits = match edit::parse(blocks) {
            Ok(edits) => edits,
            Err(complaint) => {
                let text = format!("line {} of the blocks: {}", complaint.line, complaint.message);
                return error(block, text);
            }
        };
        let opened = match self.boundary.open_for_write(Path::new(path)) {
            Ok(opened) => opened,
            Err(denied) => return error(block, denied.to_string()),
        };
        let old = if opened.exists() {
            match replace::read_target(&opened).map(String::from_utf8) {
                Ok(Ok(old)) => old,
                Ok(Err(_)) => {
                    return error(
                        block,
                        "the file is not UTF-8 text; change it with a command instead",
                    );
                }
                Err(denied) => return error(block, denied.to_string()),
            }
        } else {
            let creates = edits.len() == 1 && edits[0].search.trim().is_empty();
            if !creates {
                return error(block, "there is no such file; create it with <nagent-write>");
            }
            String::new()
        };
        match apply::apply(&old, &edits) {
            Ok(applied) => {
                let done = self.put(block, opened, applied.text.as_bytes());
                if done.get("status") != Some("ok") {
                    return done;
                }
                let lines: Vec<String> = applied
                    .changes
                    .iter()
                    .map(|change| {
                        format!("line {}: -{} +{}", change.first_line, change.removed, change.added)
                    })
                    .collect();
                done.with("blocks", edits.len()).body(lines.join("\n"))
            }
            Err(refusals) => {
                let mut text = String::from("nothing was changed.");
                for refusal in refusals {
                    text.push('\n');
                    text.push_str(&refusal.to_string());
                }
                error(block, text)
            }
        }
    }
}

/// A failed action's block.
fn error(block: Block, text: impl Into<String>) -> Block {
    block.with("status", "error").body(text)
}

/// The block with what was asked, where it was.
fn asked(block: Block, name: &str, value: Option<&str>) -> Block {
    match value {
        Some(value) => block.with(name, value),
        None => block,
    }
}
