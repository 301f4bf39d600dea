//! Records which files and folders were synced, for tests.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

thread_local! {
    static SYNCED: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn note(file: &File) {
    let is = file.metadata().unwrap();
    let size = if is.is_dir() { 0 } else { is.size() };
    SYNCED.with_borrow_mut(|synced| synced.push((is.ino(), size)));
}

/// The file as it is now was made durable since the last call, and after it its folder.
#[track_caller]
pub(crate) fn check(path: &Path) {
    let (file, folder, synced) = take(path);
    assert!(file.is_some(), "{}: its content was made durable: {synced:?}", path.display());
    assert!(folder > file, "{}: its name was made durable: {synced:?}", path.display());
}

/// The file as it is now was made durable; its name was there before.
#[track_caller]
pub(crate) fn check_content(path: &Path) {
    let (file, _, synced) = take(path);
    assert!(file.is_some(), "{}: its content was made durable: {synced:?}", path.display());
}

/// The folder of what is gone was made durable.
#[track_caller]
pub(crate) fn check_folder(path: &Path) {
    let (_, folder, synced) = take(path);
    assert!(folder.is_some(), "{}: the folder was made durable: {synced:?}", path.display());
}

type Synced = (Option<usize>, Option<usize>, Vec<(u64, u64)>);

fn take(path: &Path) -> Synced {
    let synced = SYNCED.take();
    let at = |what: Option<(u64, u64)>| synced.iter().rposition(|found| Some(*found) == what);
    let file = std::fs::metadata(path).ok().map(|is| (is.ino(), is.size()));
    let folder = std::fs::metadata(path.parent().unwrap()).unwrap();
    (at(file), at(Some((folder.ino(), 0))), synced)
}
