//! The index of a split and the index of files: what is read is written and read again the same.

use super::input::Input;
use conversation::format::file_index::{FileIndex, is_backup, is_certain, path_id};
use conversation::format::index;
use conversation::legacy::file_index::convert_flat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let which = input.byte();
    let text = input.text();
    match which % 4 {
        0 => {
            let Ok(found) = index::parse(&text) else { return };
            assert_eq!(index::parse(&index::format(&found)), Ok(found.clone()));
            if found.check().is_ok() {
                let sizes = found.segments.iter().map(|one| one.end_byte - one.start_byte);
                assert_eq!(sizes.sum::<u64>(), found.source_size_bytes);
            }
        }
        1 | 2 => {
            let found = FileIndex::parse(&text);
            let Ok(mut found) = found else { return };
            if which % 4 == 2 {
                convert_flat(&mut found);
            }
            assert_eq!(FileIndex::parse(&found.format()), Ok(found.clone()));
            for (id, entry) in &found.by_file_id {
                assert_eq!(id, &entry.file_id);
                entry.path_bytes();
                assert!(found.entries_at_path(&entry.path).any(|other| other == entry));
            }
        }
        _ => {
            is_certain(&text);
            path_id(Path::new(OsStr::from_bytes(input.rest)));
            let name = input.field();
            is_backup(OsStr::from_bytes(name), OsStr::from_bytes(input.rest));
        }
    }
}
