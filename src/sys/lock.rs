//! The advisory lock of a conversation, and the note that says who holds it.
//!
//! The lock is `flock` on `.locks/{name}`, a file that is never replaced or removed: the kernel frees it when its
//! holder ends, however that ends. `{name}.run` beside the conversation tells people who it is, and the next holder that the
//! last one was killed; it holds no authority.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::clock::Stopwatch;
use super::interrupt::Interrupts;
use super::root::{self, Root};
use super::{clock, fs};
use crate::exit::{Exit, Signal};
use crate::problem::Problem;

/// The process at work on a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its host's name.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// When it began, UTC.
    pub started: String,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    run: PathBuf,
    after_crash: bool,
    is_settled: bool,
}

impl Lock {
    /// Whether its last holder left its note behind, as one that was killed does.
    pub fn is_after_crash(&self) -> bool {
        self.after_crash
    }

    /// The conversation was read whole, and what a killed holder left half done is mended: its note says nothing any more.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It did not come free in time.
    #[error(
        "conversation {name} is in use{by}; it did not come free in {seconds} s (--lock-timeout waits longer, \
             --conversation NAME uses another)"
    )]
    Busy {
        /// The conversation.
        name: String,
        /// " by process 12 on host, since …", when that is known.
        by: String,
        /// How long was waited.
        seconds: f64,
    },
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
            LockError::Interrupted(signal) => Self::new(Exit::Signal(signal), error.to_string()),
            LockError::Busy { .. } => Self::failed(error.to_string()),
            LockError::Failed(error) => root::explain_refusal(&error),
        }
    }
}

/// Takes the lock of a conversation, waiting up to `timeout`; `waiting` is told once for whom.
pub fn take(
    root: &Root,
    name: &str,
    timeout: Duration,
    interrupts: &Interrupts,
    waiting: &mut dyn FnMut(&str),
) -> Result<Lock, LockError> {
    let path = root.locks().join(name);
    let file = open(&path)?;
    let run = root.run(name);
    let watch = Stopwatch::start();
    let mut told = false;
    loop {
        if try_once(&file, &path)? {
            break;
        }
        let by = holder(&run);
        if !told {
            told = true;
            if !timeout.is_zero() {
                waiting(&by);
            }
        }
        if watch.elapsed() >= timeout {
            return Err(LockError::Busy {
                name: name.to_owned(),
                by,
                seconds: timeout.as_secs_f64(),
            });
        }
        let pause = Duration::from_millis(25).min(timeout.saturating_sub(watch.elapsed()));
        if let Some(signal) = clock::sleep_interruptible(pause, interrupts) {
            return Err(LockError::Interrupted(signal));
        }
    }
    Ok(hold(file, run)?)
}

/// Takes the lock of a conversation whose name is so new that nobody else can know it.
pub fn take_new(root: &Root, name: &str) -> Result<Lock> {
    let path = root.locks().join(name);
    let file = open(&path)?;
    if !try_once(&file, &path)? {
        bail!("cannot lock {}: another process holds it", path.display());
    }
    hold(file, root.run(name))
}

/// Leaves the note that says who holds the lock.
fn hold(file: File, run: PathBuf) -> Result<Lock> {
    let after_crash = fs::exists(&run);
    let me =
        Holder { host: super::env::host_name(), pid: std::process::id(), started: clock::now() };
    let text = serde_json::to_string(&me).context("cannot describe this process")?;
    fs::replace_lightly(&run, format!("{text}\n").as_bytes())?;
    Ok(Lock { _file: file, run, after_crash, is_settled: !after_crash })
}

/// How long a lock is waited for that is held for moments only. A holder that was stopped keeps it for ever.
const SOON: Duration = Duration::from_secs(30);

/// How long of that passes before it is said.
const SAID: Duration = Duration::from_secs(1);

/// How long of that passes before a signal counts: what a run notes at its end is not lost to the signal that ended it.
const MOMENT: Duration = Duration::from_millis(500);

/// What ends a wait for an index early, and to whom the wait is told.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The signals that end it.
    pub interrupts: &'a Interrupts,
    /// Told once for what is waited, when that takes long.
    pub tell: &'a dyn Fn(&str),
}

/// Takes a lock that is held for moments only: an index's.
///
/// # Errors
/// It did not come free, a signal came, or there are no locks.
pub fn take_soon(root: &Root, name: &str, wait: Wait<'_>) -> Result<File, LockError> {
    let path = root.locks().join(name);
    let file = open(&path)?;
    let watch = Stopwatch::start();
    let mut pause = Duration::from_millis(1);
    let mut told = false;
    loop {
        if try_once(&file, &path)? {
            return Ok(file);
        }
        let waited = watch.elapsed();
        if waited >= SOON {
            return Err(LockError::Failed(anyhow::anyhow!(
                "cannot lock {}: another process has held it for {} s, which takes moments (fuser names it); end that \
                 process, or let it go on",
                path.display(),
                SOON.as_secs()
            )));
        }
        if let Some(signal) = wait.interrupts.pending().filter(|_| waited >= MOMENT) {
            return Err(LockError::Interrupted(signal));
        }
        if waited >= SAID && !told {
            told = true;
            let seconds = SOON.as_secs();
            (wait.tell)(&format!(
                "waiting up to {seconds} s for {}, which another process holds (fuser names it)",
                path.display()
            ));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(25));
    }
}

/// Whether the lock was free, and is ours now.
fn try_once(file: &File, path: &Path) -> Result<bool> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => {
                // Nothing is written without the lock: two runs on one conversation would mix.
                bail!(
                    "cannot lock {}: {error}; where its file system has no locks, keep the root on another (--root DIR, or NAGENT_ROOT)",
                    path.display()
                );
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot open the lock {}", path.display()))
}

fn holder(run: &Path) -> String {
    let text = fs::read_text(run, 4096).ok().flatten().unwrap_or_default();
    serde_json::from_str::<Holder>(&text).map_or_else(
        |_| String::new(),
        |holder| format!(" by process {} on {}, since {}", holder.pid, holder.host, holder.started),
    )
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock itself goes; nobody else writes it while we hold the lock. Until a tail that a killed holder left
        // is put aside, the note is all that tells it from damage.
        if self.is_settled {
            let _ = fs::remove(&self.run);
        }
    }
}
