//! The result of a change, which cannot be made without the records that undo and later changes need.

use std::path::Path;

use anyhow::Result;

use super::freshness::{KnownContent, with_shown};
use conversation::format::file::Block;
use conversation::memory::changes::FileEvent;
use conversation::reason::Failure;
use sys::change_log::ChangeLog;

/// The proof that a change is in the log, by which undo takes it back.
#[derive(Debug)]
pub(super) struct Logged(());

impl Logged {
    /// Records a change whose content before is stored.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(super) fn append(
        log: &ChangeLog,
        path: &Path,
        before: String,
        after: String,
    ) -> Result<Self> {
        log.append(path, FileEvent::Write { before, after })?;
        Ok(Self(()))
    }
}

/// The result of a change that was made, or refused.
#[derive(Debug)]
pub(super) struct ChangeResult(Block);

impl ChangeResult {
    /// The result of a change that undo can take back, with the content that the model knows from now on.
    pub(super) fn written(block: Block, _: &Logged, known: &KnownContent) -> Self {
        Self(with_shown(block, known))
    }

    /// The result of a change that was refused, and of the content that the refusal has shown, if it shows all of it.
    pub(super) fn refused(block: Block, failure: Failure, known: Option<&KnownContent>) -> Self {
        let block = failure.add_to(block);
        Self(match known {
            Some(known) => with_shown(block, known),
            None => block,
        })
    }

    /// The result of a change that changed nothing, as the block says.
    pub(super) fn unchanged(block: Block) -> Self {
        Self(block)
    }

    pub(super) fn into_block(self) -> Block {
        self.0
    }
}
