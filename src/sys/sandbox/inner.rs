//! The inner stage: what a process does to itself before it becomes the command.
//!
//! No capabilities, no new privileges, no core dumps, Landlock, seccomp; then it reads back from the system whether all of
//! that holds. What fails ends it before the command starts. It stands inside `bwrap`, whose work it does not repeat, or
//! alone.

use std::fs::{File, OpenOptions, read_dir, read_to_string};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode as Bits, OFlags, ResolveFlags, fstat, openat2};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

use crate::sandbox::filter::{self, Sockets};
use crate::sandbox::plan::{self, DEVICES, DEVICES_OF_ONES_OWN, Grant, Plan};

/// The Landlock whose rights are asked for; a kernel that knows fewer enforces those it knows.
const VETTED: ABI = ABI::V7;

/// What a report begins with once the command is about to be started.
pub(super) const BEGUN: &str = "begun\n";

/// What the walls are made of, read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Built {
    /// The version of Landlock that is enforced; 0: none.
    pub landlock: u32,
}

/// Builds the walls around this process and becomes the command; with a plan that only probes, returns what they are made
/// of.
///
/// # Errors
/// What did not hold. The command was not started then, unless the words say that it could not be.
pub fn enter(plan: &Plan, command: &[std::ffi::OsString]) -> Result<Built, Failed> {
    let mut report = plan.report.as_deref().map(open_report).transpose().map_err(Failed::Walls)?;
    let built = match build(plan) {
        Ok(built) => built,
        Err(why) => {
            if let Some(report) = &mut report {
                let _ = report.write_all(why.as_bytes());
            }
            return Err(Failed::Walls(why));
        }
    };
    if plan.probe {
        return Ok(built);
    }
    if let Some(report) = &mut report {
        report
            .write_all(BEGUN.as_bytes())
            .map_err(|error| Failed::Walls(format!("cannot write its report: {error}")))?;
    }
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failed::Walls("there is no command to run".to_owned()));
    };
    let error = Command::new(program).args(arguments).exec();
    Err(Failed::Command {
        found: error.kind() != io::ErrorKind::NotFound,
        why: format!("cannot start {}: {error}", program.to_string_lossy()),
    })
}

/// Why the command does not run.
#[derive(Debug)]
pub enum Failed {
    /// A wall could not be built.
    Walls(String),
    /// The walls stand, and the command cannot be started.
    Command {
        /// Whether there is such a program.
        found: bool,
        /// What went wrong.
        why: String,
    },
}

fn open_report(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| format!("cannot open its report {}: {error}", path.display()))
}

fn build(plan: &Plan) -> Result<Built, String> {
    let failed =
        |what: &'static str| move |error: rustix::io::Errno| format!("cannot {what}: {error}");
    check_descriptors()?;
    let bounding_is_emptied = drop_capabilities().map_err(failed("drop all capabilities"))?;
    set_no_new_privs(true).map_err(failed("give up new privileges"))?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(failed("turn core dumps off"))?;
    let landlock = landlock(plan)?;
    let sockets =
        Sockets { no_internet: plan.no_network && !plan.own_network, no_netlink: plan.no_network };
    let program = filter::program(sockets, plan.alone)?;
    seccompiler::apply_filter(&program)
        .map_err(|error| format!("cannot filter system calls (seccomp): {error}"))?;
    check_status(bounding_is_emptied)?;
    Ok(Built { landlock })
}

/// A folder that is open leads around every wall that was built after it was opened.
fn check_descriptors() -> Result<(), String> {
    for (number, stat) in [
        fstat(rustix::stdio::stdin()),
        fstat(rustix::stdio::stdout()),
        fstat(rustix::stdio::stderr()),
    ]
    .into_iter()
    .enumerate()
    {
        if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
            return Err(format!(
                "descriptor {number} is a folder, which leads around the walls; close it (<&-)"
            ));
        }
    }
    let cannot = |error: io::Error| format!("cannot list open descriptors: {error}");
    for entry in read_dir("/proc/self/fd").map_err(cannot)?.flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // The one that lists is gone by now.
        let Ok(info) = read_to_string(Path::new("/proc/self/fdinfo").join(&name)) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
        if number > 2 && flags & OFlags::CLOEXEC.bits() == 0 {
            return Err(format!("descriptor {number} would be inherited by the command"));
        }
    }
    Ok(())
}

/// Gives all capabilities up, and says whether none can ever come back; a plain user's bounding set stays, and no new
/// privileges make it idle.
fn drop_capabilities() -> rustix::io::Result<bool> {
    let may_empty = capabilities(None)?.effective.contains(CapabilitySet::SETPCAP);
    if may_empty {
        for number in 0..64 {
            // Beyond the last capability that the kernel knows.
            if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number))
                .is_err()
            {
                break;
            }
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(may_empty)
}

/// Reads back what the system says of this process.
fn check_status(bounding_is_emptied: bool) -> Result<(), String> {
    let status = read_to_string("/proc/self/status")
        .map_err(|error| format!("cannot read back what holds (/proc/self/status): {error}"))?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default()
    };
    let is_zero = |value: &str| !value.is_empty() && value.bytes().all(|digit| digit == b'0');
    for name in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        if !is_zero(value(name)) {
            return Err(format!("a capability is left: {name} is {}", value(name)));
        }
    }
    if bounding_is_emptied && !is_zero(value("CapBnd")) {
        return Err(format!("a capability could come back: CapBnd is {}", value("CapBnd")));
    }
    if value("NoNewPrivs") != "1" {
        return Err("new privileges are still to be had (NoNewPrivs)".to_owned());
    }
    if value("Seccomp") != "2" {
        return Err("the filter of system calls (seccomp) does not hold".to_owned());
    }
    Ok(())
}

/// Applies Landlock, and gives the version that is enforced; 0: none.
fn landlock(plan: &Plan) -> Result<u32, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot apply Landlock: {error}");
    let all = AccessFs::from_all(VETTED);
    let cut_ports = plan.no_network && !plan.own_network;
    let handle = || {
        let mut ruleset = Ruleset::default();
        if plan.write.is_some() {
            ruleset = ruleset.handle_access(all)?;
        }
        if cut_ports {
            ruleset = ruleset.handle_access(AccessNet::from_all(VETTED))?;
        }
        ruleset.scope(Scope::from_all(VETTED))?.create()
    };
    let mut ruleset = handle().map_err(|error| cannot(&error))?;
    if let Some(grants) = &plan.write {
        for (path, access) in rules(plan, grants) {
            // What was gone by the time that it was opened needs no rule.
            let Some(fd) = open(&path) else { continue };
            let is_folder =
                fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
            let access = if is_folder { access } else { access & AccessFs::from_file(VETTED) };
            ruleset = ruleset
                .add_rule(PathBeneath::new(fd, access))
                .map_err(|error| format!("{} ({})", cannot(&error), path.display()))?;
        }
    }
    let status = ruleset.restrict_self().map_err(|error| cannot(&error))?;
    let version = version(&status);
    if plan.alone && plan.write.is_some() {
        if version == 0 {
            return Err("there is no Landlock in this kernel, or it is not enabled (lsm=landlock)"
                .to_owned());
        }
        if version < 3 {
            return Err(format!(
                "this kernel's Landlock is version {version}; 3 (Linux 6.2) is the first that keeps files from being cut off"
            ));
        }
    }
    Ok(version)
}

fn version(status: &RestrictionStatus) -> u32 {
    match (&status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    }
}

/// Which rights are given on which paths.
fn rules(plan: &Plan, grants: &[Grant]) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let (read, all) = (AccessFs::from_read(VETTED), AccessFs::from_all(VETTED));
    // An ioctl on a device is neither reading nor writing; devices have rules of their own.
    let write = all & !AccessFs::IoctlDev;
    let mut rules = Vec::new();
    if plan.alone {
        let mut except = plan.hidden.clone();
        except.push("/dev".into());
        let everything = Grant { path: "/".into(), except, closed: false };
        rules.extend(plan::paths(&everything, &entries).into_iter().map(|path| (path, read)));
    } else {
        rules.push(("/".into(), read));
        rules.extend(DEVICES_OF_ONES_OWN.iter().map(|path| (path.into(), all)));
    }
    rules.extend(DEVICES.iter().map(|path| (path.into(), all)));
    for grant in grants {
        rules.extend(plan::paths(grant, &entries).into_iter().map(|path| (path, write)));
    }
    rules
}

/// A folder's entries but for links.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .map(|entry| entry.path())
        .collect()
}

/// Opens a true path. One that leads over a link by now has been changed, and is not followed.
fn open(path: &Path) -> Option<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Bits::empty(), ResolveFlags::NO_SYMLINKS)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of rules that let write, and of those that let read.
    fn given(alone: bool, write: &[&Path], hidden: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let grants: Vec<Grant> = write.iter().map(|path| Grant::whole(*path)).collect();
        let plan = Plan {
            alone,
            write: Some(grants.clone()),
            hidden: vec![hidden.to_owned()],
            no_network: false,
            own_network: false,
            report: None,
            probe: false,
        };
        let rules = rules(&plan, &grants);
        let of = |wanted: BitFlags<AccessFs>| {
            let given = rules.iter().filter(|(_, access)| access.intersects(wanted));
            given.map(|(path, _)| path.clone()).collect()
        };
        (of(AccessFs::from_write(VETTED)), of(AccessFs::from_read(VETTED)))
    }

    #[test]
    fn nothing_is_writable_but_what_was_granted_and_devices() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, hidden) = (top.join("tree"), top.join("hidden"));
        for folder in [&tree, &hidden] {
            std::fs::create_dir(folder).unwrap();
        }
        for alone in [false, true] {
            let (write, read) = given(alone, &[&tree], &hidden);
            let own = if alone { &[][..] } else { DEVICES_OF_ONES_OWN };
            let mut expect: Vec<PathBuf> = own.iter().chain(DEVICES).map(PathBuf::from).collect();
            expect.push(tree.clone());
            assert_eq!(write, expect, "alone: {alone}");
            // Inside of bwrap it is hidden by a mount.
            let is_read = read.iter().any(|path| hidden.starts_with(path));
            assert_eq!(is_read, !alone);
            assert!(read.iter().any(|path| tree.starts_with(path)));
        }
    }
}
