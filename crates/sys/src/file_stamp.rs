//! Detects whether a file was replaced or changed, without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Stat, StatxFlags, statx};

/// The identity of a file and of its content. A change within one tick of the clock that keeps the size is not noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    links: u64,
    size: i64,
    /// Times of the content and of the inode, in seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of the file at a path, symbolic links followed. `None` where there is none.
    pub fn of_path(path: &Path) -> Option<Self> {
        rustix::fs::statat(CWD, path, AtFlags::empty()).ok().as_ref().map(Self::from)
    }

    /// The stamp of an open file.
    pub fn of_open(file: impl std::os::fd::AsFd) -> Option<Self> {
        rustix::fs::fstat(file).ok().as_ref().map(Self::from)
    }

    /// Whether both stamps are of the same file, whatever its content. Certain only while one is open: inodes are
    /// reused.
    pub(crate) fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether both stamps are of the same file and content, with the same number of links; it may have been renamed.
    pub(crate) fn is_unchanged(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }
}

impl From<&Stat> for FileStamp {
    #[allow(
        clippy::useless_conversion,
        clippy::cast_possible_wrap,
        reason = "widths differ by architecture"
    )]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev.into(),
            inode: stat.st_ino.into(),
            links: stat.st_nlink.into(),
            size: stat.st_size.into(),
            modified: (stat.st_mtime.into(), stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime.into(), stat.st_ctime_nsec as i64),
        }
    }
}

/// Returns whether a file was created, written, renamed or changed its attributes after a time. Commands cannot set this time.
pub fn is_newer(path: &Path, since: SystemTime) -> bool {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The kernel's clock for files is late by up to a tick.
    changed_at(path).is_some_and(|changed| changed + Duration::from_millis(10) > since)
}

/// When a file, folder or link was last written, renamed or changed otherwise. Commands cannot set this time.
pub fn changed_at(path: &Path) -> Option<Duration> {
    let there = std::fs::symlink_metadata(path).ok()?;
    let nanos = there.ctime_nsec().try_into().unwrap_or(0);
    Some(Duration::new(there.ctime().try_into().unwrap_or(0), nanos))
}

/// The time of birth of a file, in nanoseconds since 1970. The standard library has none with musl.
pub(crate) fn time_of_birth(path: &Path, flags: AtFlags) -> Option<u128> {
    let there = statx(CWD, path, flags, StatxFlags::BTIME).ok()?;
    let is_known = there.stx_mask & StatxFlags::BTIME.bits() != 0;
    let seconds = u128::try_from(there.stx_btime.tv_sec).ok().filter(|_| is_known)?;
    Some(seconds * 1_000_000_000 + u128::from(there.stx_btime.tv_nsec))
}

/// When a file was made, since 1970; `None` where the file system does not know.
pub fn born_at(path: &Path) -> Option<Duration> {
    let nanos = u64::try_from(time_of_birth(path, AtFlags::SYMLINK_NOFOLLOW)?).ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_stamp_tells_the_same_file_from_the_same_content() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        assert_eq!(FileStamp::of_path(&path), None);
        fs::write(&path, "one").unwrap();
        let before = FileStamp::of_path(&path).unwrap();
        assert!(before.is_unchanged(&FileStamp::of_open(fs::File::open(&path).unwrap()).unwrap()));
        fs::write(&path, "longer").unwrap();
        let after = FileStamp::of_path(&path).unwrap();
        assert!(before.same_file(&after) && !before.is_unchanged(&after));
        assert_eq!(after.size(), 6);
        fs::rename(&path, &other).unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(after.is_unchanged(&FileStamp::of_path(&path).unwrap()), "renamed and back");
        fs::write(&other, "longer").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!after.same_file(&FileStamp::of_path(&path).unwrap()));
    }
}
