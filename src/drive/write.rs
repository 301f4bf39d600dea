//! Actions that write files: whole ones, and by search and replace. Each gives one result block, an error as well.
//!
//! Where writes may go is [`crate::sys::boundary`]'s matter, how an edit is looked up [`crate::apply`]'s. A file that is
//! not as the model was last shown it is not written over: the result shows what has changed, and with that the
//! model knows it ([`super::shown`]).

use std::fs::File;
use std::path::Path;

use anyhow::Result;

use super::World;
use super::act::error;
use super::shown::{self, Known};
use crate::apply;
use crate::diff::lines::{ChangedRange, changed_ranges};
use crate::format::conversation::Block;
use crate::format::edit;
use crate::memory::changes::NO_FILE;
use crate::sys::opening::Opened;
use crate::sys::{fs, replace};

impl World<'_> {
    pub(super) fn write(&mut self, block: Block, path: &str, text: &str) -> Result<Block> {
        let opened = match self.boundary.open_for_write(Path::new(path)) {
            Ok(opened) => opened,
            Err(denied) => return Ok(error(block, denied.to_string())),
        };
        match self.known_to_reply(opened.path()) {
            Known::Text(_) if !opened.exists() => return Ok(gone(block, &opened)),
            Known::Text(known) => {
                if let Some(now) = changed(&known, &opened) {
                    return self.changed_since(block, &opened, &known, &now);
                }
            }
            Known::NoFile if opened.exists() => {
                if let Some(now) = changed(&[], &opened) {
                    return self.changed_since(block, &opened, &[], &now);
                }
            }
            Known::NoFile | Known::Nothing => {}
        }
        let path = opened.path().to_owned();
        let block = self.put(block, opened, text.as_bytes());
        if block.get("status") == Some("ok") {
            self.wrote(&path, text.as_bytes().to_vec());
            self.with_shown(block, text.as_bytes())
        } else {
            Ok(block)
        }
    }

    pub(super) fn edit(&mut self, block: Block, path: &str, blocks: &str) -> Result<Block> {
        let edits = match edit::parse(blocks) {
            Ok(edits) => edits,
            Err(complaint) => {
                let text = format!("line {} of the blocks: {}", complaint.line, complaint.message);
                return Ok(error(block, text));
            }
        };
        let opened = match self.boundary.open_for_write(Path::new(path)) {
            Ok(opened) => opened,
            Err(denied) => return Ok(error(block, denied.to_string())),
        };
        let path = opened.path().to_owned();
        let known = self.known_to_reply(&path);
        let old = if opened.exists() {
            match replace::read_target(&opened).map(String::from_utf8) {
                Ok(Ok(old)) => old,
                Ok(Err(_)) => {
                    let text = "the file is not UTF-8 text; change it with a command instead";
                    return Ok(error(block, text));
                }
                Err(denied) => return Ok(error(block, denied.to_string())),
            }
        } else if matches!(known, Known::Text(_)) {
            return Ok(gone(block, &opened));
        } else {
            let creates = edits.len() == 1 && edits[0].search.trim().is_empty();
            if !creates {
                let text = "there is no such file; create it with <nagent-write>";
                return Ok(error(block, text));
            }
            String::new()
        };
        let applied = match apply::apply(&old, &edits) {
            Ok(applied) => applied,
            Err(refusals) => {
                let mut text = String::from("nothing was changed.");
                for refusal in refusals {
                    text.push('\n');
                    text.push_str(&refusal.to_string());
                }
                return self.refused(block, &opened, &known, old.as_bytes(), text);
            }
        };
        let edited = changed_ranges(old.as_bytes(), applied.text.as_bytes());
        if let Known::Text(known) = &known {
            let stale = shown::stale(known, old.as_bytes(), &edited);
            if !stale.is_empty() {
                return self.stale_edit(block, &opened, known, old.as_bytes(), &stale);
            }
        }
        // Read before its own result stands there.
        let told = self.known(&path);
        let done = self.put(block, opened, applied.text.as_bytes());
        if done.get("status") != Some("ok") {
            return Ok(done);
        }
        let lines: Vec<String> = applied
            .changes
            .iter()
            .map(|change| {
                format!("line {}: -{} +{}", change.first_line, change.removed, change.added)
            })
            .collect();
        let lines: Vec<String> = lines.into_iter().chain(done.body.clone()).collect();
        let done = done.with("blocks", edits.len()).body(lines.join("\n"));
        let text = applied.text.as_bytes();
        let seen: Vec<_> = edited.into_iter().map(|region| region.new).collect();
        let learn = |known: Known| match known {
            Known::Text(known) => shown::learn(&known, text, &seen),
            Known::NoFile | Known::Nothing => text.to_vec(),
        };
        self.wrote(&path, learn(known));
        self.with_shown(done, &learn(told))
    }

    /// Writes the whole file and tells of it. What it held before is kept.
    fn put(&mut self, block: Block, opened: Opened, bytes: &[u8]) -> Block {
        let outputs = self.root.outputs();
        let mut keep = |file: &mut File| fs::keep_file(&outputs, file);
        let is_target = self.boundary.target() == Some(opened.path());
        match replace::replace(opened, bytes, &mut keep) {
            Ok(written) => {
                self.boundary.renew_target();
                let parted = parted(written.parted);
                let mut block = block
                    .with("status", "ok")
                    .with("resolved", shown::name(&written.path))
                    .with("bytes", written.bytes)
                    .with("lines", written.lines);
                if written.created {
                    block = block.with("created", "true");
                }
                if let Some(previous) = written.previous {
                    block = block.with("previous", previous.display());
                }
                let block = parted.into_iter().fold(block, Block::body);
                if is_target { block.with("after", fs::hash(bytes)) } else { block }
            }
            Err(denied) => error(block, denied.to_string()),
        }
    }

    /// The whole file is to be written, and it is not as the model knows it.
    fn changed_since(
        &self,
        block: Block,
        opened: &Opened,
        known: &[u8],
        now: &[u8],
    ) -> Result<Block> {
        let (diff, _) = shown::difference(known, now, &changed_ranges(known, now), opened.path());
        let text = format!(
            "nothing was written: the file has changed since you were last shown it, and this would undo that. What \
             changed:\n{diff}\nWrite it again with these changes in it, or edit the lines that matter."
        );
        let block = error(block.with("resolved", shown::name(opened.path())), text);
        self.with_shown(block, now)
    }

    /// Lines are to be changed that are not as the model knows them.
    fn stale_edit(
        &self,
        block: Block,
        opened: &Opened,
        known: &[u8],
        now: &[u8],
        stale: &[ChangedRange],
    ) -> Result<Block> {
        let (diff, _) = shown::difference(known, now, stale, opened.path());
        let text = format!(
            "nothing was changed: these lines have changed since you were last shown them. What changed:\n{diff}\n\
             If the edit is still right, send it again."
        );
        let block = error(block.with("resolved", shown::name(opened.path())), text);
        let seen: Vec<_> = stale.iter().map(|region| region.new.clone()).collect();
        self.with_shown(block, &shown::learn(&self.told(opened, known), now, &seen))
    }

    /// Blocks were refused; what has changed since the model saw the file may be why.
    fn refused(
        &self,
        block: Block,
        opened: &Opened,
        known: &Known,
        now: &[u8],
        mut text: String,
    ) -> Result<Block> {
        let Known::Text(known) = known else { return Ok(error(block, text)) };
        let changes = changed_ranges(known, now);
        if changes.is_empty() {
            return Ok(error(block, text));
        }
        let (diff, is_whole) = shown::difference(known, now, &changes, opened.path());
        text.push_str("\nthe file has changed since you were last shown it. What changed:\n");
        text.push_str(&diff);
        let block = error(block.with("resolved", shown::name(opened.path())), text);
        let told = self.told(opened, known);
        self.with_shown(block, if is_whole { now } else { &told })
    }

    /// What the model knows once it has read all results, where it knew this when it wrote.
    fn told(&self, opened: &Opened, known: &[u8]) -> Vec<u8> {
        match self.known(opened.path()) {
            Known::Text(told) => told,
            Known::NoFile | Known::Nothing => known.to_vec(),
        }
    }
}

/// What is said of hard links that a write has parted from its file.
fn parted(names: u64) -> Option<String> {
    let told = match names {
        0 => return None,
        1 => "another name (hard link) of this file keeps what it held before".to_owned(),
        more => format!("{more} other names (hard links) of this file keep what it held before"),
    };
    Some(told)
}

/// What the file holds, where that is not what is known of it.
fn changed(known: &[u8], opened: &Opened) -> Option<Vec<u8>> {
    replace::read_target(opened).ok().filter(|now| now != known)
}

/// The file was there when the model was shown it, and is not any more.
fn gone(block: Block, opened: &Opened) -> Block {
    let text = "nothing was written: the file has been removed since you were last shown it. If it is to be there again, \
                send <nagent-write> with its whole text";
    let block = block.with("resolved", shown::name(opened.path())).with("shown", NO_FILE);
    error(block, text)
}
