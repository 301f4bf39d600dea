//! `nagent-conversations expand`: restores the part that a compaction removed from a conversation, from its archive.

use super::Catalog;
use super::changes::lock_unused;
use crate::out::Report;
use conversation::compact::notice::Notice;
use conversation::compact::token_estimate::TokenEstimate;
use conversation::format::file::{self, Piece};
use conversation::limits;
use conversation::problem::Problem;
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::replace_conversation;
use sys::fs;

/// Undoes the last compaction; the text after it stays.
pub fn expand_conversation(catalog: &Catalog, prefix: Option<&str>) -> Result<Report, Problem> {
    let name = catalog.resolve_name(prefix)?;
    let root = &catalog.root;
    let _lock = lock_unused(catalog, &name)?;
    let journal = ConversationFile::read_only(root, &name)?;
    let (text, pieces) = (journal.text(), journal.pieces());
    let Some(at) = pieces.iter().rposition(|piece| Notice::read(piece).is_some()) else {
        return Err(Problem::failed(format!(
            "conversation {name} is not compacted: there is nothing to put back"
        )));
    };
    let archive = Archive::find_archive(catalog, &pieces[at])?;
    let end = archive.find_removed_end(&pieces[at])?;
    let rest = text[pieces[at].span.end..].trim_start_matches('\n');
    let new = format!("{}\n\n{rest}", archive.text[..end].trim_end_matches('\n'));
    if let Some(trouble) = file::parse(&new).trouble {
        return Err(Problem::failed(format!(
            "conversation {name} would be damaged ({trouble}); it was not changed"
        )));
    }
    let compacted = replace_conversation(root, &name, &new)?;
    let compacted = compacted.map(|path| path.display().to_string());
    let tokens = TokenEstimate::from_pieces(&file::parse(&new).pieces).tokens_of_all(new.len());
    let text = format!(
        "the removed text is restored: conversation {name} has about {tokens} tokens now; its compacted text is in {}\n",
        compacted.as_deref().unwrap_or_default()
    );
    Ok(Report::done(text)
        .with("name", name.clone())
        .with("path", root.conversation(&name).display().to_string())
        .with("archived_path", compacted)
        .with("tokens", tokens))
}

/// The archive of a compaction, without the block that leads on.
struct Archive {
    text: String,
    pieces: Vec<Piece>,
}

impl Archive {
    fn find_archive(catalog: &Catalog, notice: &Piece) -> Result<Self, Problem> {
        let name = Notice::read(notice).map(|notice| notice.archive).unwrap_or_default();
        sys::root::check_name(name).map_err(Problem::failed)?;
        let path = catalog.root.conversation(name);
        let text = fs::read_text(&path, limits::CONVERSATION)?.ok_or_else(|| {
            Problem::failed(format!(
                "the archive {name} is missing (nagent-conversations remove moves conversations to {})",
                catalog.root.trash_folder().display()
            ))
        })?;
        let mut pieces = file::parse(&text).pieces;
        pieces.retain(|piece| piece.get("compacted_into").is_none());
        Ok(Self { text, pieces })
    }

    /// Finds the end of the removed part: before the turns that the notice kept.
    fn find_removed_end(&self, notice: &Piece) -> Result<usize, Problem> {
        let until = Notice::read(notice).and_then(|notice| notice.until);
        let is_begin = |until: &usize| {
            *until >= self.text_end() && *until <= self.text.len()
                || self.pieces.iter().any(|it| it.span.start == *until)
        };
        until.filter(is_begin).ok_or_else(|| {
            Problem::failed(
                "the archive, or the block that names it, was edited, so nothing can be put back safely; copy the text from the \
                 archive by hand",
            )
        })
    }

    /// The end of the old text, before the block that names the compacted conversation.
    fn text_end(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.span.end)
    }
}
