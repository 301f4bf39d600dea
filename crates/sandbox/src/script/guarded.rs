//! Opens the files that a script names, so that the checked file is the one that is used: a path is text, and its
//! target can change between a check and a use. A file is opened without any effect, its true path is checked against
//! the policy, and then the same file is read. For writing, the policy is checked for its folder, which is open, and
//! one plain name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::Errno;

use conversation::format::harmless::quote_name;
use sys::opening::{open_folder, true_path};
use sys::read::virtual_filesystem;

/// An existing file or folder, open only for its metadata.
pub(super) struct OpenedPath {
    fd: OwnedFd,
    /// Its path without links.
    pub(super) path: PathBuf,
    /// Its metadata.
    pub(super) stat: Stat,
}

impl OpenedPath {
    /// Finds the target of an absolute path. `None` if it does not exist.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, String> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(explain(path)(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(explain(path))?;
        let true_path =
            true_path(&fd, path).map_err(|error| format!("{}: {error}", quote_name(path)))?;
        Ok(Some(Self { fd, path: true_path, stat }))
    }

    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    /// Opens the file itself for reading.
    pub(super) fn open(&self) -> Result<File, String> {
        let kind = FileType::from_raw_mode(self.stat.st_mode);
        if kind == FileType::Directory {
            return Err(format!("{} is a folder", quote_name(&self.path)));
        }
        if kind != FileType::RegularFile || virtual_filesystem(&self.fd).is_some() {
            return Err(format!("{} is not a regular file", quote_name(&self.path)));
        }
        self.reopen(OFlags::RDONLY)
    }

    /// Opens the folder itself for listing.
    pub(super) fn open_folder(&self) -> Result<File, String> {
        if !self.is_folder() {
            return Err(format!("{} is not a folder", quote_name(&self.path)));
        }
        if virtual_filesystem(&self.fd).is_some() {
            return Err(format!("{} is not a folder of files", quote_name(&self.path)));
        }
        self.reopen(OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn reopen(&self, flags: OFlags) -> Result<File, String> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(explain(&self.path))
    }
}

/// A name in an open folder, under which something is written, made or removed.
pub(super) struct WriteTarget {
    /// The nearest folder that exists.
    pub(super) dir: OwnedFd,
    /// The folders between that one and the name, which do not exist.
    pub(super) missing: Vec<OsString>,
    /// The name.
    pub(super) name: OsString,
    /// The path without links.
    pub(super) path: PathBuf,
    /// The metadata of the existing file or folder of that name.
    pub(super) stat: Option<Stat>,
}

impl WriteTarget {
    /// Finds the place of an absolute path; a link at its end is followed.
    pub(super) fn find_follow(path: &Path) -> Result<Self, String> {
        let mut path = path.to_owned();
        // The kernel's own limit of links.
        for _ in 0..40 {
            let spot = Self::find(&path)?;
            if spot.file_type() != Some(FileType::Symlink) {
                return Ok(spot);
            }
            let target = rustix::fs::readlinkat(&spot.dir, &spot.name, Vec::new());
            let target = OsString::from_vec(target.map_err(explain(&path))?.into_bytes());
            path = spot.path.parent().unwrap_or(Path::new("/")).join(target);
        }
        Err(explain(&path)(Errno::LOOP))
    }

    /// Finds the place of an absolute path, and of a link itself.
    pub(super) fn find(path: &Path) -> Result<Self, String> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(format!(
                "{} does not end in a name: name a file or folder in it",
                quote_name(path)
            ));
        };
        if name.as_bytes().contains(&0) {
            return Err("the path contains a NUL byte".to_owned());
        }
        let (dir, folder, missing) =
            open_folder(path, parent).map_err(|error| error.to_string())?;
        if virtual_filesystem(&dir).is_some() {
            return Err(format!("{} is not a folder of files", quote_name(&folder)));
        }
        let path = missing.iter().fold(folder, |path, name| path.join(name)).join(name);
        let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            _ if !missing.is_empty() => None,
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(explain(&path)(error)),
        };
        Ok(Self { dir, missing, name: name.to_owned(), path, stat })
    }

    /// The type of the existing file or folder.
    pub(super) fn file_type(&self) -> Option<FileType> {
        self.stat.map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Refuses a missing folder, and a name that belongs to something other than a file.
    pub(super) fn check_file(&self) -> Result<(), String> {
        if let Some(name) = self.missing.first() {
            let folder = self.path.ancestors().nth(self.missing.len()).unwrap_or(&self.path);
            let name = name.display();
            return Err(format!(
                "{} does not exist ({name} is missing); fs.mkdir makes it",
                quote_name(folder)
            ));
        }
        match self.file_type() {
            None | Some(FileType::RegularFile) => Ok(()),
            Some(FileType::Directory) => Err(format!("{} is a folder", quote_name(&self.path))),
            Some(_) => Err(format!("{} is not a regular file", quote_name(&self.path))),
        }
    }

    /// Makes the folder, and missing folders above it.
    pub(super) fn make_folders(&mut self, mode: u32) -> Result<(), String> {
        let mut names = std::mem::take(&mut self.missing);
        names.push(self.name.clone());
        for name in names {
            match rustix::fs::mkdirat(&self.dir, &name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(explain(&self.path)(error)),
            }
            self.dir = open_below(&self.dir, Path::new(&name)).map_err(explain(&self.path))?;
        }
        Ok(())
    }

    /// Removes a file, or a folder with everything in it. `may_remove` is called with each path in a folder; nothing is
    /// removed before all calls have succeeded.
    pub(super) fn remove(
        &self,
        may_remove: &mut dyn FnMut(&Path) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.file_type() == Some(FileType::Directory) {
            visit((&self.dir, &self.name, &self.path), false, may_remove)?;
        }
        visit((&self.dir, &self.name, &self.path), true, may_remove)
    }
}

/// Calls `may_remove` with each path in a folder; with `removes`, it then removes the entry, which may be a file.
fn visit(
    (dir, name, path): (&OwnedFd, &OsStr, &Path),
    removes: bool,
    may_remove: &mut dyn FnMut(&Path) -> Result<(), String>,
) -> Result<(), String> {
    if removes {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(explain(path)(error)),
        }
    }
    let folder = match open_below(dir, Path::new(name)) {
        // Not a folder, or already gone.
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) if !removes => return Ok(()),
        opened => opened.map_err(explain(path))?,
    };
    for name in list_names(&folder).map_err(explain(path))? {
        let below = path.join(&name);
        may_remove(&below)?;
        visit((&folder, &name, &below), removes, may_remove)?;
    }
    if removes {
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(explain(path))?;
    }
    Ok(())
}

/// The names in an open folder, sorted.
pub(super) fn list_names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Opens a folder below an open one for listing; links on the way are not followed.
pub(super) fn open_below(dir: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(dir, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH)
}

/// An error about a path, for a script.
pub(super) fn explain(path: &Path) -> impl Fn(Errno) -> String + '_ {
    move |error| match error {
        Errno::NOENT => format!("{}: no such file or folder", quote_name(path)),
        error => format!("{}: {}", quote_name(path), std::io::Error::from(error)),
    }
}
