//! Replaces the whole text of a conversation. The old text is archived first, under a separate name.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::super::atomic_file::AtomicFile;
use super::super::fs;
use super::super::root::Root;
use super::ConversationFile;

/// A name for the archive of a conversation, which no other conversation has.
pub fn archive_name(name: &str) -> String {
    let stem: String = name.chars().take(60).collect();
    format!("{stem}-{}", uuid::Uuid::new_v4())
}

/// Replaces the text of a conversation, whose lock is held. The old text is first archived; even if this is killed, the
/// conversation is either the old text or the new one, whole. Returns the path of the archive.
///
/// # Errors
/// It could not be written, and is unchanged.
pub fn replace_conversation(root: &Root, name: &str, text: &str) -> Result<Option<PathBuf>> {
    let path = root.conversation(name);
    let archive = fs::is_there(&path)?.then(|| root.conversation(&archive_name(name)));
    if let Some(archive) = &archive {
        fs::copy_file(&path, archive)?;
    }
    replace_file(&path, archive.as_deref(), text)?;
    Ok(archive)
}

/// Rewrites a file whose old text is archived.
fn replace_file(path: &Path, archive: Option<&Path>, text: &str) -> Result<()> {
    let before = fs::file_id(path);
    let Err(error) = AtomicFile::new(path).write(text.as_bytes()) else { return Ok(()) };
    let Some(archive) = archive else { return Err(error) };
    if fs::file_id(path) == before {
        // The old text is still there, so its copy is not needed.
        let _ = fs::remove_file(archive);
        return Err(error);
    }
    Err(error.context(format!("a copy of it is in {}", archive.display())))
}

impl ConversationFile {
    /// Replaces the text, and continues with the new one. The old text is archived under the name `archive`, with
    /// `link` appended to it.
    ///
    /// # Errors
    /// It could not be written, or another program has changed the file meanwhile; the file is unchanged.
    pub fn replace(&mut self, text: &str, archive: &str, link: &str) -> Result<()> {
        let archive = self.root.conversation(archive);
        fs::copy_file(&self.path, &archive)?;
        if self.was_changed() {
            let _ = fs::remove_file(&archive);
            bail!("another program has changed {} meanwhile", self.path.display());
        }
        replace_file(&self.path, Some(&archive), text)?;
        // A failure is ignored: the archive is complete without the link.
        let gap = if self.text.ends_with('\n') { "\n" } else { "\n\n" };
        let _ = fs::append_text(&archive, &format!("{gap}{link}"));
        let Some((file, text, pieces)) = self.read_whole()? else {
            bail!("{} was changed while it was replaced", self.path.display());
        };
        (self.file, self.text, self.pieces) = (Some(file), text, pieces);
        self.is_noted = true;
        Ok(())
    }
}
