//! Which files of a folder have changed since a time: what commands may have done there.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::list_dir::SearchScope;
use crate::limits;

/// The files below a folder that were modified at this time (since 1970) or later, sorted by path; the second value says
/// whether there are more. What `.gitignore` names is left out, as in a search of the model's.
pub fn find_modified(folder: &Path, since: Duration) -> (Vec<PathBuf>, bool) {
    let search = SearchScope { cwd: folder, hidden: &[], stop: &|| false };
    let (mut found, mut seen) = (Vec::new(), 0);
    search.visit_entries(folder, &mut |entry| {
        seen += 1;
        let is_new = |time: std::time::SystemTime| {
            time.duration_since(UNIX_EPOCH).is_ok_and(|time| time >= since)
        };
        if seen <= limits::MOVED_SEARCH
            && let Ok(entry) = entry
            && let Ok(metadata) = entry.metadata()
            && metadata.is_file()
            && metadata.modified().is_ok_and(is_new)
        {
            found.push(entry.path().to_owned());
        }
    });
    let is_cut = found.len() > limits::LISTED_ENTRIES || seen > limits::MOVED_SEARCH;
    found.truncate(limits::LISTED_ENTRIES);
    (found, is_cut)
}
