//! What the walls stand on: which folders are writable, which are hidden, by their true paths, looked up once a run.
//!
//! It comes from flags, config and environment alone; nothing is read from the working tree.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::survey::{git_folders, is_git_folder};
use super::{INNER, Missing, Places};

use crate::sandbox::protected::{CREDENTIALS_IN_HOME, STARTERS_IN_HOME};
use crate::sandbox::{Mode, Wanted};
use crate::sys::git;
use crate::sys::names::expand_home;

/// A folder that commands may write in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Writable {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// Whether the user named it, whatever it is besides.
    pub(super) is_named: bool,
}

/// What kind of folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// For everybody's temporary files: nothing in it is protected.
    Temp,
    /// The working tree.
    Tree,
    /// Named by the user.
    Named,
    /// A repository's own folder, which the user named.
    Git,
}

/// All of it.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) writable: Vec<Writable>,
    /// nagent's root, and folders and files with credentials.
    pub(super) hidden: Vec<PathBuf>,
    /// Where records and reports are, in the root.
    pub(super) walls: PathBuf,
    /// The inner stage.
    pub(super) inner: PathBuf,
    /// What lies in a writable folder and counts outside: the toolkit's executables, git's hooks where the repository
    /// keeps them elsewhere, the config file.
    pub(super) kept: Vec<PathBuf>,
    /// Paths of the home folder that start things, where that is writable.
    pub(super) starters: Vec<PathBuf>,
    /// Temp folders: where a scratch folder can be.
    pub(super) temp: Vec<PathBuf>,
    /// Whether commands may write where `TMPDIR` says that temporary files belong.
    pub(super) is_tmpdir_writable: bool,
    /// The top of the working tree, when it is a repository's.
    pub(super) repository: Option<PathBuf>,
}

impl Ground {
    pub(super) fn look(wanted: &Wanted, places: Places<'_>) -> Result<Self, Missing> {
        let folder = true_path(places.folder)?;
        let root = places.folder.join(places.root);
        let walls = root.join("walls");
        fs::DirBuilder::recursive(&mut private_folder(), true).create(&walls).map_err(|error| {
            Missing(format!(
                "cannot make {}, where the walls keep what they make: {error}; --root DIR names another root",
                walls.display()
            ))
        })?;
        let root = true_path(&root)?;
        let walls = root.join("walls");
        let home = places.home.and_then(|home| fs::canonicalize(home).ok());
        let toplevel = places.toplevel.and_then(|top| fs::canonicalize(top).ok());
        let tree = toplevel.clone().unwrap_or_else(|| folder.clone());
        let temp = temp_folders(places.tmpdir, &[Some(&tree), home.as_deref(), Some(&root)]);

        let mut writable: Vec<Writable> = Vec::new();
        let mut add = |path: PathBuf, kind: Kind, is_named: bool| match writable
            .iter_mut()
            .find(|there| there.path == path)
        {
            Some(there) => there.is_named |= is_named,
            None => writable.push(Writable { path, kind, is_named }),
        };
        if wanted.mode == Mode::Workspace {
            for temp in &temp {
                add(temp.clone(), Kind::Temp, false);
            }
            if !places.per_file && !temp.contains(&tree) {
                check_tree(&tree, home.as_deref(), &root)?;
                add(tree.clone(), Kind::Tree, false);
            }
        }
        if wanted.mode != Mode::Off {
            for named in &wanted.write {
                for (path, kind) in named_folders(named, &folder, places.home)? {
                    if path.starts_with(&root) {
                        return Err(Missing(format!(
                            "--write {} lies in nagent's own folder {}, which nothing inside the walls sees; name another",
                            named.display(),
                            root.display()
                        )));
                    }
                    add(path, kind, true);
                }
            }
        }

        let open = |path: &Path| {
            writable.iter().any(|writable| {
                writable.kind != Kind::Temp
                    && path.starts_with(&writable.path)
                    && writable.path != Path::new("/")
            })
        };
        let mut hidden = vec![root.clone()];
        let mut starters = Vec::new();
        if let Some(home) = &home {
            let there = |name: &&str| fs::canonicalize(home.join(name)).ok();
            // What the user named is open to commands.
            let credentials = CREDENTIALS_IN_HOME.iter().filter_map(there);
            let is_named = |path: &PathBuf| {
                wanted.write.iter().any(|named| {
                    fs::canonicalize(folder.join(expand_home(named, places.home)))
                        .is_ok_and(|named| named.starts_with(path))
                })
            };
            hidden.extend(credentials.filter(|path| !is_named(path)));
            if open(home) {
                starters.extend(STARTERS_IN_HOME.iter().filter_map(there));
            }
        }
        hidden.dedup();
        let inner = inner(places.executable)?;
        let is_writable =
            |path: &Path| writable.iter().any(|writable| path.starts_with(&writable.path));
        let mut kept = if is_writable(&inner) { toolkit(&inner) } else { Vec::new() };
        let hooks = toplevel.as_deref().and_then(git::hooks);
        kept.extend(hooks.filter(|hooks| is_writable(hooks) && !tree.starts_with(hooks)));
        let config = places.config.and_then(|path| fs::canonicalize(folder.join(path)).ok());
        kept.extend(config.filter(|config| is_writable(config) && !config.starts_with(&root)));
        let tmpdir = places.tmpdir.filter(|tmpdir| !tmpdir.is_empty());
        let is_tmpdir_writable = tmpdir.is_none_or(|tmpdir| {
            fs::canonicalize(folder.join(tmpdir)).is_ok_and(|tmpdir| is_writable(&tmpdir))
        });
        Ok(Self {
            is_tmpdir_writable,
            writable,
            hidden,
            walls,
            inner,
            kept,
            starters,
            temp,
            repository: toplevel.filter(|_| wanted.mode == Mode::Workspace && !places.per_file),
        })
    }

    pub(super) fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|writable| path.starts_with(&writable.path))
    }
}

fn private_folder() -> fs::DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn true_path(path: &Path) -> Result<PathBuf, Missing> {
    fs::canonicalize(path)
        .map_err(|error| Missing(format!("cannot find the folder {}: {error}", path.display())))
}

/// The working tree, unless it holds too much.
fn check_tree(tree: &Path, home: Option<&Path>, root: &Path) -> Result<(), Missing> {
    let why = if tree.parent().is_none() {
        "is the root of the file system"
    } else if home.is_some_and(|home| home.starts_with(tree)) {
        "holds the home folder"
    } else if root.starts_with(tree) {
        "holds nagent's own folder"
    } else if tree.starts_with(root) {
        "lies in nagent's own folder"
    } else {
        return Ok(());
    };
    Err(Missing(format!(
        "the working tree {} {why}, so the sandbox cannot make it writable: start in a project's folder, or take --sandbox read-only with --write DIR",
        tree.display()
    )))
}

/// The temp folders that exist, by their true paths: those of the system, and `TMPDIR` unless it holds one of `others`.
fn temp_folders(tmpdir: Option<&OsStr>, others: &[Option<&Path>]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let tmpdir = tmpdir.map(Path::new).filter(|tmpdir| tmpdir.is_absolute());
    let candidates = [Path::new("/tmp"), Path::new("/var/tmp")].into_iter().chain(tmpdir);
    for (at, candidate) in candidates.enumerate() {
        let Ok(folder) = fs::canonicalize(candidate) else { continue };
        let holds = || others.iter().flatten().any(|other| other.starts_with(&folder));
        let is_fine = folder.is_dir() && folder.parent().is_some() && (at < 2 || !holds());
        if is_fine && !folders.iter().any(|there| folder.starts_with(there)) {
            folders.push(folder);
        }
    }
    folders
}

/// What a `--write` names: a folder; a repository's own is more than one where it has several working trees.
fn named_folders(
    named: &Path,
    folder: &Path,
    home: Option<&Path>,
) -> Result<Vec<(PathBuf, Kind)>, Missing> {
    let wrong = |why: &dyn std::fmt::Display| {
        Missing(format!(
            "--write {}: {why}; name a folder that exists (mkdir makes one)",
            named.display()
        ))
    };
    let path = folder.join(expand_home(named, home));
    let path = fs::canonicalize(path).map_err(|error| wrong(&error))?;
    let is_git_file = path.is_file() && path.file_name().is_some_and(|name| name == ".git");
    if is_git_file || is_git_folder(&path) {
        let folders = git_folders(&path);
        if !folders.is_empty() {
            return Ok(folders.into_iter().map(|folder| (folder, Kind::Git)).collect());
        }
    }
    if !path.is_dir() {
        return Err(wrong(&"it is no folder"));
    }
    if path.parent().is_none() {
        return Err(wrong(&"it is the root of the file system; --sandbox off has no walls"));
    }
    Ok(vec![(path, Kind::Named)])
}

/// The executable of the inner stage, by its true path.
fn inner(executable: Option<&Path>) -> Result<PathBuf, Missing> {
    let executable = executable.and_then(|executable| fs::canonicalize(executable).ok());
    let inner = executable.as_deref().and_then(Path::parent).map(|folder| folder.join(INNER));
    match inner {
        Some(inner) if inner.is_file() => Ok(inner),
        _ => Err(Missing(format!(
            "the executable {INNER}, which stands inside the walls, is not beside this one{}; install it there",
            executable.map(|path| format!(" ({})", path.display())).unwrap_or_default()
        ))),
    }
}

/// The toolkit's executables, which lie side by side.
fn toolkit(inner: &Path) -> Vec<PathBuf> {
    let entries = inner.parent().and_then(|folder| fs::read_dir(folder).ok());
    let is_tool = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        (name == "nagent" || name.starts_with("nagent-") && !name.contains('.'))
            && fs::symlink_metadata(path).is_ok_and(|there| there.is_file())
    };
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_tool).collect()
}
