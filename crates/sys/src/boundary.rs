//! The write boundary: which files the write tags may touch.
//!
//! It is asked about true paths only, of folders that are open ([`super::opening`]): a path is text, and the file that
//! it leads to can change between a check and a write. The boundary comes from the user's flags and environment alone;
//! nothing here reads a policy from the working tree, and nothing widens it later.
//!
//! Who may write what:
//!
//! ```text
//! main conversation        /tmp, /var/tmp, $TMPDIR unless it contains the home folder or the working tree
//! per-file conversation    its target
//! both                     --write folders, this conversation's own splits; with a sandbox, what commands may write of it
//! nobody                   anything in a .git or a folder that git would take for one; nagent's root,
//!                          but for the splits and a target that the user named
//! ```

use super::file_error::FileError;
use super::file_stamp::FileStamp;
use super::names::{expand_home, resolve_links};
use conversation::format::attributes;
use conversation::format::harmless::quote_name;
use conversation::reason::Reason;
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders that a boundary is made from.
#[derive(Debug, Clone, Copy)]
pub struct BoundaryFolders<'a> {
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

/// The paths that commands may write. Tags write nothing else.
pub trait WritePolicy: Debug {
    /// Returns whether a path is in a folder that commands may write in.
    fn is_writable(&self, path: &Path) -> bool;
    /// Checks whether commands may write a file, which need not exist. The error says why not, and what would allow it.
    fn check_write(&self, path: &Path) -> Result<(), String>;
}

/// The files that may be written.
#[derive(Debug)]
pub struct Boundary {
    pub(super) cwd: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// Folders, by their true path, in and below which files may be written.
    roots: Vec<PathBuf>,
    /// Those of them that the user named.
    named: Vec<PathBuf>,
    target: Option<OwnFile>,
    /// nagent's root, by its true path.
    forbidden: PathBuf,
    /// Folders within `forbidden` that may be written.
    allowed: Vec<PathBuf>,
    /// The write policy of the sandbox, if there is one.
    sandbox: Option<Arc<dyn WritePolicy>>,
}

/// The file of a per-file conversation.
#[derive(Debug)]
struct OwnFile {
    path: PathBuf,
    /// Held open, so that its inode is not given to another file: device and inode are then an identity.
    handle: Option<(File, Stat)>,
    /// The target is being opened for the first time: it is whatever file its path leads to.
    is_new: bool,
}

impl Boundary {
    /// The folders in and below which files may be written.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The folders that the user named with `--write`.
    pub fn named(&self) -> &[PathBuf] {
        &self.named
    }

    /// The working folder, from which paths lead.
    pub fn folder(&self) -> &Path {
        &self.cwd
    }

    /// The file that this conversation belongs to, by its true path.
    pub fn target(&self) -> Option<&Path> {
        self.target.as_ref().map(|target| target.path.as_path())
    }

    /// The boundary of a main conversation: the temp folders.
    pub fn for_main(places: BoundaryFolders<'_>) -> Self {
        let mut boundary = Self::without_folders(places);
        for folder in ["/tmp", "/var/tmp"] {
            boundary.add_root(resolve_links(Path::new(folder)));
        }
        if let Some(folder) = boundary.tmpdir(places) {
            boundary.add_root(folder);
        }
        boundary
    }

    /// The boundary of a file's own conversation: that file, and while it is the same file also where it was moved to.
    pub fn for_file(places: BoundaryFolders<'_>, target: &Path) -> Result<Self, FileError> {
        let mut boundary = Self::without_folders(places);
        let path = resolve_links(&boundary.absolute(target)?);
        // Folders that are missing are made when something is written, not before.
        let folder = path.parent().unwrap_or(&path);
        boundary.target = Some(OwnFile { path: path.clone(), handle: None, is_new: true });
        boundary.target = Some(if folder.is_dir() {
            let opened = boundary.open_for_write(&path)?;
            OwnFile { path: opened.path, handle: opened.old, is_new: false }
        } else {
            boundary.permit(target, folder, &path, None)?;
            OwnFile { path, handle: None, is_new: false }
        });
        Ok(boundary)
    }

    /// Checks that the target is not one of nagent's own files: only a user may name one of those.
    pub fn target_is_no_own_file(&self) -> Result<(), FileError> {
        match self.target() {
            Some(path) if path.starts_with(&self.forbidden) => Err(self.in_own_folder(path)),
            _ => Ok(()),
        }
    }

    /// Adds a folder that the user named with `--write`.
    pub fn allow_folder(&mut self, folder: &Path) -> Result<(), FileError> {
        let path = self.cwd.join(expand_home(folder, self.home.as_deref()));
        let path = fs::canonicalize(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                FileError::new(format!("no such folder: {}", quote_name(folder)), "")
            }
            _ => FileError::from_io("write in", folder, error),
        })?;
        if !path.is_dir() {
            return Err(FileError::new(format!("{} is not a folder", quote_name(folder)), ""));
        }
        self.named.push(path.clone());
        self.add_root(path);
        Ok(())
    }

    /// Adds a folder of nagent's root, for this conversation's own splits. It need not exist yet.
    pub fn allow_splits(&mut self, folder: &Path) {
        let folder = resolve_links(&self.cwd.join(folder));
        self.allowed.push(folder.clone());
        self.add_root(folder);
    }

    /// Removes all paths that commands in the sandbox may not write. The target stays: the user named it, or it was
    /// checked before.
    pub fn restrict(&mut self, sandbox: Arc<dyn WritePolicy>) {
        self.roots.retain(|root| sandbox.is_writable(root));
        self.sandbox = Some(sandbox);
    }

    /// Records the identity of the target after it was replaced.
    pub fn renew_target(&mut self) {
        if let Some(path) = self.target.as_ref().map(|target| target.path.clone())
            && let Ok(opened) = self.open_for_write(&path)
            && let Some(target) = &mut self.target
        {
            target.handle = opened.old;
        }
    }

    /// Describes in one line what may be written, for a prompt or an error.
    pub fn describe(&self) -> String {
        let mut may: Vec<String> = Vec::new();
        may.extend(self.target.iter().map(|target| quote_name(&target.path)));
        may.extend(
            self.roots.iter().map(|root| format!("{}/", quote_name(root).trim_end_matches('/'))),
        );
        if may.is_empty() {
            return "no file may be written here".to_owned();
        }
        format!("only {} may be written", may.join(", "))
    }

    fn without_folders(places: BoundaryFolders<'_>) -> Self {
        Self {
            cwd: places.cwd.to_owned(),
            home: places.home.map(Path::to_owned),
            roots: Vec::new(),
            named: Vec::new(),
            target: None,
            forbidden: resolve_links(&places.cwd.join(places.root)),
            allowed: Vec::new(),
            sandbox: None,
        }
    }

    fn add_root(&mut self, folder: PathBuf) {
        if !self.roots.contains(&folder) {
            self.roots.push(folder);
        }
    }

    /// The folder that `TMPDIR` names, unless it would make more writable than temporary files.
    fn tmpdir(&self, places: BoundaryFolders<'_>) -> Option<PathBuf> {
        let tmpdir = Path::new(places.tmpdir?);
        let real = fs::canonicalize(tmpdir).ok();
        let tmpdir = real.filter(|real| real.is_dir() && tmpdir.is_absolute())?;
        let own = [places.home, Some(places.cwd), places.toplevel, Some(&self.forbidden)];
        let holds = |folder: &Path| resolve_links(folder).starts_with(&tmpdir);
        let is_known = self.roots.iter().any(|root| tmpdir.starts_with(root));
        (!is_known && !own.into_iter().flatten().any(holds)).then_some(tmpdir)
    }

    /// Whether a file is the one that this conversation was opened on.
    pub(super) fn is_target(&self, stat: &Stat) -> bool {
        self.target.as_ref().is_some_and(|target| target.is_same(stat))
    }

    /// Checks that a file may be written. `path` is its true path, `folder` that of the nearest folder that exists.
    pub(super) fn permit(
        &self,
        asked: &Path,
        folder: &Path,
        path: &Path,
        stat: Option<&Stat>,
    ) -> Result<(), FileError> {
        if path.components().any(|part| is_git(part.as_os_str()))
            || folder.ancestors().any(is_git_folder)
        {
            return Err(in_repository_data(asked));
        }
        if self.target.as_ref().is_some_and(|target| target.is_at(path, stat)) {
            return Ok(());
        }
        let is_allowed = self.allowed.iter().any(|folder| path.starts_with(folder));
        if path.starts_with(&self.forbidden) && !is_allowed {
            return Err(self.in_own_folder(asked));
        }
        // The file that was opened, wherever it is now, under its only link.
        let only_link = stat.filter(|stat| stat.st_nlink <= 1).zip(self.target.as_ref());
        if only_link.is_some_and(|(stat, target)| target.is_same(stat)) {
            return Ok(());
        }
        if self.roots.iter().any(|root| path != root && path.starts_with(root)) {
            return match &self.sandbox {
                Some(sandbox) if !is_allowed => {
                    sandbox.check_write(path).map_err(|why| FileError::new(why, ""))
                }
                _ => Ok(()),
            };
        }
        let is_other = self.cwd.join(asked) != path;
        let resolved = is_other.then(|| format!(" (which is {})", quote_name(path)));
        let resolved = resolved.unwrap_or_default();
        let file = attributes::encode(&quote_name(path));
        let way =
            format!("<nagent-conversation file=\"{file}\">what to change</nagent-conversation>");
        let is_lost = stat.is_none() && !path.parent().is_some_and(Path::is_dir);
        let instead = match &self.target {
            None if is_lost => {
                let folder = quote_name(&self.cwd);
                format!("there is no such folder; relative paths start in {folder}; to create both: {way}")
            }
            None if stat.is_none() => {
                format!("there is no such file; to create it: {way}")
            }
            None => format!("to change it: {way}"),
            Some(target) if target.path == path => {
                "the path now leads to a different file with several hard links; ask the user to check it".to_owned()
            }
            Some(_) => "describe the needed change in your answer".to_owned(),
        };
        let (path, may) = (quote_name(asked), self.describe());
        let problem = format!("{path}{resolved} is outside of the write boundary: {may}");
        Err(FileError::new(problem, instead).because(Reason::Boundary))
    }

    fn in_own_folder(&self, path: &Path) -> FileError {
        let (path, root) = (quote_name(path), quote_name(&self.forbidden));
        let problem = format!("{path} is in nagent's own folder {root}, which is not written");
        FileError::new(problem, "put the file elsewhere, for example in /tmp")
            .because(Reason::Boundary)
    }
}

impl OwnFile {
    /// Whether the file at a path is the target. One with several hard links is written in place, so it must be the
    /// very file that was opened: a link planted at the target's path would carry the write elsewhere. One with a
    /// single link may be another file than it was, as an editor saved it.
    fn is_at(&self, path: &Path, stat: Option<&Stat>) -> bool {
        let is_it = |stat: &Stat| stat.st_nlink <= 1 || self.is_same(stat);
        self.is_new || path == self.path && stat.is_none_or(is_it)
    }

    fn is_same(&self, stat: &Stat) -> bool {
        let is_it = |known: &Stat| FileStamp::from(known).same_file(&FileStamp::from(stat));
        self.handle.as_ref().is_some_and(|(_, known)| is_it(known))
    }
}

pub(super) fn in_repository_data(path: &Path) -> FileError {
    let path = quote_name(path);
    let problem =
        format!("{path} is part of a repository's own data (.git), where nagent does not write");
    FileError::new(problem, "use git itself").because(Reason::Boundary)
}

pub(super) fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Whether git would take a folder for a repository's own data: it is a bare repository, or a `.git` file names it.
fn is_git_folder(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join("HEAD")).is_ok()
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
}

#[cfg(test)]
pub(super) mod tests;
