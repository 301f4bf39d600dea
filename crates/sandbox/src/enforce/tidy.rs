//! Undoes changes of a command in a repository's own folder that git would run, or write through.

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::iter;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2, readlinkat, renameat, unlinkat,
};
use uuid::Uuid;

use conversation::limits;
use sys::file_stamp::is_newer;
use sys::names::resolve_links;
use sys::walk::walk_below;

/// Undoes changes in a repository's own folder, made by a command that began at `since`, that git would run, or write
/// through: paths of `missing` that were created are renamed, and links that lead out of the folder are removed.
/// Returns notes.
pub(super) fn tidy_repository(folder: &Path, missing: &[&str], since: SystemTime) -> Vec<String> {
    let mut notes = Vec::new();
    // A command that still runs may exchange folders for links: all access is through an opened folder, and below it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |from: &OwnedFd, path: &Path| {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = if path == Path::new("") { Path::new(".") } else { path };
        openat2(from, path, flags, Mode::empty(), resolve).ok()
    };
    let own = openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let Ok(own) = own else { return notes };
    let split = |path: &Path| Some((open(&own, path.parent()?)?, path.file_name()?.to_owned()));
    for path in missing.iter().map(Path::new) {
        let Some((parent, name)) = split(path) else { continue };
        let id = Uuid::new_v4().simple().to_string();
        let other = format!("{}.from-command-{}", name.display(), id.get(..8).unwrap_or_default());
        if renameat(&parent, &name, &parent, &other).is_ok() {
            let shown = folder.join(path);
            notes.push(format!(
                "the command created {}, which git uses without asking; it is {} now: rename it back if you want it",
                shown.display(),
                shown.with_file_name(other).display()
            ));
        }
    }
    for entry in list_entries(folder).take(limits::SCANNED_ENTRIES) {
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let below = path.strip_prefix(folder).ok().filter(|_| is_link && is_newer(&path, since));
        let Some((parent, name)) = below.and_then(split) else { continue };
        let Ok(target) = readlinkat(&parent, &name, Vec::new()) else { continue };
        let target = path.with_file_name(OsStr::from_bytes(target.as_bytes()));
        if !resolve_links(&target).starts_with(folder)
            && unlinkat(&parent, &name, AtFlags::empty()).is_ok()
        {
            notes.push(format!(
                "removed {}, a link that the command made to {}: git would have written there",
                path.display(),
                target.display()
            ));
        }
    }
    notes
}

/// Lists what is in a repository's own folder, but for the files of objects, which git never writes again.
fn list_entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let below = |entry: DirEntry| {
        let enters: &dyn Fn(&OsStr) -> bool = match entry.file_name().to_str() {
            Some("objects") => &|name| name == "info",
            Some("modules" | "worktrees") => &|name| name != "objects",
            _ => &|_| true,
        };
        // Of a link, what it leads to is not listed.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let below = is_folder.then(|| walk_below(&entry.path(), enters));
        iter::once(entry).chain(below.into_iter().flatten())
    };
    walk_below(folder, &|_| false).flat_map(below)
}
