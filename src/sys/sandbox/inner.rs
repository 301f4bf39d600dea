//! The inner stage: what a process does to itself before it becomes the command, or in `bwrap` starts it.
//!
//! No sockets of others, no capabilities, no new privileges, no core dumps, Landlock, seccomp. If anything fails, the command
//! does not start. It runs inside `bwrap`, or alone.

#![expect(unsafe_code, reason = "an inherited descriptor has no owner in Rust yet")]

use std::ffi::{CString, OsString};
use std::fs::{File, read_dir};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode as Bits, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use rustix::mount::mount_bind;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, unshare_unsafe,
};

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::sandbox::filter::{self, Sockets};
use crate::sandbox::inner::{Enforced, InnerPlan};
use crate::sys::interrupt::set_signal_mask;
use crate::sys::process::job::LeftRunning;
use crate::sys::process::left::LeftProcesses;

/// The Landlock version whose rights are used; an older kernel enforces those it knows.
const LANDLOCK: ABI = ABI::V7;

/// The first version of Landlock that stops files from being truncated.
const MIN_LANDLOCK: u32 = 3;

/// What the inner stage reports in place of its plan.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InnerReport {
    /// Why the command was not started; `None`: it is about to be.
    pub(super) refused: Option<String>,
    /// What it left running.
    pub(super) left: LeftRunning,
}

impl InnerReport {
    fn write(&self, control: &File) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        control.set_len(0)?;
        control.write_all_at(&bytes, 0)
    }
}

/// Devices that commands may use, with the system's `/dev`.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// In the `/dev` that `bwrap` makes also terminals that commands create themselves, and shared memory.
const DEVICES_IN_BWRAP: &[&str] = &["/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/shm"];

/// Restricts this process and becomes the command, or starts it. It reads its plan from the descriptor, and reports there. With a plan
/// that only probes, it returns what is enforced.
///
/// # Errors
/// What did not hold, or that the command could not be started.
pub fn enter(descriptor: &str, command: &[OsString]) -> Result<Enforced, Problem> {
    let wrong = || Problem::usage("--within is for nagent's own use");
    let control = descriptor.parse().ok().filter(|number| *number > 2).and_then(adopt);
    let control = control.ok_or_else(wrong)?;
    let length = control.metadata().map_or(0, |there| there.len());
    let mut bytes = vec![0; usize::try_from(length.min(1 << 24)).unwrap_or(0)];
    control.read_exact_at(&mut bytes, 0).map_err(|_| wrong())?;
    let plan: InnerPlan = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    let enforced = restrict(&plan).map_err(|why| {
        let _ =
            InnerReport { refused: Some(why.clone()), ..InnerReport::default() }.write(&control);
        Problem::failed(why)
    })?;
    if plan.probe {
        return Ok(enforced);
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| Problem::usage("there is no command to run"))?;
    InnerReport::default()
        .write(&control)
        .map_err(|error| Problem::failed(format!("cannot write the report: {error}")))?;
    let mut start = Command::new(program);
    start.args(arguments);
    let error = if plan.alone { start.exec() } else { run_command(start, command, &control) };
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let program = program.to_string_lossy();
    Err(Problem::new(Exit::Command(code), format!("cannot start {program}: {error}")))
}

/// Runs the command, reports what it left running, and exits as it did: when `bwrap` has ended, nobody can say any more what
/// ran in it. Returns only if the command cannot be started.
fn run_command(mut start: Command, words: &[OsString], control: &File) -> io::Error {
    // Commands run as the same user, and must not get at the report through /proc.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        return error.into();
    }
    // This process must not end before the command does. The command gets its signals: std hands on what is blocked.
    set_signal_mask(true);
    let unblock = || {
        set_signal_mask(false);
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { start.pre_exec(unblock) };
    let mut child = match start.spawn() {
        Ok(child) => child,
        Err(error) => return error,
    };
    let status = match child.wait() {
        Ok(status) => status,
        Err(error) => return error,
    };
    let report = InnerReport { left: list_left(words), ..InnerReport::default() };
    // It is only for information.
    let _ = report.write(control);
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    std::process::exit(code.unwrap_or(126))
}

/// Lists the processes of this namespace, but for `bwrap` and this one. `own` is how the command was started.
fn list_left(own: &[OsString]) -> LeftRunning {
    let this = std::process::id().cast_signed();
    let own = own.iter().filter_map(|word| CString::new(word.as_bytes()).ok());
    let own: Vec<CString> = own.collect();
    let each = |act: &mut dyn FnMut(Pid)| {
        let processes = read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<i32> =
            numbers.filter(|&number| number > 1 && number != this).collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(Pid::from_raw).for_each(act);
    };
    LeftProcesses::list_processes(&own, &each).describe()
}

/// Takes over an inherited descriptor, which the command must not inherit in turn.
fn adopt(number: RawFd) -> Option<File> {
    // SAFETY: a number and no memory; it fails if no such descriptor is open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: it is open, and this process has just been started with it: nothing else owns it.
    Some(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
}

fn restrict(plan: &InnerPlan) -> Result<Enforced, String> {
    let failed =
        |what: &'static str| move |error: rustix::io::Errno| format!("cannot {what}: {error}");
    // What is opened through a folder from outside is outside, too. Other descriptors were closed.
    if fstat(rustix::stdio::stdin()).is_ok_and(|stat| is_folder(stat.st_mode)) {
        return Err("stdin is a folder, which leads out of the sandbox; close it (<&-)".to_owned());
    }
    let is_covered = plan.sockets.as_deref().is_some_and(cover_sockets);
    drop_capabilities().map_err(failed("drop all capabilities"))?;
    set_no_new_privs(true).map_err(failed("give up new privileges"))?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(failed("turn core dumps off"))?;
    let landlock = apply_landlock(plan)?;
    // Sockets without a path are in the namespace of the network, or are stopped by Landlock 6.
    let unix_sockets = is_covered && (plan.no_network || landlock >= 6);
    let sockets = Sockets {
        no_internet: plan.no_network && plan.alone,
        no_netlink: plan.no_network,
        unix: unix_sockets,
    };
    let program = filter::compile_filter(sockets, plan.alone)?;
    seccompiler::apply_filter(&program)
        .map_err(|error| format!("cannot filter system calls (seccomp): {error}"))?;
    Ok(Enforced { landlock, unix_sockets })
}

/// Covers sockets by `/dev/null`, in a mount namespace of this process. Returns whether none of them can be reached.
fn cover_sockets(sockets: &[OsString]) -> bool {
    // SAFETY: this process has one thread, and no descriptor table, folder or memory is unshared.
    if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
        return false;
    }
    sockets.iter().all(|socket| match mount_bind("/dev/null", socket) {
        // It is gone by now, or commands cannot get there either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) | Ok(()) => true,
        Err(_) => false,
    })
}

fn is_folder(mode: u32) -> bool {
    FileType::from_raw_mode(mode).is_dir()
}

/// Drops all capabilities. A plain user cannot empty the bounding set, but without new privileges it has no effect.
pub(super) fn drop_capabilities() -> rustix::io::Result<()> {
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        // Beyond the last capability that the kernel knows, it fails.
        let all = (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number));
        let _ = all.map(remove_capability_from_bounding_set).take_while(Result::is_ok).count();
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Applies Landlock. Returns the version that is enforced; 0: none.
fn apply_landlock(plan: &InnerPlan) -> Result<u32, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot apply Landlock: {error}");
    let all = AccessFs::from_all(LANDLOCK);
    let cut_ports = plan.no_network && plan.alone;
    let handle = || {
        let mut ruleset = Ruleset::default();
        if plan.restricts_files {
            ruleset = ruleset.handle_access(all)?;
        }
        if cut_ports {
            ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
        }
        ruleset.scope(Scope::from_all(LANDLOCK))?.create()
    };
    let mut ruleset = handle().map_err(|error| cannot(&error))?;
    if plan.restricts_files {
        for (path, access) in landlock_rules(plan) {
            // What is gone by now needs no rule.
            let Some(fd) = open_path(&path) else { continue };
            let is_folder = fstat(&fd).is_ok_and(|stat| is_folder(stat.st_mode));
            let access = if is_folder { access } else { access & AccessFs::from_file(LANDLOCK) };
            ruleset = ruleset
                .add_rule(PathBeneath::new(fd, access))
                .map_err(|error| format!("{} ({})", cannot(&error), path.display()))?;
        }
    }
    let status = ruleset.restrict_self().map_err(|error| cannot(&error))?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. }
            if status.ruleset != RulesetStatus::NotEnforced =>
        {
            effective_abi as u32
        }
        _ => 0,
    };
    if plan.alone && plan.restricts_files && version < MIN_LANDLOCK {
        return Err(format!(
            "this kernel's Landlock has version {version} (0: none, or not enabled by lsm=landlock); 3 (Linux 6.2) is the first that stops files from being truncated"
        ));
    }
    Ok(version)
}

/// Returns which rights are given on which paths.
fn landlock_rules(plan: &InnerPlan) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let (read, all) = (AccessFs::from_read(LANDLOCK), AccessFs::from_all(LANDLOCK));
    // An ioctl on a device is neither reading nor writing; devices have rules of their own.
    let write = all & !AccessFs::IoctlDev;
    let mut rules = Vec::new();
    let hidden: Vec<PathBuf> = plan.hidden.iter().map(PathBuf::from).collect();
    if plan.alone {
        let mut except = hidden.clone();
        except.push("/dev".into());
        add_rules_except(Path::new("/"), &except, read, &mut rules);
    } else {
        rules.push(("/".into(), read));
        rules.extend(DEVICES_IN_BWRAP.iter().map(|path| (path.into(), all)));
    }
    rules.extend(DEVICES.iter().map(|path| (path.into(), all)));
    for folder in plan.writable.iter().map(Path::new) {
        if plan.alone {
            add_rules_except(folder, &hidden, write, &mut rules);
        } else {
            rules.push((folder.to_owned(), write));
        }
    }
    rules
}

/// Gives rights on a path, but not on what is to be kept out of it. Landlock only gives: no rule takes back what another has
/// given for the folder above. So a folder with something kept out in it is given entry by entry.
fn add_rules_except(
    path: &Path,
    except: &[PathBuf],
    access: BitFlags<AccessFs>,
    rules: &mut Vec<(PathBuf, BitFlags<AccessFs>)>,
) {
    if except.iter().any(|kept_out| path.starts_with(kept_out)) {
        return;
    }
    if !except.iter().any(|kept_out| kept_out.starts_with(path)) {
        return rules.push((path.to_owned(), access));
    }
    for entry in read_dir(path).into_iter().flatten().flatten() {
        // What a link leads to has a path of its own.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            add_rules_except(&entry.path(), except, access, rules);
        }
    }
}

/// Opens a path without links. One that has links by now was changed, and is not followed.
fn open_path(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Bits::empty(), ResolveFlags::NO_SYMLINKS) {
        // A sandbox inside of another one.
        Err(Errno::NOSYS) => open(path, flags | OFlags::NOFOLLOW, Bits::empty()).ok(),
        opened => opened.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that may be written, and those that may be read.
    fn permitted(alone: bool, write: &[&Path], hidden: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let plan = InnerPlan {
            alone,
            restricts_files: true,
            writable: write.iter().map(Into::into).collect(),
            hidden: vec![hidden.into()],
            ..InnerPlan::default()
        };
        let rules = landlock_rules(&plan);
        let of = |wanted: BitFlags<AccessFs>| {
            let given = rules.iter().filter(|(_, access)| access.intersects(wanted));
            given.map(|(path, _)| path.clone()).collect()
        };
        (of(AccessFs::from_write(LANDLOCK)), of(AccessFs::from_read(LANDLOCK)))
    }

    #[test]
    fn only_the_named_folders_and_devices_are_writable() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, hidden) = (top.join("tree"), top.join("hidden"));
        for folder in [&tree, &hidden] {
            std::fs::create_dir(folder).unwrap();
        }
        for alone in [false, true] {
            let (write, read) = permitted(alone, &[&tree], &hidden);
            let own = if alone { &[][..] } else { DEVICES_IN_BWRAP };
            let mut expect: Vec<PathBuf> = own.iter().chain(DEVICES).map(PathBuf::from).collect();
            expect.push(tree.clone());
            assert_eq!(write, expect, "alone: {alone}");
            // Inside bwrap a mount hides it.
            let is_read = read.iter().any(|path| hidden.starts_with(path));
            assert_eq!(is_read, !alone);
            assert!(read.iter().any(|path| tree.starts_with(path)));
        }
    }
}
