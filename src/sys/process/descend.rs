//! Finds and ends what a job's leader left behind, wherever it hid: its own process group, other sessions,
//! twice forked, ignoring SIGTERM. It never touches what belongs to another job.
//!
//! This process is a child subreaper, so that every descendant whose parent is gone becomes its child: none
//! can leave the tree. Whose an orphan is, is read off its session, then off the mark in its environment.
//! One without either (it changed its session and emptied its environment) is ended when no other job
//! runs; it cannot be said to be this job's before.
//!
//! A process is signalled by a pidfd that was checked against its start time, or as an unreaped child: its
//! number cannot have gone to a stranger.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

/// The variable that marks a job's processes: the marks of all jobs that they belong to, outermost first,
/// with a colon between.
pub(super) const MARK: &str = "NAGENT_JOB";

/// How long processes may take to vanish after SIGKILL. One that sleeps in the kernel can take for ever.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first process of a job, which leads its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) pid: Pid,
    /// Random, in the environment of all its descendants that did not clear it.
    pub(super) mark: String,
}

/// Children that this process had before its first job: an `exec` keeps those of the program before.
static FOREIGN: OnceLock<HashSet<(i32, u64)>> = OnceLock::new();

/// Makes this process the one that orphans come to. Once, before the first job.
pub(super) fn adopt_orphans() {
    FOREIGN.get_or_init(|| {
        // Fails on kernels before 3.4 only.
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
        if !has_children() {
            return HashSet::new();
        }
        let own = getpid().as_raw_nonzero().get();
        let table = processes();
        table
            .values()
            .filter(|process| process.parent == own)
            .map(|process| (process.pid, process.start))
            .collect()
    });
}

/// Whether this process has any child, alive or not reaped.
pub(super) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Kills and reaps every descendant that `ended` left, whose leader is reaped by now. `others` run on.
/// Gives up after a second, with what cannot be killed.
pub(super) fn end_descendants(ended: &Leader, others: &[Leader]) {
    let foreign = FOREIGN.get_or_init(HashSet::new);
    let alone = others.is_empty() && foreign.is_empty();
    let give_up = Instant::now() + PATIENCE;
    loop {
        if alone && reap_all() {
            return;
        }
        let mut alive = Vec::new();
        for process in descendants(ended, others, foreign) {
            if process.is_zombie {
                reap(&process);
            } else if let Some(pidfd) = kill(&process) {
                alive.push(pidfd);
            }
        }
        if alive.is_empty() && !(alone && has_children()) {
            return;
        }
        let now = Instant::now();
        if now >= give_up {
            return;
        }
        // Those that died may have had children, which are found in the next round.
        wait_for_all(alive, (now + Duration::from_millis(50)).min(give_up));
    }
}

/// Reaps every child that has ended. True when there is no child left at all.
fn reap_all() -> bool {
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

fn reap(process: &Process) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Sends SIGKILL. `None` when the process is gone, or not ours to kill (another user's, by way of setuid).
fn kill(process: &Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(process.pid)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let same = Process::read(process.pid).is_some_and(|now| now.start == process.start);
    if !same {
        return None;
    }
    pidfd_send_signal(&pidfd, Signal::KILL).ok()?;
    // The group as well, at one stroke, before its members fork on: an unreaped child of ours pins its number.
    if process.is_child && process.group == process.pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    Some(pidfd)
}

fn wait_for_all(mut alive: Vec<OwnedFd>, end: Instant) {
    while !alive.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let mut fds: Vec<PollFd<'_>> =
            alive.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        if poll(&mut fds, Timespec::try_from(left).ok().as_ref()).is_err() {
            continue;
        }
        let mut ended =
            fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        alive.retain(|_| !ended.next().unwrap_or(false));
    }
}

/// A line of the process table.
#[derive(Debug, Clone)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// In clock ticks since boot: tells two bearers of one number apart.
    start: u64,
    is_zombie: bool,
    /// Whether it is a child of this process itself.
    is_child: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything, parentheses too.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let fields = std::str::from_utf8(stat.get(after_name..)?).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let parent = number(1)?;
        Some(Self {
            pid,
            parent,
            group: number(2)?,
            session: number(3)?,
            start: fields.get(19)?.parse().ok()?,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
            is_child: parent == getpid().as_raw_nonzero().get(),
        })
    }
}

fn processes() -> HashMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect()
}

/// The descendants of this process that belong to the ended job.
fn descendants(ended: &Leader, others: &[Leader], foreign: &HashSet<(i32, u64)>) -> Vec<Process> {
    let table = processes();
    let mut roots = HashMap::new();
    let mut found = Vec::new();
    for process in table.values() {
        let Some(root) = root(process, &table) else { continue };
        let ours = *roots.entry(root.pid).or_insert_with(|| belongs(root, ended, others, foreign));
        // Zombies further down are their parents' to reap; when these are gone they become children.
        if ours && (process.is_child || !process.is_zombie) {
            found.push(process.clone());
        }
    }
    found
}

/// The child of this process that `process` descends from, or is.
fn root<'a>(process: &'a Process, table: &'a HashMap<i32, Process>) -> Option<&'a Process> {
    let mut at = process;
    // The table is no snapshot: numbers that changed hands may make a ring.
    for _ in 0..table.len() {
        if at.is_child {
            return Some(at);
        }
        at = table.get(&at.parent)?;
    }
    None
}

/// Whether a child of this process is the ended job's: see the head of this file.
fn belongs(
    child: &Process,
    ended: &Leader,
    others: &[Leader],
    foreign: &HashSet<(i32, u64)>,
) -> bool {
    let leads = |leader: &Leader, pid: i32| leader.pid.as_raw_nonzero().get() == pid;
    if others.iter().any(|other| leads(other, child.pid))
        || foreign.contains(&(child.pid, child.start))
    {
        return false;
    }
    // With no other job and no child from before, an orphan can be nobody else's.
    let alone = others.is_empty() && foreign.is_empty();
    alone
        || leads(ended, child.session)
        || marks(child.pid).split(':').any(|mark| mark == ended.mark)
}

/// The marks in a process's environment; empty when it has none, or it cannot be read.
fn marks(pid: i32) -> String {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}
