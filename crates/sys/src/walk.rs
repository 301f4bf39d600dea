//! Lists everything below a folder, the nearest first.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::iter;
use std::path::Path;

/// Lists everything below a folder. Links are not followed, and errors are skipped. `enters` decides by its name
/// whether to enter a folder. The caller sets the limit: nothing is read before it is requested.
pub fn walk_below<'a>(
    top: &Path,
    enters: &'a dyn Fn(&OsStr) -> bool,
) -> impl Iterator<Item = DirEntry> + use<'a> {
    let mut folders = VecDeque::from([top.to_owned()]);
    let mut entries = None;
    iter::from_fn(move || {
        loop {
            match entries.as_mut().and_then(Iterator::next) {
                Some(Ok(entry)) => {
                    let entry: DirEntry = entry;
                    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    if is_folder && enters(&entry.file_name()) {
                        folders.push_back(entry.path());
                    }
                    return Some(entry);
                }
                Some(Err(_)) => {}
                None => entries = fs::read_dir(folders.pop_front()?).ok(),
            }
        }
    })
}
