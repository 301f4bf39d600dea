//! Reads the messages of commits, and their changes to one file, for the request that summarizes them.

use std::path::Path;
use std::time::Duration;

use git2::{DiffFindOptions, Oid, Patch};

use super::renames::diff_trees;
use super::repository::{Objects, open_repository};
use super::worker::run_in_worker;
use crate::summaries::{CommitText, MAX_MESSAGE};
use crate::{FileChange, FileCommit};
use conversation::format::harmless::quote_name;
use conversation::limits;
use sys::fs;

/// Maximum time to read the texts of all commits.
const TIME: Duration = Duration::from_secs(5);

/// Reads the texts of commits that touched a file. Contents over 8 MiB count as binary; a damaged commit gives `None`.
pub fn read_commit_texts(
    toplevel: &Path,
    commits: Vec<FileCommit>,
    keep_waiting: &mut dyn FnMut() -> bool,
) -> Result<Vec<Option<CommitText>>, String> {
    let top = toplevel.to_owned();
    let texts = run_in_worker(TIME, keep_waiting, move || {
        let repository = open_repository(&top)?;
        let objects = Objects::new(&repository)?;
        let read = |commit: &FileCommit| {
            let mut text = read_text(&objects, commit).ok()?;
            text.message.truncate(text.message.floor_char_boundary(MAX_MESSAGE));
            // A little more than is used, so that the request notes that the diff is cut.
            text.diff.truncate(text.diff.floor_char_boundary(limits::COMMIT_DIFF + 4));
            Some(text)
        };
        Ok(commits.iter().map(read).collect())
    });
    texts.unwrap_or_else(|| {
        Err(format!("the git repository at {} does not answer", quote_name(toplevel)))
    })
}

fn read_text(objects: &Objects<'_>, file: &FileCommit) -> Result<CommitText, String> {
    let failure = |error: git2::Error| error.message().to_owned();
    let commit = objects.read_commit(Oid::from_str(&file.id).map_err(failure)?)?;
    let message = String::from_utf8_lossy(commit.message_bytes()).into_owned();
    let parent = commit.parent_id(0).ok().map(|id| objects.read_commit(id)).transpose()?;
    let mut paths = vec![file.path.as_slice()];
    if let FileChange::Renamed { from } = &file.change {
        paths.push(from);
    }
    let old = parent.map(|parent| parent.tree_id());
    let mut diff = diff_trees(objects, old, commit.tree_id(), &paths)?;
    if paths.len() > 1 {
        // The walk found that one file became the other, however little they have in common.
        let mut options = DiffFindOptions::new();
        options.renames(true).renames_from_rewrites(true).rename_threshold(1);
        diff.find_similar(Some(&mut options)).map_err(failure)?;
    }
    let at = diff
        .deltas()
        .position(|delta| delta.new_file().path_bytes() == Some(&file.path))
        .ok_or("the commit does not touch the file")?;
    let blobs = diff.get_delta(at).map(|delta| (delta.old_file().id(), delta.new_file().id()));
    let content = blobs.and_then(|(_, new)| hash_content(objects, new));
    if blobs.is_some_and(|(old, new)| old == new) {
        return Ok(CommitText { message, diff: String::new(), content });
    }
    let mut patch = Patch::from_diff(&diff, at).map_err(failure)?;
    let patch = patch.as_mut().map(|patch| patch.to_buf().map_err(failure)).transpose()?;
    let patch = patch.map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default();
    // The hunks, without git's own lines before them, which contain the path four times.
    let diff = patch.find("\n@@ ").map_or("Binary contents differ\n", |at| &patch[at + 1..]);
    Ok(CommitText { message, diff: diff.to_owned(), content })
}

/// The SHA-256 of a content, if its size allows keeping it in a conversation's outputs.
fn hash_content(objects: &Objects<'_>, id: Oid) -> Option<String> {
    objects.read_size(id).ok().filter(|size| *size as u64 <= limits::TRACKED_FILE)?;
    Some(fs::sha256(objects.repository.find_blob(id).ok()?.content()))
}
