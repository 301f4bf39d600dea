//! The lock of a conversation, the note that names its holder, and the one way to open a lock, wait for it and take it.
//!
//! The lock is `flock` on `.locks/{name}`, a file that is never replaced or removed: the kernel frees it however its
//! holder ends. `{name}.run` next to the conversation shows people who the holder is, and shows the next holder that
//! the last one was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use super::clock::Stopwatch;
use super::fs;
use super::interrupt::Interrupts;
use super::root::{self, Root};
use super::run_note::{Activity, NoteFile, RunEnd, RunNote};
use conversation::exit::{Exit, Signal};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;

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

    /// Whether the last holder did not remove its note: it was killed.
    pub fn is_after_crash(&self) -> bool {
        self.after_crash
    }

    /// Ends the recovery after a crash: the note of the killed run is no longer needed.
    pub(crate) fn clear_crash_note(&mut self) {
        self.is_settled = true;
    }

    /// Publishes what the run is doing.
    pub fn set_activity(&mut self, activity: Activity) {
        if let Some(note) = &mut self.note {
            note.write_activity(activity);
        }
    }

    /// Publishes how the run ended.
    pub fn record_exit(&self, exit: Exit) {
        RunEnd::write(&self.file, exit.code());
    }
}

/// The reason why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It did not become free in time. The message says who holds it and what to do.
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

/// Takes the lock of a conversation, waiting up to `timeout`; `waiting` is called once with a description of the
/// holder.
pub fn lock_conversation(
    root: &Root,
    name: &str,
    timeout: Duration,
    interrupts: &Interrupts,
    waiting: &mut dyn FnMut(&str),
) -> Result<Lock, LockError> {
    let run = root.run_note(name);
    let report = &mut || waiting(&describe_holder(&run));
    let wait = LockWait { report: Some(report), ..LockWait::new(timeout, interrupts) };
    if let Some(file) = lock_file(&root.locks().join(name), wait)? {
        return Ok(write_note(file, run)?);
    }
    let (by, seconds) = (describe_holder(&run), timeout.as_secs_f64());
    Err(LockError::Busy(format!(
        "conversation {name} is in use{by}; waited {seconds} s (--lock-timeout S waits longer)"
    )))
}

/// Takes the lock of a conversation that is not in use. A torn tail of its last holder stays for the next run.
///
/// # Errors
/// `Busy` if a run has it.
pub fn try_lock_conversation(root: &Root, name: &str) -> Result<Lock, LockError> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    let run = root.run_note(name);
    if !try_lock(&file, LockMode::Exclusive, &path)? {
        let by = describe_holder(&run);
        return Err(LockError::Busy(format!(
            "conversation {name} is in use{by}; try again when that run has ended"
        )));
    }
    // The note is optional here, since the lock is held for a moment only: on a full disk a conversation can still be
    // removed.
    let mut lock = Lock::new(file, run);
    lock.note = NoteFile::begin(&lock.run).ok();
    Ok(lock)
}

/// Whether the lock of a conversation is held. Takes it for an instant if it is free.
pub fn is_held(root: &Root, name: &str) -> bool {
    let file = File::open(root.locks().join(name));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Takes the lock of a conversation that was just created: nobody else can know its name.
pub(crate) fn lock_new_conversation(root: &Root, name: &str) -> Result<Lock> {
    let path = root.locks().join(name);
    let file = open_lock_file(&path)?;
    file.try_lock().with_context(|| format!("cannot lock {}", path.display()))?;
    write_note(file, root.run_note(name))
}

fn write_note(file: File, run: PathBuf) -> Result<Lock> {
    let mut lock = Lock::new(file, run);
    lock.note = Some(NoteFile::begin(&lock.run)?);
    Ok(lock)
}

/// Maximum wait for the lock of an index, which is held for moments only, except by a stopped process.
const INDEX_PATIENCE: Duration = Duration::from_secs(30);

/// Takes the lock of an index, which is held for moments only.
pub fn lock_index(root: &Root, name: &str, interrupts: &Interrupts) -> Result<File, LockError> {
    lock_briefly(&root.locks().join(name), interrupts)
}

/// Takes a lock that is held for moments only.
pub fn lock_briefly(path: &Path, interrupts: &Interrupts) -> Result<File, LockError> {
    let busy = || {
        let seconds = INDEX_PATIENCE.as_secs();
        LockError::Busy(format!(
            "cannot lock {}: another process has held it for {seconds} s, though it is needed for moments only (fuser names it); end that \
         process, or continue it",
            path.display()
        ))
    };
    lock_file(path, LockWait::new(INDEX_PATIENCE, interrupts))?.ok_or_else(busy)
}

/// Takes the lock of an open folder, until it is closed; `wait` limits the wait, if it may wait.
///
/// # Errors
/// `Busy` where another process has had it for longer than `patience`.
pub fn lock_folder(
    folder: File,
    path: &Path,
    wait: Option<(Duration, &Interrupts)>,
) -> Result<File, LockError> {
    let is_locked = match wait {
        Some((patience, interrupts)) => {
            wait_lock(&folder, path, LockWait::new(patience, interrupts))?
        }
        None => try_lock(&folder, LockMode::Exclusive, path)?,
    };
    let busy = || {
        let path = quote_name(path);
        LockError::Busy(format!(
            "another process is working on {path}; run the same command again when it has finished"
        ))
    };
    is_locked.then_some(folder).ok_or_else(busy)
}

/// Minimum wait before a signal ends it, so that the final notes of a run are not lost.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

const MAX_PAUSE: Duration = Duration::from_millis(25);

/// The mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Others may share it.
    Shared,
    /// Nobody else may have it.
    Exclusive,
}

/// The mode of a lock and the limits of the wait for it.
pub struct LockWait<'a> {
    /// The mode of the lock.
    pub mode: LockMode,
    /// Maximum wait.
    pub patience: Duration,
    /// The signals that end the wait.
    pub interrupts: &'a Interrupts,
    /// A function to call once if the lock is not free at once; it is not called if `patience` is zero.
    pub report: Option<&'a mut dyn FnMut()>,
}

impl<'a> LockWait<'a> {
    /// A silent wait for an exclusive lock.
    pub fn new(patience: Duration, interrupts: &'a Interrupts) -> Self {
        Self { mode: LockMode::Exclusive, patience, interrupts, report: None }
    }
}

/// Takes the lock of a lock file, until it is closed. `None` if others keep it beyond the patience.
pub fn lock_file(path: &Path, wait: LockWait<'_>) -> Result<Option<File>, LockError> {
    let file = open_lock_file(path)?;
    Ok(wait_lock(&file, path, wait)?.then_some(file))
}

/// Takes the lock of an open file, until it is closed. False if others keep it for longer than the patience.
///
/// Nothing is written without the lock: on a file system without locks this is an error.
pub(super) fn wait_lock(file: &File, path: &Path, wait: LockWait<'_>) -> Result<bool, LockError> {
    let LockWait { mode, patience, interrupts, mut report } = wait;
    let watch = Stopwatch::start();
    let mut pause = Duration::from_millis(1);
    loop {
        if try_lock(file, mode, path)? {
            return Ok(true);
        }
        let waited = watch.elapsed();
        if waited >= patience {
            return Ok(false);
        }
        if let Some(report) = report.take() {
            report();
        }
        pause = pause.min(patience.saturating_sub(waited));
        if waited < SIGNAL_GRACE {
            std::thread::sleep(pause);
        } else if let Some(signal) = interrupts.wait_for_signal(Some(pause)) {
            return Err(LockError::Interrupted(signal));
        }
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

/// Takes a lock if it is free.
pub(super) fn try_lock(file: &File, mode: LockMode, path: &Path) -> Result<bool> {
    let locked = match mode {
        LockMode::Shared => file.try_lock_shared(),
        LockMode::Exclusive => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Interrupted => {
            try_lock(file, mode, path)
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Locks a mutex. A panic of another thread does not make its value invalid.
pub fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_lock_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.with_context(|| format!("cannot open the lock {}", path.display()))
}

/// Describes the holder if it is known, as in " by process 12 on host, since …".
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
