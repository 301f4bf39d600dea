//! What of a result is masked before it is kept and sent: the credentials that this process knows, always; well-known
//! shapes of credentials, with `--redact`. What is a secret and what a mask looks like is [`crate::redact`]'s matter.
//!
//! Masked are results, whole outputs in `outputs/`, the driver's own words. Not masked: prompts, the model's replies, and
//! the contents of files that are kept for undo, which are what they were.

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Context, Result};

use super::{World, inline};
use crate::format::conversation::Block;
use crate::format::index;
use crate::protocol::Action;
use crate::redact::{Redactor, Stream};
use crate::segments::split;
use crate::sys::atomic_file::AtomicFile;
use crate::sys::env::Env;
use crate::sys::process::capture::Captured;
use crate::sys::root::Root;
use crate::sys::{fs, read};

/// The largest file that is looked through for the sake of a piece of it, in bytes.
const LOOKED_THROUGH: u64 = 16 << 20;
/// The largest segment that is looked through for masks, in bytes.
const SEGMENT: u64 = 64 << 20;
/// The largest index that is read, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;
/// The file with the key for the words of masks is no longer, in bytes.
const KEY_LIMIT: u64 = 4096;

/// Attributes that name files of the toolkit's own.
const OWN: [&str; 8] =
    ["output", "previous", "shown", "before", "after", "index_path", "patch", "fence"];

/// Blocks that hold the words of users and models, and the first context.
const NOT_MASKED: [&str; 6] = [
    "initial_context",
    "context-update",
    "user-prompt",
    "agent-response",
    "nagent-next-input",
    "nagent-turn-status",
];

/// Masks what goes into the conversation.
#[derive(Debug, Default)]
pub struct Veil {
    redactor: RefCell<Redactor>,
}

impl Veil {
    /// For the credentials of an environment but those that commands get by `pass_env`, and with `shapes` for shapes. Their
    /// words need a key, which lies in the root; a look makes none there.
    pub fn new(
        env: &Env,
        pass_env: &[String],
        root: &Root,
        shapes: bool,
        is_look: bool,
    ) -> Result<Self> {
        let salt = shapes.then(|| key(root, is_look)).transpose()?;
        let redactor = Redactor::new(env.secrets(pass_env), salt.as_deref().map(str::as_bytes));
        Ok(Self { redactor: RefCell::new(redactor) })
    }

    /// Whether nothing is ever masked: no credential is known, and shapes are not asked for.
    pub fn is_idle(&self) -> bool {
        self.redactor.borrow().is_idle()
    }

    /// A text with masks, and how many.
    pub fn text(&self, text: String) -> (String, u64) {
        self.redactor.borrow_mut().text(text)
    }

    /// The block as it is kept: attributes and body with masks, their number in `redacted`.
    pub fn block(&self, mut block: Block) -> Block {
        let mut redactor = self.redactor.borrow_mut();
        if redactor.is_idle() || NOT_MASKED.contains(&block.name) {
            return block;
        }
        let mut count = 0;
        let mut masked = |text: &mut String| {
            let (new, found) = redactor.text(std::mem::take(text));
            *text = new;
            count += found;
        };
        for (name, value) in &mut block.attributes {
            if !OWN.contains(&name.as_str()) {
                masked(value);
            }
        }
        block.body.iter_mut().for_each(masked);
        counted(block, count)
    }

    /// A command's output as it is kept.
    pub fn captured(&self, captured: Captured, outputs: &Path) -> (Captured, u64) {
        let mut redactor = self.redactor.borrow_mut();
        if redactor.is_idle() {
            return (captured, 0);
        }
        let mut stream = Stream::default();
        let captured =
            captured.map_bytes(outputs.to_owned(), inline::KEEP, &mut |bytes| match bytes {
                Some(bytes) => stream.push(&mut redactor, bytes),
                None => stream.finish(&mut redactor),
            });
        (captured, stream.count)
    }

    /// A text that was cut behind its end ends in no part of a secret.
    fn ragged(&self, mut text: String) -> String {
        let redactor = self.redactor.borrow();
        if !redactor.is_idle() {
            text.truncate(redactor.ragged_end(&text));
        }
        text
    }

    /// Looks through a file of which a piece is shown: the piece may lie within a secret.
    fn learn(&self, path: &Path) {
        let mut redactor = self.redactor.borrow_mut();
        if !redactor.finds_shapes() {
            return;
        }
        if let Ok((mut file, metadata)) = read::open_regular(path)
            && metadata.len() <= LOOKED_THROUGH
            && let Ok(bytes) = fs::read_all(&mut file)
        {
            redactor.mask(&bytes);
        }
    }

    /// Why a text may not be written: it holds a mask.
    fn refusal(&self, text: &str) -> Option<String> {
        let redactor = self.redactor.borrow();
        let mask = redactor.mask_in(text)?;
        Some(format!(
            "nothing was changed: the text holds {mask}, which stands for a credential that you were not shown; written out \
             it would take the credential's place. Edit around it with smaller SEARCH blocks that leave its line alone, or \
             change the file with a command (sed) that does not spell it, or say to the user what should stand there"
        ))
    }
}

/// The block with so many more masks.
pub(super) fn counted(mut block: Block, count: u64) -> Block {
    if count == 0 {
        return block;
    }
    match block.attributes.iter_mut().find(|(name, _)| name == "redacted") {
        Some((_, value)) => {
            *value = value.parse::<u64>().unwrap_or(0).saturating_add(count).to_string();
            block
        }
        None => block.with("redacted", count),
    }
}

impl World<'_> {
    /// Gives the block a text as its body, masked, or its head and tail.
    pub(super) fn inline(&self, block: Block, text: String) -> Result<Block> {
        let (text, count) = self.veil.text(text);
        inline::text(counted(block, count), text, &self.root.outputs())
    }

    /// The same for lines that were cut where `…` stands.
    pub(super) fn inline_cut(&self, block: Block, text: String) -> Result<Block> {
        let (text, count) = self.veil.redactor.borrow_mut().cut_text(text);
        inline::text(counted(block, count), text, &self.root.outputs())
    }

    /// A piece of a file that was cut within a line ends in no part of a secret.
    pub(super) fn piece(&self, path: &Path, text: String, is_piece: bool, is_cut: bool) -> String {
        if is_piece {
            self.veil.learn(path);
        }
        if is_cut { self.veil.ragged(text) } else { text }
    }

    /// The bytes of a file that is no text, as they are kept.
    pub(super) fn masked_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let masked = self.veil.redactor.borrow_mut().mask(&bytes);
        masked.map_or(bytes, |(masked, _)| masked)
    }

    /// Why an action may not write what it holds.
    pub(super) fn holds_mask(&self, action: &Action) -> Option<String> {
        match action {
            Action::Write { text, .. } => self.veil.refusal(text),
            Action::Edit { blocks, .. } => self.veil.refusal(blocks),
            Action::FilePatch { index } => self.mask_in_segments(&self.expand(index)),
            _ => None,
        }
    }

    fn mask_in_segments(&self, path: &Path) -> Option<String> {
        // Without shapes the only masks are those of this process's own keys.
        let is_on = self.veil.redactor.borrow().finds_shapes();
        let path = self.folder.join(path);
        // What is no index, or none that can be read, puts nothing back.
        let index = match looked_through(&path, INDEX_LIMIT) {
            Ok(text) => index::parse(&text).ok()?,
            Err(refusal) => return refusal.filter(|_| is_on),
        };
        let folder = path.parent()?;
        split::edited(&path, &index, &self.asked_to_stop()).iter().find_map(|name| {
            let refusal = match looked_through(&folder.join(name), SEGMENT) {
                Ok(text) => self.veil.refusal(&text)?,
                Err(refusal) => return refusal.filter(|_| is_on),
            };
            Some(format!("{name}: {refusal}"))
        })
    }
}

/// A file to look for masks in, whatever else it holds; else why nothing may be put back that it takes part in. `Err(None)`:
/// there is no such file.
fn looked_through(path: &Path, limit: u64) -> Result<String, Option<String>> {
    let (mut file, metadata) = read::open_regular(path).map_err(|_| None)?;
    if metadata.len() > limit {
        return Err(Some(format!(
            "nothing was changed: {} has more than {} MiB, too much to look for masks of credentials in it; without \
             --redact it is not looked for them",
            path.display(),
            limit >> 20
        )));
    }
    let bytes = fs::read_all(&mut file).map_err(|error| Some(format!("{error:#}")))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The key of this root, made when there is none.
fn key(root: &Root, is_look: bool) -> Result<String> {
    let path = root.redact_key();
    let read = || fs::read_text(&path, KEY_LIMIT);
    if let Some(key) = read()?.filter(|key| key.len() >= 32) {
        return Ok(key);
    }
    let new = format!("{}{}\n", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    if is_look {
        return Ok(new);
    }
    root.prepare()?;
    // Another run may have made one at the same time: whichever is there counts.
    if let Err(error) = AtomicFile::new(&path).create(new.as_bytes())
        && read()?.is_none()
    {
        return Err(error);
    }
    read()?.with_context(|| format!("{} is not there although it was written", path.display()))
}
