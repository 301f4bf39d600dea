//! Files on their way to a name, and those of them that a killed run left behind.
//!
//! Who makes one holds its `flock` until it has its name; the lock goes with its holder, however that ends. One that nobody
//! holds, of ours by its name and its owner and older than an hour, is removed when the next file is made in its folder.
//! Nothing else is ever removed here.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// The least age of what is removed: its maker may be between making it and locking it.
const AGE: Duration = Duration::from_hours(1);

/// The names that are looked at in a folder.
const MOST: usize = 20_000;

/// A new file in a folder of the toolkit's own, for its owner alone.
pub(super) fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = rustix::fs::openat(CWD, folder, flags, Mode::empty()) {
        sweep(&dir, |name| is_named(name, ".new-", 6, ""));
    }
    let file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    hold(file.as_file());
    Ok(file)
}

/// Says of a new file that it is in use, until it is closed. Where there are no locks, its age must do.
pub(super) fn hold(file: &File) {
    _ = file.try_lock();
}

/// Removes what killed runs left beside the files that they wrote: `.nagent-{32 digits}.tmp`.
pub(super) fn sweep_beside(dir: impl AsFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = rustix::fs::openat(&dir, ".", flags, Mode::empty()) {
        sweep(&dir, |name| is_named(name, ".nagent-", 32, ".tmp"));
    }
}

fn is_named(name: &str, before: &str, middle: usize, after: &str) -> bool {
    name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).is_some_and(|word| {
        word.len() == middle && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Each folder is looked through once. What cannot be removed stays.
fn sweep(dir: impl AsFd, is_ours: impl Fn(&str) -> bool) {
    static DONE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    let Ok(stat) = rustix::fs::fstat(&dir) else { return };
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if done.contains(&(stat.st_dev, stat.st_ino)) {
        return;
    }
    done.push((stat.st_dev, stat.st_ino));
    let Ok(entries) = Dir::read_from(&dir) else { return };
    for entry in entries.flatten().take(MOST) {
        if entry.file_name().to_str().is_ok_and(&is_ours) {
            _ = remove(&dir, entry.file_name());
        }
    }
}

/// Removes a file that nobody holds and nobody has written to for long.
fn remove(dir: impl AsFd, name: &std::ffi::CStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    let is_old = SystemTime::now().duration_since(written).is_ok_and(|age| age > AGE);
    if is_ours && is_old && file.try_lock().is_ok() {
        rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_ours_old_and_in_nobodys_use_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let hex = "0123456789abcdef0123456789abcdef";
        let gone = [".new-Ab12Cd".to_owned(), format!(".nagent-{hex}.tmp")];
        let stay = [
            ".new-Ab12Ce".to_owned(),
            ".new-Ab12Cf".to_owned(),
            ".new-Ab12C".to_owned(),
            ".new-notes.txt".to_owned(),
            format!(".nagent-{hex}0.tmp"),
            "new-Ab12Cd".to_owned(),
        ];
        let long_ago = SystemTime::now() - 2 * AGE;
        for name in gone.iter().chain(&stay) {
            let path = folder.path().join(name);
            fs::write(&path, "x").unwrap();
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        // In use, and young.
        let used = File::open(folder.path().join(&stay[0])).unwrap();
        hold(&used);
        let young = File::options().write(true).open(folder.path().join(&stay[1])).unwrap();
        young.set_modified(SystemTime::now()).unwrap();
        fs::create_dir(folder.path().join(".new-folder")).unwrap();
        let dir = File::open(folder.path()).unwrap();
        sweep(&dir, |name| {
            is_named(name, ".new-", 6, "") || is_named(name, ".nagent-", 32, ".tmp")
        });
        for name in &gone {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        for name in &stay {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        assert!(folder.path().join(".new-folder").exists());
    }

    #[test]
    fn a_new_file_is_held_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let new = new_file(folder.path()).unwrap();
        let other = File::open(new.path()).unwrap();
        assert!(other.try_lock().is_err());
        let file = new.persist(folder.path().join("name")).unwrap();
        drop(file);
        other.try_lock().unwrap();
    }
}
