//! A range of the bytes of one regular file, for tools that are called by people: memory is bounded by the range.
//!
//! What may be read is what [`super::read`] opens; the errors here do not speak of tags.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::names::shown;
use super::read::open_regular;

/// The size of a regular file in bytes, and its bytes from `start` on, `most` at most. A range behind the end is empty.
///
/// # Errors
/// There is no such file, it is not a regular one, or the system refused.
pub fn read_range(path: &Path, start: u64, most: u64) -> Result<(u64, Vec<u8>)> {
    let (mut file, metadata) =
        open_regular(path).map_err(|error| anyhow!("{}", error.problem()))?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))
        .and_then(|_| file.take(most).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", shown(path)))?;
    Ok((metadata.len(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "0123456789").unwrap();
        let check = |start, most, expect: &str| {
            assert_eq!(read_range(&path, start, most).unwrap(), (10, expect.as_bytes().to_vec()));
        };
        check(0, 100, "0123456789");
        check(3, 4, "3456");
        check(8, 4, "89");
        check(20, 4, "");
    }

    #[test]
    fn what_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let check = |path: &Path, expect: &str| {
            let error = read_range(path, 0, 1).unwrap_err().to_string();
            assert!(error.contains(expect) && !error.contains("<nagent"), "{error}");
        };
        check(folder.path(), "is a folder");
        check(&fifo, "is a FIFO");
        check(&folder.path().join("none"), "no such file");
        check(Path::new("/proc/self/status"), "is in procfs");
    }
}
