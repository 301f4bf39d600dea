//! Opens a file for writing, within the write boundary.
//!
//! The folder of the file is opened first, and its true path is checked against the boundary. From then on only that
//! open folder and one plain name in it are used: changes of the path meanwhile do not matter.

use super::boundary::{Boundary, in_repository_data, is_git};
use super::durable::sync_names;
use super::file_error::FileError;
use super::file_stamp::FileStamp;
use super::names::expand_home;
use conversation::format::harmless::quote_name;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The flags for opening a folder as a base for paths.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The flags for opening a file in an open folder: no link is followed, and a FIFO does not block.
pub(super) const READ_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A file that may be written: its folder, which is open, and its name there.
#[derive(Debug)]
pub struct Opened {
    /// The nearest folder that exists.
    pub(super) dir: OwnedFd,
    /// The folders between that one and the file, to be created when the file is written.
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
    pub(super) old: Option<(File, Stat)>,
    /// Whether it is the file of the conversation: that is written in place, so that its hard links stay one file.
    pub(super) is_target: bool,
    /// Whether a new file can be executed.
    pub executable: bool,
}

impl Opened {
    /// The true path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file exists already.
    pub fn exists(&self) -> bool {
        self.old.is_some()
    }

    /// The size of the file when it was opened; 0 if it does not exist.
    pub fn bytes(&self) -> u64 {
        self.old.as_ref().map_or(0, |(_, stat)| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Whether the file has no content that a write could replace.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether the file has several hard links.
    pub fn is_linked(&self) -> bool {
        self.other_names() > 0
    }

    #[expect(clippy::useless_conversion, reason = "the number is narrower on other systems")]
    fn other_names(&self) -> u64 {
        self.old.as_ref().map_or(0, |(_, stat)| u64::from(stat.st_nlink).saturating_sub(1))
    }

    /// Makes a write separate this name from the other hard links, as for a file that is not that of the conversation.
    pub fn part_links(&mut self) {
        self.is_target = false;
    }

    /// Counts the names that keep the old content when this file is written: none for the target, which is written in
    /// place.
    pub(crate) fn count_other_links(&self) -> u64 {
        if self.is_target { 0 } else { self.other_names() }
    }

    pub(super) fn create_folders(&mut self) -> Result<(), FileError> {
        for name in std::mem::take(&mut self.missing) {
            match rustix::fs::mkdirat(&self.dir, &name, Mode::from_raw_mode(0o755)) {
                // A synced file is lost if the name of its new folder is not synced.
                Ok(()) => sync_names(&self.dir)
                    .map_err(|error| FileError::from_io("sync the folder of", &self.path, error))?,
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(FileError::from_io("create the folder of", &self.path, errno));
                }
            }
            self.dir =
                rustix::fs::openat(&self.dir, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(|errno| match errno {
                        Errno::LOOP | Errno::NOTDIR => {
                            link_refusal(&self.path, "to a missing folder")
                        }
                        errno => FileError::from_io("open the folder of", &self.path, errno),
                    })?;
        }
        Ok(())
    }
}

impl Boundary {
    /// Opens a file for writing, or says why it may not be written. Nothing is created yet, no missing folder either.
    ///
    /// The path may start with `~`, is relative to the run's folder, and may contain links: the boundary applies to the
    /// target.
    pub fn open_for_write(&self, asked: &Path) -> Result<Opened, FileError> {
        let mut path = self.absolute(asked)?;
        // The kernel's own limit of symbolic links in a row.
        for _ in 0..40 {
            match self.open_name(asked, &path)? {
                Ok(opened) => return Ok(opened),
                Err(target) => path = target,
            }
        }
        Err(FileError::from_io("open", asked, Errno::LOOP))
    }

    /// The absolute path, still with its links and `..`.
    pub(super) fn absolute(&self, asked: &Path) -> Result<PathBuf, FileError> {
        let bytes = asked.as_os_str().as_bytes();
        let wrong = |why| Err(no_file_path(asked, why));
        if bytes.is_empty() {
            return wrong("it is empty");
        }
        if bytes.contains(&0) {
            return wrong("it contains a NUL byte");
        }
        if bytes.ends_with(b"/") || bytes.ends_with(b"/.") || matches!(bytes, b"." | b"~") {
            return Err(FileError::is_folder(asked, "name a file in it"));
        }
        if bytes.starts_with(b"~") && (!bytes.starts_with(b"~/") || self.home.is_none()) {
            return wrong("only ~/ is expanded; write ./~… for a name that starts with ~");
        }
        Ok(self.cwd.join(expand_home(asked, self.home.as_deref())))
    }

    /// Opens the last component of an absolute path. If that is a link, returns the path of its target; if it was
    /// replaced meanwhile, returns the same path to try again: many programs save a file by renaming a new one.
    fn open_name(&self, asked: &Path, path: &Path) -> Result<Result<Opened, PathBuf>, FileError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(FileError::is_folder(asked, "name a file in it"));
        };
        if path.components().any(|part| is_git(part.as_os_str())) {
            return Err(in_repository_data(asked));
        }
        let (dir, folder, missing) = open_folder(asked, parent)?;
        let path = missing.iter().fold(folder.clone(), |path, name| path.join(name)).join(name);
        let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            _ if !missing.is_empty() => None,
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(FileError::from_io("look at", asked, errno)),
        };
        if let Some(stat) = &stat {
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Symlink {
                return follow_link(&dir, &folder, name, stat).map(Err);
            }
            FileError::check_regular(asked, kind, || "name a file in it".to_owned())?;
        }
        self.permit(asked, &folder, &path, stat.as_ref())?;
        let old = stat.map(|stat| open_file(asked, &dir, name, &stat)).transpose()?;
        if old.as_ref().is_some_and(Option::is_none) {
            return Ok(Err(path));
        }
        let old = old.flatten();
        let is_target = old.as_ref().is_some_and(|(_, stat)| self.is_target(stat));
        let name = name.to_owned();
        Ok(Ok(Opened { dir, missing, name, path, old, is_target, executable: false }))
    }
}

/// Opens a file that was found in a folder, and checks that it may be written. `None` if it was replaced meanwhile.
fn open_file(
    asked: &Path,
    dir: &OwnedFd,
    name: &OsStr,
    found: &Stat,
) -> Result<Option<(File, Stat)>, FileError> {
    let file = rustix::fs::openat(dir, name, READ_FILE, Mode::empty())
        .map_err(|errno| FileError::from_io("open", asked, errno))?;
    let stat =
        rustix::fs::fstat(&file).map_err(|errno| FileError::from_io("look at", asked, errno))?;
    if !FileStamp::from(found).same_file(&FileStamp::from(&stat)) {
        return Ok(None);
    }
    let writable = rustix::fs::accessat(dir, name, rustix::fs::Access::WRITE_OK, AtFlags::empty());
    let mode = Mode::from_raw_mode(stat.st_mode);
    // Nothing is read-only to root, but a file without any write bit is meant to stay unchanged.
    let has_bit = mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH);
    if writable.is_err() || !has_bit {
        let problem = format!("{} is read-only (mode {:04o})", quote_name(asked), mode.bits());
        let advice = "if it is meant to be changed, and yours, run `chmod u+w` on it first";
        return Err(FileError::new(problem, advice));
    }
    Ok(Some((File::from(file), stat)))
}

/// Opens the folder of a file, or the nearest that exists, and returns its true path and the names of the missing
/// folders.
pub fn open_folder(
    asked: &Path,
    parent: &Path,
) -> Result<(OwnedFd, PathBuf, Vec<OsString>), FileError> {
    let failed = |error: io::Error| FileError::from_io("open the folder of", asked, error);
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = parent;
    let dir = loop {
        match rustix::fs::open(existing, FOLDER, Mode::empty()) {
            Ok(dir) => break dir,
            Err(Errno::NOENT) => {
                let (Some(up), Some(name)) = (existing.parent(), existing.file_name()) else {
                    let why = "it goes up with .. from a folder that does not exist";
                    return Err(no_file_path(asked, why));
                };
                missing.push(name.to_owned());
                existing = up;
            }
            Err(errno) => return Err(failed(errno.into())),
        }
    };
    let folder = true_path(&dir, existing).map_err(failed)?;
    missing.reverse();
    if let Some(name) = missing.first()
        && rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    {
        return Err(link_refusal(&folder.join(name), "to a missing folder"));
    }
    Ok((dir, folder, missing))
}

fn no_file_path(path: &Path, why: &str) -> FileError {
    FileError::new(format!("the path {} cannot be written: {why}", quote_name(path)), "")
}

fn link_refusal(link: &Path, why: &str) -> FileError {
    let problem = format!("{} is a symbolic link {why}, which is not followed", quote_name(link));
    FileError::new(problem, "name the file itself")
}

fn follow_link(
    dir: &OwnedFd,
    folder: &Path,
    name: &OsStr,
    link: &Stat,
) -> Result<PathBuf, FileError> {
    let path = folder.join(name);
    let failed = |errno: Errno| FileError::from_io("follow the link", &path, errno);
    // As in the kernel, in folders like /tmp the links of other users are not followed.
    let holder = rustix::fs::statat(dir, ".", AtFlags::empty()).map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    if Mode::from_raw_mode(holder.st_mode).contains(Mode::SVTX | Mode::WOTH)
        && ![own, holder.st_uid].contains(&link.st_uid)
    {
        return Err(link_refusal(&path, "of another user in a shared folder"));
    }
    let target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(failed)?;
    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if target.as_os_str().as_bytes().ends_with(b"/") {
        return Err(FileError::is_folder(&path, "name a file in it"));
    }
    Ok(folder.join(target))
}

/// The path of an open folder, after a check that it leads back to that folder.
pub fn true_path(dir: &OwnedFd, opened_as: &Path) -> io::Result<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    // Without procfs, use the path by which it was opened.
    let path = path.or_else(|_| fs::canonicalize(opened_as))?;
    let here = rustix::fs::fstat(dir)?;
    match rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if FileStamp::from(&here).same_file(&FileStamp::from(&there)) => Ok(path),
        _ => Err(io::Error::other("the folder was moved or removed meanwhile")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::boundary::tests::{OUTSIDE, world};
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn containment_is_by_folder_and_not_by_prefix() {
        let world = world();
        world.file("in/old");
        world.opens("in/new", "in/new");
        world.opens("in/old", "in/old");
        world.opens("in/../in//./x", "in/x");
        world.opens("out/../in/x", "in/x");
        world.denies("in-evil/x", OUTSIDE);
        world.denies("out/x", OUTSIDE);
        world.denies("in/../out/x", OUTSIDE);
        world.denies("new", OUTSIDE);
        world.denies("/etc/passwd", OUTSIDE);
        world.denies("out/x", "no such file; to create it: ");
        world.denies("out/x", "<nagent-conversation file=");
        world.denies("nowhere/x", "there is no such folder; relative paths start in ");
        assert!(!world.at("out/x").exists() && !world.at("in/new").exists());
    }

    #[test]
    fn paths_are_relative_to_the_runs_folder_and_home_is_expanded() {
        let mut world = world();
        world.boundary.allow_folder(Path::new("~")).unwrap();
        let path =
            |asked: &str| world.boundary.open_for_write(Path::new(asked)).map(|opened| opened.path);
        assert_eq!(path("../in/x").unwrap(), world.at("in/x"));
        assert_eq!(path("~/x").unwrap(), world.at("home/x"));
        let check = |asked: &str, expect: &str| {
            let denied = path(asked).unwrap_err().for_model();
            assert!(denied.contains(expect), "{denied}");
        };
        check("~user/x", "only ~/ is expanded");
        check("", "it is empty");
        check("../in/a\0b", "NUL byte");
        check("../in/", "is a folder");
        check("../in/.", "is a folder");
        check("../in/..", "is a folder");
        check("/", "is a folder");
        check(".", "is a folder");
        check(&"x/".repeat(3_000), "is a folder");
        check(&format!("../in/{}y", "x/".repeat(3_000)), "too long");
        assert!(world.boundary.allow_folder(Path::new("nowhere")).is_err());
    }

    #[test]
    fn a_file_in_missing_folders_is_opened_within_the_boundary_only() {
        let world = world();
        world.opens("in/a/b/c", "in/a/b/c");
        assert!(!world.at("in/a").exists(), "they are created when the file is written");
        world.denies("out/a/b", OUTSIDE);
        world.denies("in/.git/a/b", ".git");
        world.denies("in/new/../x", "it goes up with ..");
        assert!(
            !world.at("out/a").exists()
                && !world.at("in/.git").exists()
                && !world.at("in/new").exists()
        );
    }

    #[test]
    fn links_count_by_where_they_lead() {
        let world = world();
        world.file("out/secret");
        world.file("in/file");
        for (target, link) in [
            ("../out/secret", "in/link"),
            ("../out", "in/folder"),
            ("/proc/self/root", "in/top"),
            ("../out/new", "in/dangling"),
            ("../out/no", "in/nofolder"),
            ("loop", "in/loop"),
            ("../in/file", "out/inward"),
            ("made", "in/inner"),
            ("..", "in/up"),
            ("x/", "in/slash"),
        ] {
            symlink(target, world.at(link)).unwrap();
        }
        world.denies("in/link", OUTSIDE);
        world.denies("in/link", "which is ");
        world.denies("in/folder/x", OUTSIDE);
        world.denies(format!("in/top{}", world.at("out/x").display()), OUTSIDE);
        world.denies("in/dangling", OUTSIDE);
        world.denies("in/nofolder/x", "to a missing folder");
        world.denies("in/loop", "cannot open");
        world.denies("in/up", "is a folder");
        world.denies("in/slash", "is a folder");
        world.denies("/proc/self/cwd/x", OUTSIDE);
        world.opens("out/inward", "in/file");
        world.opens("in/inner", "in/made");
        assert_eq!(fs::read_to_string(world.at("out/secret")).unwrap(), "old");
        assert!(!world.at("out/new").exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_of_another_user_in_a_shared_folder_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, lchown};
        let world = world();
        fs::create_dir(world.at("in/shared")).unwrap();
        fs::set_permissions(world.at("in/shared"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink("../target", world.at("in/shared/link")).unwrap();
        world.opens("in/shared/link", "in/target");
        // Only root can give a link away.
        if rustix::process::geteuid().is_root() {
            lchown(world.at("in/shared/link"), Some(12_345), None).unwrap();
            world.denies("in/shared/link", "of another user");
        }
    }

    #[test]
    fn only_regular_writable_files_are_opened() {
        use std::os::unix::fs::PermissionsExt;
        let world = world();
        rustix::fs::mknodat(
            CWD,
            world.at("in/fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(world.at("in/socket")).unwrap();
        fs::set_permissions(world.file("in/read-only"), fs::Permissions::from_mode(0o444)).unwrap();
        world.denies("in/fifo", "is a FIFO");
        world.denies("in/socket", "is a socket");
        world.denies("in/read-only", "is read-only (mode 0444)");
        world.denies("in/read-only/x", "cannot open the folder");
        fs::create_dir(world.at("in/folder")).unwrap();
        world.denies("in/folder", "is a folder");
    }
}
