//! Helpers for result blocks.

use conversation::format::file::Block;
use conversation::protocol::tags;
use conversation::reason::Failure;
use sys::fs;

/// The result of an action that failed.
pub(super) fn error(block: Block, failure: impl Into<Failure>) -> Block {
    failure.into().add_to(block)
}

pub(super) fn add_redacted(mut block: Block, count: u64) -> Block {
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

/// A block as text. The first context's fence comes from its own hash, so that the same context is the same text, and
/// hits the providers' caches, in every conversation. NUL becomes U+FFFD: in the file it would look like the zeros that a
/// file system leaves after a crash.
pub fn format_block(block: &Block) -> String {
    let tag_names: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    let mut hash = (block.name == "initial_context")
        .then(|| fs::sha256(block.body.as_deref().unwrap_or_default().as_bytes())[..12].to_owned());
    let text = block.format(&tag_names, &mut || hash.take().unwrap_or_else(random_word));
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Twelve random hexadecimal digits: a word for a fence, a run, or the name of a conversation.
pub fn random_word() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..12].to_owned()
}
