//! Runs actions: reads and searches here, everything else in the module for it. Each returns one result block, also for an
//! error.
//!
//! A failure of an action is a result with `status="error"` and a text that says what to do. Only a failure to keep the
//! record itself is an `Err`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::change_result::ChangeResult;
use super::commands::ShellCommand;
use super::mask_check::check_for_masks;
use super::result_block::error;
use super::runner::Runner;
use super::{large_files, truncate};
use conversation::context::without_lines_of_other_tags;
use conversation::exit::Signal;
use conversation::format::file::Block;
use conversation::limits;
use conversation::protocol::{Access, Action, Change, TagKind, TagSet};
use conversation::reason::{Failure, Reason};
use sys::file_error::FileError;
use sys::list_dir::{self, SearchScope};
use sys::read::{self, Range, TextRead};
use sys::{fs, grep};

impl Runner<'_> {
    /// Runs an action that is not a conversation: its result, and the signal that ended it, if one did. A failure advises
    /// no tags that the model does not have.
    pub fn run_action(&mut self, action: &Action) -> Result<(Block, Option<Signal>)> {
        let (block, signal) = self.perform_action(action)?;
        let mut block = self.context.redactor.redact_block(block);
        // Credentials are masked first: numbers would break up the shape of one of several lines.
        if matches!(action, Action::Read { numbers: true, .. }) {
            block = with_line_numbers(block);
        }
        if block.get("status") == Some("error")
            && self.context.tags != TagSet::ALL
            && matches!(action.access(), Access::Read | Access::Write)
            && let Some((what, advice)) = block.body.as_deref().and_then(|it| it.split_once('\n'))
        {
            let advice = without_lines_of_other_tags(advice, self.context.tags);
            block.body = Some(format!("{what}\n{advice}").trim_end().to_owned());
        }
        Ok((block, signal))
    }

    fn perform_action(&mut self, action: &Action) -> Result<(Block, Option<Signal>)> {
        let block = with_target(Block::new(action.result_block()), action);
        if let Action::Wrong { why, .. } = action {
            // The first line is for people, too: the form of a tag is not.
            return Ok((error(block, why.replacen(": write ", "\nWrite ", 1)), None));
        }
        if let Some(why) = check_for_masks(action, &self.context) {
            return Ok((error(block, why), None));
        }
        let from = match read_path(action).map(|path| self.resolve_read(&path)).transpose() {
            Ok(from) => from.unwrap_or_default(),
            Err(why) => return Ok((error(block, why), None)),
        };
        let block = match action {
            Action::Shell { commands: text, timeout, keep, outside } => {
                let parents = self.children.parents_of_commands();
                let sandbox = self.context.sandbox.clone().filter(|_| outside.is_none());
                let sandbox = sandbox.as_deref();
                let command = ShellCommand { commands: text, timeout: *timeout, parents, sandbox };
                return Ok(if let Some(name) = keep {
                    self.commands.start_kept_commands(block, &command, name, &self.context)
                } else {
                    self.run_observed(|all, context, on_output| {
                        all.run(block, &command, context, on_output)
                    })
                });
            }
            Action::Next { prompt } => block.body(prompt),
            Action::Read { offset, limit, .. } => self.read_lines(block, &from, *offset, *limit)?,
            Action::FileRead { .. } => self.read_or_split(block, &from)?,
            Action::Change(change) => self.change_file(block, change),
            Action::List { .. } | Action::Glob { .. } | Action::Grep { .. } => {
                self.search(block, action, &from)?
            }
            Action::Script { code } => self.run_script(block, code)?,
            Action::Stdout { text } => self.write_stdout(block, text),
            // Conversations are run in groups, by super::children.
            Action::Conversation { .. } | Action::Wrong { .. } => {
                error(block, "a conversation cannot be run as a plain action")
            }
        };
        Ok((block, self.context.interrupts.pending()))
    }

    /// The result of a change. Whoever makes a [`ChangeResult`] has recorded what undo and later changes need.
    fn change_file(&mut self, block: Block, change: &Change) -> Block {
        let (new, conversation) = (block.clone(), &self.conversation);
        let stop = self.context.stop_check();
        let done: Result<ChangeResult, Failure> = match change {
            Change::Write { path, text } => {
                self.files.write_file(new, path, text, conversation, &stop)
            }
            Change::Edit { path, blocks, all } => {
                self.files.edit_file(new, path, (blocks, *all), conversation, &stop)
            }
            Change::FilePatch { index } => {
                large_files::apply_patch(new, index, &self.context, &mut self.files, conversation)
            }
        };
        done.map_or_else(|failure| error(block, failure), ChangeResult::into_block)
    }

    /// The bytes of a text that is shown at once, at most `most`: a quarter of the model's window, where it is known. A token
    /// has about four bytes.
    pub fn most_shown(&self, most: usize) -> usize {
        let quarter = self.asker.window.and_then(|tokens| usize::try_from(tokens).ok());
        most.min(quarter.unwrap_or(usize::MAX).max(limits::LEAST_SHOWN))
    }

    fn most_read(&self) -> u64 {
        self.most_shown(limits::READ_WHOLE) as u64
    }

    /// Fits what results show to the model's window, after that was learned or changed.
    pub fn fit_results(&mut self) {
        self.context.redactor.keep = self.most_shown(limits::RESULT_WHOLE) / 2;
    }

    fn resolve_read(&self, path: &str) -> Result<PathBuf, Failure> {
        self.context.resolve_read(path, &self.splits_folder())
    }

    /// The result of a list, a glob or a grep, of a folder or file by its path without links.
    fn search(&self, block: Block, action: &Action, root: &Path) -> Result<Block> {
        let (stop, hidden) = (self.context.stop_check(), self.context.hidden_paths());
        let search = SearchScope { root, hidden: &hidden, stop: &stop };
        let found = match action {
            Action::List { path } => list_dir::list_dir(search, &self.context.expand(path)),
            Action::Glob { pattern, path } => {
                let asked = self.context.expand(path.as_deref().unwrap_or("."));
                list_dir::find_by_glob(search, pattern, &asked)
            }
            Action::Grep { pattern, path, glob, context, ignore_case } => {
                let asked = self.context.expand(path.as_deref().unwrap_or("."));
                let how = grep::Pattern {
                    regex: pattern,
                    ignore_case: *ignore_case,
                    context: usize::try_from(context.unwrap_or(0)).unwrap_or(usize::MAX),
                };
                grep::search_lines(search, &how, &asked, glob.as_deref())
            }
            _ => return Ok(error(block, "it is not a search")),
        };
        let found = match found {
            Ok(found) => found,
            Err(failure) => return Ok(error(block, failure)),
        };
        let total = (found.total > found.shown).then_some(found.total);
        let matches = (found.more_in_lines > 0).then_some(found.shown + found.more_in_lines);
        let block = block.with("status", "ok").with("lines", found.shown);
        let block = block.with_some("total", total).with_some("matches", matches);
        let text = truncate::without_last_line_feed(found.to_text());
        self.context.redactor.with_cut_lines(block, text, &self.context.root.outputs_folder())
    }

    fn read_lines(
        &self,
        block: Block,
        path: &Path,
        offset: Option<u64>,
        limit: Option<u64>,
    ) -> Result<Block> {
        let range = (offset.is_some() || limit.is_some())
            .then(|| Range { offset: offset.unwrap_or(1), limit });
        if range.is_none()
            && let Some(block) = self.show_file(&block, path)?
        {
            return Ok(block);
        }
        let read = read::read_text(path, range, self.most_read(), &self.context.stop_check());
        self.show_text(block, path, read)
    }

    /// The result of reading a part of a file, as if the model had asked for it.
    pub fn read_part(
        &mut self,
        path: &str,
        offset: Option<u64>,
        limit: Option<u64>,
    ) -> Result<Block> {
        let action = Action::Read { path: path.to_owned(), offset, limit, numbers: false };
        Ok(self.run_action(&action)?.0)
    }

    /// The result of reading a file that the user names. A long one is stored, unless `is_dry`, and its head and tail are
    /// shown.
    pub fn read_for_user(&mut self, path: &str, is_dry: bool) -> Result<Block> {
        let block = self.read_part(path, None, None)?;
        let resolved = self.resolve_read(path).ok().filter(|_| block.get("status") != Some("ok"));
        let Some(resolved) = resolved else { return Ok(block) };
        let stop = self.context.stop_check();
        match read::read_text(&resolved, None, self.most_read(), &stop) {
            Err(error) if error.reason == Some(Reason::TooLarge) => {}
            _ => return Ok(block),
        }
        let Ok(Some(bytes)) = fs::read_bytes(&resolved, limits::STDIN_PROMPT as u64) else {
            return Ok(block);
        };
        let new = Block::new("nagent-read-result").with("path", path).with("status", "ok");
        let block = self.show_long(new, bytes, is_dry)?;
        Ok(self.files.record_read(block, &resolved, None, &self.conversation))
    }

    /// The block with a stream that the user names, whose bytes the file at `path` has. A long one is stored, unless `is_dry`; its head and tail are shown.
    pub fn show_stream(
        &self,
        name: &str,
        path: &Path,
        bytes: Vec<u8>,
        is_dry: bool,
    ) -> Result<Block> {
        let block = Block::new("nagent-read-result").with("path", name);
        if let Some(block) = self.show_bytes(&block, path, &bytes)? {
            return Ok(block);
        }
        let block = block.with("status", "ok");
        if bytes.len() > self.most_shown(limits::PROMPT_WHOLE) {
            return self.show_long(block, bytes, is_dry);
        }
        self.show_short(block, &self.context.redactor.mask_bytes(bytes), is_dry)
    }

    /// The block with a text of the user's. What is not UTF-8 is stored as it is, unless `is_dry`.
    pub fn show_short(&self, mut block: Block, bytes: &[u8], is_dry: bool) -> Result<Block> {
        if str::from_utf8(bytes).is_err() {
            block = block.with("utf8", "false");
            if !is_dry {
                let path = fs::store_output(&self.context.root.outputs_folder(), bytes)?;
                block = block.with("output", path.display());
            }
        }
        // After a crash, zeros in the file are taken for those of a file system.
        let text = String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
        Ok(block.body(text.trim_end_matches('\n').to_owned()))
    }

    /// The block with the head and the tail of a text of the user's, which is stored whole, unless `is_dry`.
    pub fn show_long(&self, block: Block, bytes: Vec<u8>, is_dry: bool) -> Result<Block> {
        let bytes = self.context.redactor.mask_bytes(bytes);
        let outputs = self.context.root.outputs_folder();
        let path = if is_dry {
            fs::output_path(&outputs, &fs::sha256(&bytes))
        } else {
            fs::store_output(&outputs, &bytes)?
        };
        let block =
            if str::from_utf8(&bytes).is_ok() { block } else { block.with("utf8", "false") };
        let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}");
        Ok(truncate::with_head_and_tail(block, &text, &path, self.context.redactor.keep))
    }

    fn read_or_split(&mut self, block: Block, path: &Path) -> Result<Block> {
        if let Some(block) = self.show_file(&block, path)? {
            return Ok(block);
        }
        match read::read_text(path, None, self.most_read(), &self.context.stop_check()) {
            Err(error) if error.reason == Some(Reason::TooLarge) => {
                let splits = self.splits_folder();
                large_files::split_file(block, path, &splits, &self.context, &mut self.files)
            }
            read => self.show_text(block.with("mode", "inline"), path, read),
        }
    }

    fn show_text(
        &self,
        block: Block,
        path: &Path,
        read: Result<TextRead, FileError>,
    ) -> Result<Block> {
        let read = match read {
            Ok(read) => read,
            Err(failure) => return Ok(error(block, failure)),
        };
        let context = &self.context;
        let is_part = read.more || read.first_line != 1;
        let mut block =
            block.with("status", "ok").with("bytes", read.bytes).with("lines", read.lines);
        if is_part || read.cut {
            block = block.with("first_line", read.first_line).with("last_line", read.last_line);
        }
        block = block.with_some("more", (read.more || read.cut).then_some("true"));
        if !read.valid_utf8 {
            block = block.with("utf8", "false");
            if let Ok(bytes) = fs::read_resolved(path, limits::STORED_BYTES) {
                let bytes = context.redactor.mask_bytes(bytes);
                let stored = fs::store_output(&context.root.outputs_folder(), &bytes)?;
                block = block.with("output", stored.display());
            }
        }
        let is_whole = !is_part && !read.cut && read.valid_utf8;
        let whole = is_whole.then_some(read.text.as_bytes());
        block = self.files.record_read(block, path, whole, &self.conversation);
        let text = if read.cut { context.redactor.trim_cut_end(read.text) } else { read.text };
        let mut text = truncate::without_last_line_feed(text);
        if read.cut {
            let (bytes, line, next) = (text.len(), read.first_line, read.first_line + 1);
            let way = "<nagent-file-read> has all of it in segments; ";
            let way = if context.tags.contains(TagKind::FileRead) { way } else { "" };
            text.push_str(&format!(
                "\n[… line {line} is longer: only its first {bytes} bytes are shown. {way}line {next}, if there is one, \
                 is at offset=\"{next}\" …]"
            ));
        }
        Ok(block.body(text))
    }
}

/// The result of a read with the number of each line before it.
fn with_line_numbers(block: Block) -> Block {
    let first = block.get("first_line").and_then(|number| number.parse().ok()).unwrap_or(1_u64);
    let is_text = block.get("status") == Some("ok");
    let Some(text) = block.body.as_deref().filter(|text| is_text && !text.is_empty()) else {
        return block;
    };
    let lines = text.split('\n').zip(first..);
    let lines: Vec<String> = lines.map(|(line, number)| format!("{number:6}│{line}")).collect();
    block.with("numbers", "true").body(lines.join("\n"))
}

/// The file or folder that an action is to read.
fn read_path(action: &Action) -> Option<String> {
    let path = || action.attributes_and_body().0.remove("path");
    (action.access() == Access::Read).then(|| path().unwrap_or_else(|| ".".to_owned()))
}

/// The block with what an action is about, as its row in the table of tags says.
fn with_target(block: Block, action: &Action) -> Block {
    let (attributes, _) = action.attributes_and_body();
    let names = action.tag_kind().table_row().target.iter();
    names.fold(block, |block, name| block.with_some(name, attributes.get(*name)))
}
