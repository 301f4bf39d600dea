//! Finds and ends what a keeper left that was killed itself, by its job or by somebody else: whatever became a child
//! of this process, and what is below that.
//!
//! This process is a child subreaper too, so that what a keeper leaves comes here. No child of this process is its own
//! but keepers, and those that it had before its first job: all others are orphans of dead keepers. A keeper's
//! leader dies with it.
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

use super::keeper::{PATIENCE, look_at_numbers};

/// Children that this process had before its first job: an `exec` keeps those of the program before.
static FOREIGN: OnceLock<Foreign> = OnceLock::new();

#[derive(Debug, Default)]
struct Foreign {
    /// Number and start time.
    children: HashSet<(i32, u64)>,
    /// Theirs and this process's own. No process of a job can be in one of them.
    sessions: HashSet<i32>,
}

/// Makes this process the one that orphans come to. Once, before the first job.
pub(super) fn adopt_orphans() {
    FOREIGN.get_or_init(|| {
        // Fails on kernels before 3.4 only.
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
        if !has_children() {
            return Foreign::default();
        }
        let own = getpid().as_raw_nonzero().get();
        let table = processes();
        if table.is_empty() {
            let mut children = HashSet::new();
            look_at_numbers(Instant::now() + PATIENCE, &mut |pid| {
                children.insert((pid.as_raw_nonzero().get(), 0));
                false
            });
            return Foreign { children, sessions: HashSet::new() };
        }
        let children = || table.values().filter(|process| process.parent == own);
        let sessions = children().chain(table.get(&own)).map(|process| process.session);
        Foreign {
            children: children().map(|process| (process.pid, process.start)).collect(),
            sessions: sessions.collect(),
        }
    });
}

/// Whether this process has any child, alive or not reaped.
pub(super) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Kills and reaps every descendant that is below none of the `keepers`. Gives up after a second, with what
/// cannot be killed: false then.
pub(super) fn end_orphans(keepers: &[Pid]) -> bool {
    let foreign = FOREIGN.get_or_init(Foreign::default);
    let alone = keepers.is_empty() && foreign.children.is_empty();
    let give_up = Instant::now() + PATIENCE;
    loop {
        if alone && reap_all() {
            return true;
        }
        let table = processes();
        let mut alive = Vec::new();
        for process in orphans(&table, keepers, foreign) {
            if process.is_zombie {
                reap(&process);
            } else if let Some(pidfd) = kill(&process) {
                alive.push(pidfd);
            }
        }
        if table.is_empty() {
            alive = kill_by_number(give_up, keepers, foreign);
        }
        if alive.is_empty() && !(alone && has_children()) {
            return true;
        }
        let now = Instant::now();
        if now >= give_up {
            return false;
        }
        // Those that died may have had children, which are found in the next round.
        wait_for_all(alive, (now + Duration::from_millis(50)).min(give_up));
    }
}

/// The same where there is no /proc: this process's own children alone. Their children become that in turn.
fn kill_by_number(end: Instant, keepers: &[Pid], foreign: &Foreign) -> Vec<OwnedFd> {
    let mut alive = Vec::new();
    look_at_numbers(end, &mut |pid| {
        let number = pid.as_raw_nonzero().get();
        let is_foreign = foreign.children.iter().any(|(child, _)| *child == number);
        if is_foreign || keepers.contains(&pid) {
            return false;
        }
        // Not reaped before this function returns: its number is nobody else's.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let _ = kill_process_group(pid, Signal::KILL);
        let is_killed = pidfd_send_signal(&pidfd, Signal::KILL).is_ok();
        if is_killed {
            alive.push(pidfd);
        }
        is_killed
    });
    alive
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

/// The descendants of this process that no keeper keeps.
fn orphans(table: &HashMap<i32, Process>, keepers: &[Pid], foreign: &Foreign) -> Vec<Process> {
    let mut roots = HashMap::new();
    let mut found = Vec::new();
    for process in table.values() {
        let Some(root) = root(process, table) else { continue };
        let is_orphan = *roots.entry(root.pid).or_insert_with(|| is_orphan(root, keepers, foreign));
        // Zombies further down are their parents' to reap; when these are gone they become children.
        if is_orphan && (process.is_child || !process.is_zombie) {
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

/// Whether a child of this process was left by a keeper: see the head of this file.
fn is_orphan(child: &Process, keepers: &[Pid], foreign: &Foreign) -> bool {
    let is_keeper = keepers.iter().any(|keeper| keeper.as_raw_nonzero().get() == child.pid);
    !is_keeper
        && !foreign.children.contains(&(child.pid, child.start))
        && !foreign.sessions.contains(&child.session)
}
