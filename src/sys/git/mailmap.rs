//! The mailmaps that are in force for a repository: the one in its working tree, else the one that the head has, and the
//! user's own from git's configuration.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use git2::{ObjectType, Oid, Repository};
use rustix::fs::OFlags;

use super::objects::Objects;
use crate::history::mailmap::Mailmap;

/// The largest mailmap that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// The mailmap for commits of this head.
pub(super) fn mailmap(
    repository: &Repository,
    toplevel: &Path,
    objects: &Objects<'_>,
    head: Oid,
) -> Mailmap {
    // A link in a working tree that somebody else made is not followed, as in git.
    let mut text = read(&toplevel.join(".mailmap"), OFlags::NOFOLLOW)
        .or_else(|| of_head(objects, head))
        .unwrap_or_default();
    let own =
        repository.config().and_then(|mut config| config.snapshot()?.get_path("mailmap.file"));
    if let Some(own) = own.ok().and_then(|own| read(&toplevel.join(own), OFlags::empty())) {
        text.push(b'\n');
        text.extend(own);
    }
    Mailmap::parse(&String::from_utf8_lossy(&text))
}

/// A regular file's bytes; one that cannot be read or is too large is none.
fn read(path: &Path, flags: OFlags) -> Option<Vec<u8>> {
    let flags = (flags | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let mut bytes = Vec::new();
    (metadata.is_file() && metadata.len() <= LIMIT).then_some(())?;
    file.take(LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn of_head(objects: &Objects<'_>, head: Oid) -> Option<Vec<u8>> {
    let tree = objects.commit(head).ok()?.tree;
    let entry = objects.child(tree, b".mailmap").ok()??;
    let is_small = objects.size(entry.id).ok()? as u64 <= LIMIT;
    (entry.is_regular() && is_small).then_some(())?;
    Some(objects.read(entry.id, ObjectType::Blob).ok()?.data().to_vec())
}
