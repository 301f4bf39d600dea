//! The lock of a conversation, the note that says who holds it, and the one way to wait for a lock.
//!
//! The lock is `flock` on `.locks/{name}`, a file that is never replaced or removed: the kernel frees it when its
//! holder ends, however that ends. `{name}.run` beside the conversation tells people who it is, and the next holder that the
//! last one was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::clock::Stopwatch;
use super::fs;
use super::interrupt::Interrupts;
use super::root::{self, Root};
use super::run_note::{Activity, NoteFile, RunEnd, RunNote};
use crate::exit::{Exit, Signal};
use crate::problem::Problem;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    run: PathBuf,
    note: Option<NoteFile>,
    after_crash: bool,
    is_settled: bool,
}

impl Lock {
    fn new(file: File, run: PathBuf) -> Self {
        let after_crash = fs::exists(&run);
        Self { file, run, note: None, after_crash, is_settled: !after_crash }
    }

    /// Whether the last holder left its note behind: it was killed.
    pub fn is_after_crash(&self) -> bool {
        self.after_crash
    }

    /// The conversation was read and its torn tail moved aside: the note of a killed holder is not needed any more.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Tells whoever looks what the run does.
    pub fn tell(&mut self, activity: Activity) {
        if let Some(note) = &mut self.note {
            note.tell(activity);
        }
    }

    /// Tells whoever waits how the run has ended.
    pub fn record_exit(&self, exit: Exit) {
        RunEnd::write(&self.file, exit.code(), None);
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It did not come free in time. The message says who holds it and what to do.
    #[error("{0}")]
    Busy(String),
    /// A signal came while waiting.
    #[error("interrupted by {} while waiting for a lock", .0.name())]
    Interrupted(Signal),
    /// The file could not be opened or locked.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Interrupted(signal) => {
                Self::new(Exit::Signal(signal), LockError::Interrupted(signal).to_string())
            }
            LockError::Busy(message) => Self::failed(message),
            LockError::Failed(error) => root::explain_refusal(&error),
        }
    }
}

/// Takes the lock of a conversation, waiting up to `timeout`; `waiting` is called once with who holds it.
pub fn lock_conversation(
    root: &Root,
    name: &str,
    timeout: Duration,
    interrupts: &Interrupts,
    waiting: &mut dyn FnMut(&str),
) -> Result<Lock, LockError> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    let run = root.run_note(name);
    let report = &mut || waiting(&describe_holder(&run));
    let is_taken = wait_lock(&file, &path, timeout, interrupts, Duration::ZERO, report)?;
    if is_taken {
        return Ok(leave_note(file, run)?);
    }
    let (by, seconds) = (describe_holder(&run), timeout.as_secs_f64());
    Err(LockError::Busy(format!(
        "conversation {name} is in use{by}; it did not come free in {seconds} s (--lock-timeout S waits longer)"
    )))
}

/// Takes the lock of a conversation that nobody uses. A torn end that its last holder left stays for the next run.
///
/// # Errors
/// `Busy` where a run has it.
pub fn try_lock_conversation(root: &Root, name: &str) -> Result<Lock, LockError> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    let run = root.run_note(name);
    let mut tried = file.try_lock();
    while let Err(TryLockError::Error(error)) = &tried
        && error.kind() == io::ErrorKind::Interrupted
    {
        tried = file.try_lock();
    }
    match tried {
        // Held for a moment, so the note is no more than a courtesy: on a full disk a conversation can still be removed.
        Ok(()) => {
            let mut lock = Lock::new(file, run);
            lock.note = NoteFile::begin(&lock.run).ok();
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => {
            let by = describe_holder(&run);
            Err(LockError::Busy(format!(
                "conversation {name} is in use{by}; try again when that run has ended"
            )))
        }
        Err(TryLockError::Error(error)) => {
            Err(anyhow::Error::new(error).context(format!("cannot lock {}", path.display())).into())
        }
    }
}

/// Whether somebody has the lock of a conversation. Takes it for an instant where nobody has.
pub fn is_held(root: &Root, name: &str) -> bool {
    let file = open_lock_file(&root.locks().join(name));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Takes the lock of a conversation whose name is so new that nobody else can know it.
pub fn lock_new_conversation(root: &Root, name: &str) -> Result<Lock> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    file.try_lock().with_context(|| format!("cannot lock {}", path.display()))?;
    leave_note(file, root.run_note(name))
}

fn leave_note(file: File, run: PathBuf) -> Result<Lock> {
    let mut lock = Lock::new(file, run);
    lock.note = Some(NoteFile::begin(&lock.run)?);
    Ok(lock)
}

/// How long an index's lock is waited for, which is held for moments only. A process that was stopped keeps it.
const INDEX_PATIENCE: Duration = Duration::from_secs(30);

/// How long of that passes before the wait is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// How the wait for an index is ended and reported.
#[derive(Clone, Copy)]
pub struct IndexWait<'a> {
    /// The signals that end it.
    pub interrupts: &'a Interrupts,
    /// Called once when the wait takes long.
    pub tell: &'a dyn Fn(&str),
}

/// Takes a lock that is held for moments only: an index's.
pub fn lock_index(root: &Root, name: &str, wait: IndexWait<'_>) -> Result<File, LockError> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    let seconds = INDEX_PATIENCE.as_secs();
    let report = &mut || {
        (wait.tell)(&format!(
            "waiting up to {seconds} s for {}, which another process holds (fuser names it)",
            path.display()
        ));
    };
    if wait_lock(&file, &path, INDEX_PATIENCE, wait.interrupts, REPORT_AFTER, report)? {
        return Ok(file);
    }
    Err(LockError::Busy(format!(
        "cannot lock {}: another process has held it for {seconds} s, though it is needed for moments only (fuser names it); end that \
         process, or continue it",
        path.display()
    )))
}

/// A wait lasts at least this long before a signal ends it, so that what a run notes at its end is not lost.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

const MAX_PAUSE: Duration = Duration::from_millis(25);

/// Takes the exclusive lock of an open file, until it is closed. False if another process keeps it beyond `patience`.
///
/// `report` is called once, when it has waited for `report_after`; not where there is no patience at all. Without the lock
/// nothing is written: where a file system has no locks, that is an error.
pub fn wait_lock(
    file: &File,
    path: &Path,
    patience: Duration,
    interrupts: &Interrupts,
    report_after: Duration,
    report: &mut dyn FnMut(),
) -> Result<bool, LockError> {
    wait_lock_as(LockMode::Exclusive, file, path, patience, interrupts, report_after, report)
}

/// Who else may have a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// All others that share it.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Like [`wait_lock`], for a lock that may be shared.
pub fn wait_lock_as(
    mode: LockMode,
    file: &File,
    path: &Path,
    patience: Duration,
    interrupts: &Interrupts,
    report_after: Duration,
    report: &mut dyn FnMut(),
) -> Result<bool, LockError> {
    let watch = Stopwatch::start();
    let mut is_reported = false;
    let mut pause = Duration::from_millis(1);
    loop {
        let locked = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                continue;
            }
            Err(TryLockError::Error(error)) => {
                let context = format!("cannot lock {}", path.display());
                return Err(anyhow::Error::new(error).context(context).into());
            }
        }
        let waited = watch.elapsed();
        if waited >= patience {
            return Ok(false);
        }
        if waited >= report_after && !std::mem::replace(&mut is_reported, true) {
            report();
        }
        pause = pause.min(patience.saturating_sub(waited));
        if waited < SIGNAL_GRACE {
            std::thread::sleep(pause);
        } else if let Some(signal) = interrupts.wait(Some(pause)) {
            return Err(LockError::Interrupted(signal));
        }
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

fn open_lock_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.with_context(|| format!("cannot open the lock {}", path.display()))
}

/// " by process 12 on host, since …", where that is known.
fn describe_holder(run: &Path) -> String {
    RunNote::read_at(run).map_or_else(String::new, |note| {
        let RunNote { process, started, .. } = note;
        format!(" by process {} on {}, since {started}", process.pid, process.host)
    })
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Under the lock, and once the torn tail is handled: without the note we cannot tell a crash from corruption.
        if self.is_settled {
            let _ = fs::remove_file(&self.run);
        }
    }
}
