//! The write boundary: which files the write tags may touch, and opening one of them.
//!
//! A path is text, and what it leads to can change between a look and a write. So the folder of the file is
//! opened, the true path of what was opened is compared with the boundary, and everything after that goes
//! through the open folder and one plain name. Policy comes from the user's flags and environment alone;
//! nothing here reads a policy from the working tree, and nothing widens it later.
//!
//! Who may write what:
//!
//! ```text
//! main conversation        /tmp, /var/tmp, $TMPDIR unless it holds the home folder or the working tree
//! per-file conversation    its target
//! both                     --write folders, this conversation's own splits
//! nobody                   anything in a .git or a folder that git would take for one; nagent's root,
//!                          but for the splits and a target that the user named
//! ```

use super::names::{expand_home, hint, shown};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// How many symbolic links in a row are resolved for a last component; the kernel's own limit.
const LINKS: usize = 40;

/// How a folder is opened only to stand on it.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The folders that a boundary is made from.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The run's folder; relative paths start here.
    pub cwd: &'a Path,
    /// The git toplevel of `cwd`, if any.
    pub toplevel: Option<&'a Path>,
    /// The home folder, if any.
    pub home: Option<&'a Path>,
    /// nagent's own root folder.
    pub root: &'a Path,
    /// The value of `TMPDIR`, if set.
    pub tmpdir: Option<&'a OsStr>,
}

/// Which files may be written.
#[derive(Debug)]
pub struct Boundary {
    cwd: PathBuf,
    home: Option<PathBuf>,
    /// Folders, by their true path, in and below which files may be written.
    roots: Vec<PathBuf>,
    target: Option<Target>,
    /// nagent's root, by its true path.
    forbidden: PathBuf,
    /// Folders within `forbidden` that may be written.
    allowed: Vec<PathBuf>,
}

/// The file of a per-file conversation.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    /// Held open, so that its inode cannot be given to another file: device and inode are then an identity,
    /// and its birth time need not be asked.
    handle: Option<(File, Stat)>,
    /// The target is being opened for the first time: it is whatever its path leads to.
    is_new: bool,
}

/// A file that may be written, by the folder that was opened and its name in there.
#[derive(Debug)]
pub struct Opened {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
    pub(super) old: Option<(File, Stat)>,
}

impl Opened {
    /// The true path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is such a file already.
    pub fn exists(&self) -> bool {
        self.old.is_some()
    }
}

/// Why a file is not written, with what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Not within the boundary.
    #[error("{path}{resolved} is outside of the write boundary: {may}; {instead}")]
    Outside {
        /// The path that was asked for.
        path: String,
        /// ` (which is …)` where the true path is another.
        resolved: String,
        /// What this conversation may write.
        may: String,
        /// The way that there is.
        instead: String,
    },
    /// In a repository's own folder.
    #[error(
        "{path} is part of a repository's own data (.git), which no tag writes; use git itself in <nagent-shell>"
    )]
    Git {
        /// The path that was asked for.
        path: String,
    },
    /// In nagent's root.
    #[error(
        "{path} is in nagent's own folder {root}, which no tag writes; put the file elsewhere, for example in /tmp"
    )]
    Root {
        /// The path that was asked for.
        path: String,
        /// nagent's root.
        root: String,
    },
    /// A folder.
    #[error("{path} is a folder; name a file in it")]
    Folder {
        /// The path that was asked for.
        path: String,
    },
    /// A FIFO, a socket or a device.
    #[error("{path} is a {kind}; only regular files are written")]
    Special {
        /// The path that was asked for.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Nobody, or not this user, may write the file.
    #[error(
        "{path} is read-only (mode {mode:04o}); if it is meant to be changed, `chmod u+w` it in <nagent-shell> first"
    )]
    ReadOnly {
        /// The path that was asked for.
        path: String,
        /// Its permission bits.
        mode: rustix::fs::RawMode,
    },
    /// A symbolic link that is not followed.
    #[error("{path} is a symbolic link {why}, which is not followed; name the file itself")]
    Link {
        /// The link.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path that cannot be a file's.
    #[error("the path {path} cannot be written: {why}")]
    Path {
        /// The path that was asked for.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file or its folder is no longer what was opened.
    #[error(
        "{path} was changed or replaced by something else meanwhile, so it was not written; read it again first"
    )]
    Changed {
        /// The path that was asked for.
        path: String,
    },
    /// There is no such file to edit.
    #[error("no such file: {path}{hint}; use <nagent-write> to make a new one")]
    Missing {
        /// The path that was asked for.
        path: String,
        /// What is near, or nothing.
        hint: String,
    },
    /// Too large to edit.
    #[error(
        "{path} has {bytes} bytes, more than the {limit} that are edited as a whole; use `sed` in <nagent-shell>"
    )]
    TooLarge {
        /// The path that was asked for.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The previous content could not be kept, so the file was left alone.
    #[error("{path} was left as it is, since its previous content could not be kept: {source:#}")]
    Keep {
        /// The file.
        path: String,
        /// What went wrong.
        source: anyhow::Error,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Denied {
    pub(super) fn io(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: shown(path), source: source.into() }
    }
}

impl Boundary {
    /// The boundary of a main conversation: the temp folders. The notes say which folder is not one and why.
    pub fn for_main(places: Places<'_>) -> (Self, Vec<String>) {
        let mut boundary = Self::empty(places);
        for folder in ["/tmp", "/var/tmp"] {
            boundary.add_root(settled(Path::new(folder)));
        }
        let notes = match boundary.tmpdir(places) {
            Ok(None) => Vec::new(),
            Ok(Some(folder)) => {
                boundary.add_root(folder);
                Vec::new()
            }
            Err(why) => {
                let tmpdir = shown(places.tmpdir.unwrap_or_default());
                vec![format!("TMPDIR ({tmpdir}) is no folder that may be written: {why}")]
            }
        };
        (boundary, notes)
    }

    /// The boundary of a file's own conversation: that file, by its true path, and while it is the same file
    /// also where it was moved to. It need not exist yet.
    pub fn for_file(places: Places<'_>, target: &Path) -> Result<Self, Denied> {
        let mut boundary = Self::empty(places);
        let path = settled(&boundary.absolute(target)?);
        // Folders that are missing are made when something is written, not before.
        let folder = path.parent().unwrap_or(&path);
        boundary.target = Some(Target { path: path.clone(), handle: None, is_new: true });
        boundary.target = Some(if folder.is_dir() {
            let opened = boundary.open_for_write(&path)?;
            Target { path: opened.path, handle: opened.old, is_new: false }
        } else {
            boundary.permit(target, folder, &path, None)?;
            Target { path, handle: None, is_new: false }
        });
        Ok(boundary)
    }

    /// Adds a folder that the user named with `--write`.
    pub fn allow_folder(&mut self, folder: &Path) -> Result<(), Denied> {
        let path = self.cwd.join(expand_home(folder, self.home.as_deref()));
        let path = fs::canonicalize(&path)
            .map_err(|error| Denied::io("use as a folder to write in", folder, error))?;
        if !path.is_dir() {
            return Err(Denied::io("use as a folder to write in", folder, Errno::NOTDIR));
        }
        self.add_root(path);
        Ok(())
    }

    /// Adds a folder of nagent's root, for this conversation's own splits. It need not exist yet.
    pub fn allow_splits(&mut self, folder: &Path) {
        let folder = settled(&self.cwd.join(folder));
        self.allowed.push(folder.clone());
        self.add_root(folder);
    }

    /// Notes which file the target is now, after it was replaced.
    pub fn renew_target(&mut self) {
        if let Some(path) = self.target.as_ref().map(|target| target.path.clone())
            && let Ok(opened) = self.open_for_write(&path)
            && let Some(target) = &mut self.target
        {
            target.handle = opened.old;
        }
    }

    /// One line for a prompt or an error: what may be written.
    pub fn describe(&self) -> String {
        let mut may: Vec<String> = Vec::new();
        may.extend(self.target.iter().map(|target| shown(&target.path)));
        may.extend(self.roots.iter().map(|root| format!("{}/", shown(root).trim_end_matches('/'))));
        if may.is_empty() {
            return "this conversation writes no files".to_owned();
        }
        format!("this conversation writes {} and nothing else", may.join(", "))
    }

    /// Opens a file for writing, or says why it may not be written. Missing folders within the boundary are made.
    ///
    /// The path may start with `~`, is relative to the run's folder, and may lead through symbolic links: what counts
    /// is where it leads.
    pub fn open_for_write(&self, asked: &Path) -> Result<Opened, Denied> {
        let mut path = self.absolute(asked)?;
        for _ in 0..LINKS {
            match self.open_name(asked, &path)? {
                Step::Opened(opened) => return Ok(opened),
                Step::Link(target) => path = target,
            }
        }
        Err(Denied::io("open", asked, Errno::LOOP))
    }

    fn empty(places: Places<'_>) -> Self {
        Self {
            cwd: places.cwd.to_owned(),
            home: places.home.map(Path::to_owned),
            roots: Vec::new(),
            target: None,
            forbidden: settled(&places.cwd.join(places.root)),
            allowed: Vec::new(),
        }
    }

    fn add_root(&mut self, folder: PathBuf) {
        if !self.roots.contains(&folder) {
            self.roots.push(folder);
        }
    }

    /// The folder that `TMPDIR` names, unless it would make more writable than temporary files.
    fn tmpdir(&self, places: Places<'_>) -> Result<Option<PathBuf>, &'static str> {
        let Some(tmpdir) = places.tmpdir.filter(|tmpdir| !tmpdir.is_empty()) else {
            return Ok(None);
        };
        let tmpdir = Path::new(tmpdir);
        if !tmpdir.is_absolute() {
            return Err("it is a relative path");
        }
        let Ok(tmpdir) = fs::canonicalize(tmpdir) else { return Err("there is no such folder") };
        if !tmpdir.is_dir() {
            return Err("it is no folder");
        }
        if self.roots.iter().any(|root| tmpdir.starts_with(root)) {
            return Ok(None);
        }
        let holds = |folder: Option<&Path>| {
            folder.is_some_and(|folder| settled(folder).starts_with(&tmpdir))
        };
        if tmpdir.parent().is_none() {
            Err("it is the root of the file system")
        } else if holds(places.home) {
            Err("it holds the home folder")
        } else if holds(Some(places.cwd)) || holds(places.toplevel) {
            Err("it holds the working tree")
        } else if self.forbidden.starts_with(&tmpdir) {
            Err("it holds nagent's own folder")
        } else {
            Ok(Some(tmpdir))
        }
    }

    /// The path from `/` on, still with its links and `..`.
    fn absolute(&self, asked: &Path) -> Result<PathBuf, Denied> {
        let bytes = asked.as_os_str().as_bytes();
        let wrong = |why| Err(Denied::Path { path: shown(asked), why });
        if bytes.is_empty() {
            return wrong("it is empty");
        }
        if bytes.contains(&0) {
            return wrong("it holds a NUL byte");
        }
        if bytes.ends_with(b"/") || bytes.ends_with(b"/.") || matches!(bytes, b"." | b"~") {
            return Err(Denied::Folder { path: shown(asked) });
        }
        if bytes.starts_with(b"~") && (!bytes.starts_with(b"~/") || self.home.is_none()) {
            return wrong(
                "only ~/ stands for a home folder; a name that starts with ~ is written ./~…",
            );
        }
        Ok(self.cwd.join(expand_home(asked, self.home.as_deref())))
    }

    /// Opens the last component of an absolute path, if it is no link.
    fn open_name(&self, asked: &Path, path: &Path) -> Result<Step, Denied> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Denied::Folder { path: shown(asked) });
        };
        if path.components().any(|part| is_git(part.as_os_str())) {
            return Err(Denied::Git { path: shown(asked) });
        }
        let (dir, folder) = self.open_folder(asked, parent, name)?;
        let path = folder.join(name);
        let permit = |stat: Option<&Stat>| self.permit(asked, &folder, &path, stat);
        let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                permit(None)?;
                return Ok(Step::Opened(Opened { dir, name: name.to_owned(), path, old: None }));
            }
            Err(errno) => return Err(Denied::io("look at", asked, errno)),
        };
        let special = |kind| Err(Denied::Special { path: shown(asked), kind });
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return follow(&dir, &folder, name, &stat).map(Step::Link),
            FileType::Directory => return Err(Denied::Folder { path: shown(asked) }),
            FileType::Fifo => return special("FIFO"),
            FileType::Socket => return special("socket"),
            _ => return special("device"),
        }
        permit(Some(&stat))?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, name, flags, Mode::empty())
            .map_err(|errno| Denied::io("open", asked, errno))?;
        let opened =
            rustix::fs::fstat(&file).map_err(|errno| Denied::io("look at", asked, errno))?;
        if !same(&stat, &opened) {
            return Err(Denied::Changed { path: shown(asked) });
        }
        let writable =
            rustix::fs::accessat(&dir, name, rustix::fs::Access::WRITE_OK, AtFlags::empty());
        let mode = Mode::from_raw_mode(opened.st_mode);
        // Nothing is read-only to root, but a file without any write bit is meant to stay.
        if writable.is_err() || !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH) {
            return Err(Denied::ReadOnly { path: shown(asked), mode: mode.bits() });
        }
        let old = Some((File::from(file), opened));
        Ok(Step::Opened(Opened { dir, name: name.to_owned(), path, old }))
    }

    /// Opens the folder of a file and finds its true path. What is missing is made, if the file may be written.
    fn open_folder(
        &self,
        asked: &Path,
        parent: &Path,
        name: &OsStr,
    ) -> Result<(OwnedFd, PathBuf), Denied> {
        let failed = |errno: Errno| Denied::io("open the folder of", asked, errno);
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut existing = parent;
        let mut dir = loop {
            match rustix::fs::open(existing, FOLDER, Mode::empty()) {
                Ok(dir) => break dir,
                Err(Errno::NOENT) => match (existing.parent(), existing.file_name()) {
                    (Some(up), Some(name)) => {
                        missing.push(name);
                        existing = up;
                    }
                    _ => {
                        return Err(Denied::Path {
                            path: shown(asked),
                            why: "it goes up with .. from a folder that does not exist",
                        });
                    }
                },
                Err(errno) => return Err(failed(errno)),
            }
        };
        let mut folder = true_path(&dir, existing)
            .map_err(|error| Denied::io("open the folder of", asked, error))?;
        missing.reverse();
        if !missing.is_empty() {
            let whole = missing.iter().fold(folder.clone(), |path, name| path.join(name));
            self.permit(asked, &folder, &whole.join(name), None)?;
        }
        for name in missing {
            match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(Denied::io("make the folder of", asked, errno)),
            }
            folder.push(name);
            dir = rustix::fs::openat(&dir, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| match errno {
                    Errno::LOOP | Errno::NOTDIR => {
                        Denied::Link { path: shown(&folder), why: "to a missing folder" }
                    }
                    errno => failed(errno),
                })?;
        }
        Ok((dir, folder))
    }

    /// Whether the file `path`, in the existing folder `folder` and both by their true paths, may be written.
    fn permit(
        &self,
        asked: &Path,
        folder: &Path,
        path: &Path,
        stat: Option<&Stat>,
    ) -> Result<(), Denied> {
        if path.components().any(|part| is_git(part.as_os_str()))
            || folder.ancestors().any(is_git_folder)
        {
            return Err(Denied::Git { path: shown(asked) });
        }
        if self.target.as_ref().is_some_and(|target| target.is_at(path, stat)) {
            return Ok(());
        }
        if path.starts_with(&self.forbidden)
            && !self.allowed.iter().any(|folder| path.starts_with(folder))
        {
            return Err(Denied::Root { path: shown(asked), root: shown(&self.forbidden) });
        }
        let was_moved = || self.target.as_ref().is_some_and(|target| target.was_moved(stat));
        if self.roots.iter().any(|root| path != root && path.starts_with(root)) || was_moved() {
            return Ok(());
        }
        let resolved = if self.cwd.join(asked) == path {
            String::new()
        } else {
            format!(" (which is {})", shown(path))
        };
        let file = attribute(&shown(path));
        let way =
            format!("<nagent-conversation file=\"{file}\">what to change</nagent-conversation>");
        let instead = match &self.target {
            None => format!("a project file is changed in its own conversation: {way}"),
            Some(target) if target.path == path => {
                "what is there now is another file with several hard links; ask the user to look at it".to_owned()
            }
            Some(_) => format!("another file has a conversation of its own: {way}"),
        };
        Err(Denied::Outside { path: shown(asked), resolved, may: self.describe(), instead })
    }
}

enum Step {
    Opened(Opened),
    Link(PathBuf),
}

impl Target {
    /// Whether the file at a path is the target. One with several hard links is written in place, so it must be the
    /// very file that was opened: a link planted at the target's path would carry the write elsewhere. One with a
    /// single link may be another file than it was, as an editor saved it.
    fn is_at(&self, path: &Path, stat: Option<&Stat>) -> bool {
        self.is_new
            || path == self.path && stat.is_none_or(|stat| stat.st_nlink <= 1 || self.is_same(stat))
    }

    /// Whether a file, wherever it is, is the one that was opened, and has no other name.
    fn was_moved(&self, stat: Option<&Stat>) -> bool {
        stat.is_some_and(|stat| stat.st_nlink <= 1 && self.is_same(stat))
    }

    fn is_same(&self, stat: &Stat) -> bool {
        self.handle.as_ref().is_some_and(|(_, known)| same(known, stat))
    }
}

/// Device and inode; one file as long as one of the two is held open.
pub(super) fn same(a: &Stat, b: &Stat) -> bool {
    a.st_dev == b.st_dev && a.st_ino == b.st_ino
}

fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// What git takes for a repository's own folder, whatever its name: bare ones, and those that a `.git` file names.
fn is_git_folder(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join("HEAD")).is_ok()
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
}

/// Where a last component that is a link leads to.
fn follow(dir: &OwnedFd, folder: &Path, name: &OsStr, link: &Stat) -> Result<PathBuf, Denied> {
    let path = folder.join(name);
    let failed = |errno: Errno| Denied::io("follow the link", &path, errno);
    // As the kernel does it in folders like /tmp: what another user planted there is not followed.
    let holder = rustix::fs::statat(dir, ".", AtFlags::empty()).map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    if Mode::from_raw_mode(holder.st_mode).contains(Mode::SVTX | Mode::WOTH)
        && ![own, holder.st_uid].contains(&link.st_uid)
    {
        return Err(Denied::Link { path: shown(&path), why: "of another user in a shared folder" });
    }
    let target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(failed)?;
    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if target.as_os_str().as_bytes().ends_with(b"/") {
        return Err(Denied::Folder { path: shown(&path) });
    }
    Ok(folder.join(target))
}

/// The path of an open folder, checked to lead back to it.
pub(super) fn true_path(dir: &OwnedFd, opened_as: &Path) -> io::Result<PathBuf> {
    let path = match path_of(dir) {
        Some(path) => path,
        None => fs::canonicalize(opened_as)?,
    };
    let here = rustix::fs::fstat(dir)?;
    match rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if same(&here, &there) => Ok(path),
        _ => Err(io::Error::other("the folder was moved or removed meanwhile")),
    }
}

#[cfg(target_os = "linux")]
fn path_of(dir: &OwnedFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))
        .ok()
        .filter(|path| path.is_absolute())
}

#[cfg(not(target_os = "linux"))]
fn path_of(_: &OwnedFd) -> Option<PathBuf> {
    None
}

/// The path with all links resolved as far as it exists; what does not exist is taken as it is written.
fn settled(path: &Path) -> PathBuf {
    let mut missing: Vec<Component<'_>> = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(mut settled) = fs::canonicalize(existing) {
            settled.extend(missing.iter().rev());
            return settled;
        }
        match (existing.parent(), existing.components().next_back()) {
            (Some(up), Some(last)) => {
                missing.push(last);
                existing = up;
            }
            _ => return path.to_owned(),
        }
    }
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An error about a file that is to be edited and is not there.
pub(super) fn missing(path: &Path) -> Denied {
    Denied::Missing { path: shown(path), hint: hint(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder `in` that may be written, `out` that may not, and `root` as nagent's own.
    struct World {
        _dir: TempDir,
        top: PathBuf,
        boundary: Boundary,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in ["in", "out", "root/splits/s", "in-evil", "home"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        let (cwd, root, home) = (top.join("out"), top.join("root"), top.join("home"));
        let places =
            Places { cwd: &cwd, toplevel: None, home: Some(&home), root: &root, tmpdir: None };
        let mut boundary = Boundary::empty(places);
        boundary.add_root(top.join("in"));
        World { _dir: dir, top, boundary }
    }

    impl World {
        fn at(&self, path: &str) -> PathBuf {
            self.top.join(path)
        }

        fn file(&self, path: &str) -> PathBuf {
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            fs::write(self.at(path), "old").unwrap();
            self.at(path)
        }

        #[track_caller]
        fn opens(&self, path: impl AsRef<Path>, expect: &str) {
            let opened = self.boundary.open_for_write(&self.top.join(path)).unwrap();
            assert_eq!(opened.path(), self.at(expect));
        }

        #[track_caller]
        fn denies(&self, path: impl AsRef<Path>, expect: &str) {
            let denied =
                self.boundary.open_for_write(&self.top.join(path)).unwrap_err().to_string();
            assert!(denied.contains(expect), "{denied}");
        }

        fn for_file(&mut self, target: &str) -> Result<(), Denied> {
            let (cwd, root, home) = (self.at("out"), self.at("root"), self.at("home"));
            let places =
                Places { cwd: &cwd, toplevel: None, home: Some(&home), root: &root, tmpdir: None };
            self.boundary = Boundary::for_file(places, &self.at(target))?;
            Ok(())
        }
    }

    const OUTSIDE: &str = "is outside of the write boundary";

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
        world.denies("out/x", "<nagent-conversation file=");
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
            let denied = path(asked).unwrap_err().to_string();
            assert!(denied.contains(expect), "{denied}");
        };
        check("~user/x", "only ~/ stands for");
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
    fn missing_folders_are_made_within_the_boundary_only() {
        let world = world();
        world.opens("in/a/b/c", "in/a/b/c");
        assert!(world.at("in/a/b").is_dir());
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
    fn a_repositorys_own_data_is_never_written() {
        let world = world();
        world.file("in/repo/.git/hooks/x");
        for folder in ["bare.git/objects", "bare.git/refs", "bare.git/hooks"] {
            fs::create_dir_all(world.at("in").join(folder)).unwrap();
        }
        world.file("in/bare.git/HEAD");
        symlink(".git", world.at("in/repo/data")).unwrap();
        symlink("../elsewhere", world.at("in/repo2")).unwrap();
        for path in [
            "in/repo/.git/config",
            "in/repo/.git/hooks/x",
            "in/repo/.GIT/new",
            "in/repo/data/config",
            "in/new/.git",
            "in/bare.git/hooks/x",
            "in/bare.git/config",
        ] {
            world.denies(path, "repository's own data");
        }
        world.opens("in/repo/.gitignore", "in/repo/.gitignore");
        world.opens("in/x.git/y", "in/x.git/y");
    }

    #[test]
    fn nagents_root_is_never_written_but_for_what_was_allowed() {
        let mut world = world();
        world.boundary.add_root(world.top.clone());
        world.denies("root/config.json", "nagent's own folder");
        world.denies("root/conversations/new", "nagent's own folder");
        symlink("../root", world.at("in/link")).unwrap();
        world.denies("in/link/x", "nagent's own folder");
        world.boundary.allow_splits(&world.at("root/splits/s"));
        world.opens("root/splits/s/1.txt", "root/splits/s/1.txt");
        world.denies("root/splits/s2/1.txt", "nagent's own folder");
        world.for_file("root/context.md").unwrap();
        world.opens("root/context.md", "root/context.md");
        world.denies("root/config.json", "nagent's own folder");
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

    #[test]
    fn a_per_file_conversation_writes_its_target_only() {
        let mut world = world();
        world.file("out/target");
        world.for_file("out/target").unwrap();
        world.opens("out/target", "out/target");
        world.opens("out/../out/target", "out/target");
        world.denies("out/other", "another file has a conversation of its own");
        world.denies("in/x", OUTSIDE);
        world.denies("/tmp/x", OUTSIDE);
        world.for_file("out/new/file").unwrap();
        assert!(!world.at("out/new").exists());
        world.denies("out/new/other", OUTSIDE);
        world.opens("out/new/file", "out/new/file");
        symlink("../in/linked", world.at("out/link")).unwrap();
        world.for_file("out/link").unwrap();
        world.opens("out/link", "in/linked");
        assert!(matches!(world.for_file("out/.git/config"), Err(Denied::Git { .. })));
        assert!(matches!(world.for_file("out"), Err(Denied::Folder { .. })));
    }

    #[test]
    fn a_target_is_the_file_that_was_opened() {
        let mut world = world();
        let target = world.file("out/target");
        let secret = world.file("out/secret");
        world.for_file("out/target").unwrap();
        // An editor saves by rename: another inode, one name.
        fs::write(world.at("out/saved"), "saved").unwrap();
        fs::rename(world.at("out/saved"), &target).unwrap();
        world.opens("out/target", "out/target");
        world.boundary.renew_target();
        // Another name of the target is not the target, the target itself still is.
        fs::hard_link(&target, world.at("out/alias")).unwrap();
        world.denies("out/alias", OUTSIDE);
        world.opens("out/target", "out/target");
        // It was moved, and has no other name.
        fs::remove_file(&target).unwrap();
        world.opens("out/alias", "out/alias");
        fs::rename(world.at("out/alias"), world.at("root/alias")).unwrap();
        world.denies("root/alias", "nagent's own folder");
        // Something else was planted in its place.
        fs::hard_link(&secret, &target).unwrap();
        world.denies("out/target", "another file with several hard links");
        fs::remove_file(&target).unwrap();
        symlink("secret", &target).unwrap();
        world.denies("out/target", OUTSIDE);
    }

    #[test]
    fn tmpdir_is_a_root_unless_it_holds_more_than_temporary_files() {
        let world = world();
        let (tree, root, home) =
            (world.at("in/tree/deep"), world.at("root/n"), world.at("home/me"));
        for folder in [&tree, &root, &home] {
            fs::create_dir_all(folder).unwrap();
        }
        symlink("home", world.at("link")).unwrap();
        world.file("out/file");
        let toplevel = world.at("in/tree");
        let check = |tmpdir: &Path, expect: Result<Option<PathBuf>, &str>| {
            let places = Places {
                cwd: &tree,
                toplevel: Some(&toplevel),
                home: Some(&home),
                root: &root,
                tmpdir: Some(tmpdir.as_os_str()),
            };
            // As for a main conversation, but without /tmp, where this test's folders are.
            assert_eq!(Boundary::empty(places).tmpdir(places), expect, "{}", tmpdir.display());
        };
        check(Path::new("/"), Err("it is the root of the file system"));
        check(Path::new("/proc/self/root"), Err("it is the root of the file system"));
        check(&home, Err("it holds the home folder"));
        check(&world.at("home"), Err("it holds the home folder"));
        check(&world.at("link"), Err("it holds the home folder"));
        check(&tree, Err("it holds the working tree"));
        check(&world.at("in/tree"), Err("it holds the working tree"));
        check(&world.at("in"), Err("it holds the working tree"));
        check(&world.at("root"), Err("it holds nagent's own folder"));
        check(Path::new("."), Err("it is a relative path"));
        check(&world.at("nowhere"), Err("there is no such folder"));
        check(&world.at("out/file"), Err("it is no folder"));
        check(Path::new(""), Ok(None));
        check(&world.at("out"), Ok(Some(world.at("out"))));
        check(&world.at("in/tree/deep/../../../out/"), Ok(Some(world.at("out"))));
    }

    #[test]
    fn a_main_conversation_writes_temp_folders() {
        let world = world();
        let (cwd, root) = (world.at("out"), world.at("root"));
        let places = Places {
            cwd: &cwd,
            toplevel: None,
            home: Some(Path::new("/home/me")),
            root: &root,
            tmpdir: Some(OsStr::new("/home")),
        };
        let (boundary, notes) = Boundary::for_main(places);
        assert_eq!(boundary.roots, [settled(Path::new("/tmp")), settled(Path::new("/var/tmp"))]);
        assert_eq!(
            notes,
            ["TMPDIR (/home) is no folder that may be written: it holds the home folder"]
        );
        let (boundary, notes) =
            Boundary::for_main(Places { tmpdir: Some(OsStr::new("/tmp")), ..places });
        assert_eq!((boundary.roots.len(), notes.len()), (2, 0));
    }
}
