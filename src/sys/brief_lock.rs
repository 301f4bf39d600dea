//! A lock on one piece of work that somebody else may be doing right now: who comes second waits for the result.
//!
//! `flock` on a file of its own, which goes when its holder is done. A holder that was killed leaves an empty file that
//! the next one takes over. The lock of a conversation is [`super::lock`]'s: that file stays.

use std::fs::{File, OpenOptions, TryLockError, remove_file};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clock::{self, Stopwatch};
use super::interrupt::Interrupts;
use crate::exit::Signal;

/// How often a lock that is taken is tried.
const PAUSE: Duration = Duration::from_millis(25);

/// How long is waited before it is said.
const SAID: Duration = Duration::from_secs(1);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct BriefLock {
    path: PathBuf,
    _file: File,
}

impl Drop for BriefLock {
    fn drop(&mut self) {
        // While it is still locked: who waits for it sees that the file is another one now, or gone.
        let _ = remove_file(&self.path);
    }
}

/// Takes the lock. `None` where there are no locks, the file cannot be made, or its holder has kept it for `longest`, as one
/// does that was stopped: the work is then done without. A wait of more than a second is told once.
///
/// # Errors
/// The signal that came while waiting.
pub fn take(
    path: &Path,
    longest: Duration,
    interrupts: &Interrupts,
    tell: &dyn Fn(&str),
) -> Result<Option<BriefLock>, Signal> {
    let watch = Stopwatch::start();
    let mut told = false;
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let Ok(file) = options.open(path) else { return Ok(None) };
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => {
                return Ok(Some(BriefLock { path: path.to_owned(), _file: file }));
            }
            // The holder before removed the file between our opening it and its lock.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let waited = watch.elapsed();
                if waited >= longest {
                    return Ok(None);
                }
                if waited >= SAID && !told {
                    told = true;
                    tell(&format!(
                        "another process is at work on the same; waiting for it up to {} s (fuser {} names it)",
                        longest.as_secs(),
                        path.display()
                    ));
                }
                if let Some(signal) = clock::sleep_interruptible(PAUSE, interrupts) {
                    return Err(signal);
                }
            }
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Whether the open file is still the one that the path names.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_holder_that_keeps_it_is_told_of_and_waited_for_no_longer_than_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.lock");
        let held = take(&path, LONG, &Interrupts::none(), &|_| ()).unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |what: &str| told.borrow_mut().push(what.to_owned());
        let longest = SAID + Duration::from_millis(300);
        assert!(take(&path, longest, &Interrupts::none(), &tell).unwrap().is_none());
        assert_eq!(told.borrow().len(), 1, "{told:?}");
        assert!(told.borrow()[0].contains("k.lock"), "{told:?}");
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn one_at_a_time_and_nothing_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.lock");
        let interrupts = Interrupts::none();
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let lock = take(&path, LONG, &interrupts, &|_| ()).unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(1));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert!(!path.exists());
    }

    #[test]
    fn a_signal_ends_the_wait_and_a_missing_folder_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.lock");
        let interrupts = Interrupts::none();
        let held = take(&path, LONG, &interrupts, &|_| ()).unwrap();
        assert!(held.is_some());
        interrupts.raise(Signal::Term);
        assert_eq!(take(&path, LONG, &interrupts, &|_| ()).unwrap_err(), Signal::Term);
        assert!(
            take(&folder.path().join("no/k.lock"), LONG, &interrupts, &|_| ()).unwrap().is_none()
        );
    }
}
