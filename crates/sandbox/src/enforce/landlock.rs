//! The Landlock ruleset of a command. With `bwrap` it restricts signals and sockets without a path; alone it also
//! restricts files.

#![expect(unsafe_code, reason = "the version of Landlock is asked for by a system call")]

use std::fs::read_dir;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;

use crate::SandboxMode;
use crate::policy::SandboxPolicy;

/// The Landlock version whose rights are used; an older kernel enforces those it knows.
const LANDLOCK: ABI = ABI::V7;

/// Devices that commands may use.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns the version of Landlock that the kernel enforces; 0: none.
pub(super) fn version() -> u32 {
    // SAFETY: with this flag it takes no memory, and returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, 1)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Makes the ruleset for a policy. `None` if this version of Landlock supports none of its rights.
pub(super) fn build(policy: &SandboxPolicy, alone: bool, version: u32) -> Result<Option<OwnedFd>> {
    let mut ruleset = Ruleset::default();
    if alone {
        ruleset = ruleset.handle_access(AccessFs::from_all(LANDLOCK))?;
    }
    if alone && policy.no_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
    }
    let mut ruleset = ruleset.scope(Scope::from_all(LANDLOCK))?.create()?;
    let rules = if alone { list_rules(policy) } else { Vec::new() };
    for (path, access) in rules {
        let Some(fd) = open_path(&path) else { continue };
        let is_folder = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let access = if is_folder { access } else { access & AccessFs::from_file(LANDLOCK) };
        ruleset = ruleset
            .add_rule(PathBeneath::new(fd, access))
            .with_context(|| format!("cannot apply Landlock to {}", path.display()))?;
    }
    let ruleset: Option<OwnedFd> = ruleset.into();
    // The crate silently drops everything that the kernel refuses.
    ensure!(ruleset.is_some() || version < if alone { 1 } else { 6 }, "cannot apply Landlock");
    Ok(ruleset)
}

/// Lists the paths and the rights on them.
fn list_rules(policy: &SandboxPolicy) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let (read, all) = (AccessFs::from_read(LANDLOCK), AccessFs::from_all(LANDLOCK));
    let hidden: Vec<&Path> = policy.hidden.iter().map(|hidden| hidden.path.as_path()).collect();
    let mut rules: Vec<_> = DEVICES.iter().map(|path| (path.into(), all)).collect();
    add_rules_except(
        Path::new("/"),
        &[&hidden[..], &[Path::new("/dev")]].concat(),
        read,
        &mut rules,
    );
    rules.extend(policy.shown.iter().map(|path| (path.clone(), read)));
    // bwrap mounts its own /dev/shm. Semaphores are in it.
    let shared = (policy.mode == SandboxMode::Workspace).then(|| PathBuf::from("/dev/shm"));
    for folder in policy.writable.iter().chain(&shared) {
        // An ioctl on a device is neither reading nor writing; devices have rules of their own.
        add_rules_except(folder, &hidden, all & !AccessFs::IoctlDev, &mut rules);
    }
    rules
}

/// Adds rules for a path, but not for the excluded paths in it. Landlock can only grant: no rule takes back the rights
/// that another has granted for the folder above. So a folder with an excluded path in it is granted entry by entry.
fn add_rules_except(
    path: &Path,
    except: &[&Path],
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
        // The target of a link has its own path.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            add_rules_except(&entry.path(), except, access, rules);
        }
    }
}

/// Opens a path without links. If it has links, it was changed meanwhile, and is not followed.
fn open_path(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A sandbox inside another one.
        Err(Errno::NOSYS) => open(path, flags | OFlags::NOFOLLOW, Mode::empty()).ok(),
        opened => opened.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::HiddenPath;

    #[test]
    fn only_the_named_folders_and_devices_are_writable() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, hidden) = (top.join("tree"), top.join("hidden"));
        let shown = hidden.join("shown");
        for folder in [&tree, &hidden, &shown] {
            std::fs::create_dir(folder).unwrap();
        }
        let policy = SandboxPolicy {
            writable: vec![tree.clone()],
            hidden: vec![HiddenPath { path: hidden.clone(), is_folder: true }],
            shown: vec![shown.clone()],
            ..SandboxPolicy::default()
        };
        let rules = list_rules(&policy);
        let of = |wanted: BitFlags<AccessFs>| {
            let given = rules.iter().filter(|(_, access)| access.intersects(wanted));
            given.map(|(path, _)| path.clone()).collect::<Vec<_>>()
        };
        let devices = DEVICES.iter().map(PathBuf::from);
        let expect: Vec<PathBuf> = devices.chain([tree.clone()]).collect();
        assert_eq!(of(AccessFs::from_write(LANDLOCK)), expect);
        let read = of(AccessFs::from_read(LANDLOCK));
        assert!(read.iter().any(|path| tree.starts_with(path)));
        assert!(!read.iter().any(|path| hidden.starts_with(path)) && read.contains(&shown));
    }
}
