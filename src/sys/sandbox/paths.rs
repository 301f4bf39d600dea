//! Looks up the folders and files that a policy is made of, once a run: from flags, config and environment, and from the
//! configuration of the user's repository. What else is in the working tree has no say.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::git_config_paths::paths_named_by_git;
use super::scan::{is_git_folder, scan_folder};
use crate::sandbox::policy::{FolderKind, HiddenPath, SandboxPolicy, WritableFolder};
use crate::sandbox::protected::{
    CREDENTIAL_VARIABLES, CREDENTIALS_IN_HOME, STARTERS_IN_HOME, names_in,
};
use crate::sandbox::{SandboxMode, SandboxRequest};
use crate::sys::env::Env;
use crate::sys::names::{expand_home, resolve_links};

/// The executable of the inner stage, beside the running one.
pub const INNER: &str = "nagent-sandbox";

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// The git toplevel of `folder`, if any.
    pub toplevel: Option<&'a Path>,
    /// nagent's root, which commands cannot read.
    pub root: &'a Path,
    /// The environment: the home folder, temp folders, where credentials are, and the running executable.
    pub env: &'a Env,
    /// Whether it is a file's own conversation: then `workspace` writes in temp folders only.
    pub per_file: bool,
    /// The config file in force, which could turn the sandbox off: it is read-only wherever it is.
    pub config: Option<&'a Path>,
}

/// Why the sandbox cannot be built, and what is missing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// The policy of a run, and where things are.
#[derive(Debug)]
pub(super) struct PolicyPaths {
    /// The policy, except for what a scan of the writable folders finds.
    pub(super) policy: SandboxPolicy,
    /// nagent's root.
    pub(super) root: PathBuf,
    /// The executable of the inner stage.
    pub(super) inner: PathBuf,
    /// The folder in which a scratch folder can be made.
    pub(super) temp: Option<PathBuf>,
    /// Whether commands may write in `TMPDIR`, or in `/tmp` without it.
    pub(super) is_tmpdir_writable: bool,
}

impl PolicyPaths {
    pub(super) fn resolve(
        request: &SandboxRequest,
        places: Places<'_>,
    ) -> Result<Self, Unavailable> {
        let folder = resolve_folder(places.folder)?;
        let root = resolve_links(&places.folder.join(places.root));
        crate::sys::fs::check_folder_owner(&root)
            .map_err(|error| Unavailable(format!("{error:#}")))?;
        let home = places.env.home().map(|home| resolve_links(&home));
        let toplevel = places.toplevel.and_then(|top| fs::canonicalize(top).ok());
        let tree = toplevel.clone().unwrap_or_else(|| folder.clone());
        let tmpdir = places.env.get_os("TMPDIR");
        let temp = temp_folders(tmpdir, &[Some(&tree), home.as_deref(), Some(&root)]);

        let mut policy = SandboxPolicy {
            mode: request.mode,
            no_network: request.no_network,
            ..SandboxPolicy::default()
        };
        if request.mode == SandboxMode::Workspace {
            for folder in &temp {
                add_writable(&mut policy, folder.clone(), FolderKind::Temp);
            }
            if !places.per_file && !temp.contains(&tree) {
                check_tree(&tree, home.as_deref(), &root)?;
                add_writable(&mut policy, tree.clone(), FolderKind::Tree);
            }
        }
        if request.mode != SandboxMode::Off {
            // Whoever names a folder wants what is in it, and nothing hides what the run is about.
            let mut shown = vec![folder.clone(), tree.clone()];
            shown.extend(home.clone());
            for named in &request.write {
                let (path, kind) =
                    resolve_named_folder(named, &folder, &tree, &root, home.as_deref())?;
                add_writable(&mut policy, path.clone(), kind);
                shown.push(path);
            }
            policy.hidden = hidden_paths(&root, home.as_deref(), places.env, &shown);
        }
        let inner = find_inner(places.env.executable.as_deref())?;
        let config = places.config.map(|config| folder.join(config));
        protect(&mut policy, toolkit(&inner).into_iter().chain(config).collect(), &|_| true);
        let by_git = toplevel.iter().flat_map(|top| paths_named_by_git(top, home.as_deref()));
        // A folder of hooks that is the tree itself would leave nothing to write in.
        protect(&mut policy, by_git.collect(), &|path| !tree.starts_with(path));
        pin_folders_above(&mut policy);
        // Whoever works in such a folder itself, or names it, works on just that.
        let starters =
            home.iter().flat_map(|home| names_in(STARTERS_IN_HOME).map(|name| home.join(name)));
        let writable = policy.writable.clone();
        protect(&mut policy, starters.collect(), &|path| writable.iter().all(|w| w.path != path));

        let is_tmpdir_writable = tmpdir.is_none_or(|tmpdir| {
            fs::canonicalize(folder.join(tmpdir)).is_ok_and(|tmpdir| policy.is_writable(&tmpdir))
        });
        Ok(Self { policy, root, inner, temp: temp.into_iter().next(), is_tmpdir_writable })
    }

    /// Checks whether commands may write a file. `path` has no links.
    pub(super) fn check_write(&self, path: &Path) -> Result<(), String> {
        let mut policy = self.policy.clone();
        for folder in &self.policy.writable {
            let scan = scan_folder(folder, &self.policy);
            policy.read_only.extend(scan.protected.into_iter().chain(scan.unreadable));
            policy.missing.extend(scan.missing);
        }
        policy.check_write(path)
    }
}

/// Makes paths read-only that are in writable folders and for which `is_kept` holds, or notes that they do not exist.
fn protect(policy: &mut SandboxPolicy, paths: Vec<PathBuf>, is_kept: &dyn Fn(&Path) -> bool) {
    for path in paths {
        match fs::canonicalize(&path) {
            Ok(path) if policy.is_writable(&path) && is_kept(&path) => policy.read_only.push(path),
            Ok(_) => {}
            Err(_) => policy.missing.push(resolve_links(&path)),
        }
    }
}

/// A folder above a mount could be moved away, and another one made in its place; one that is a mount itself cannot.
fn pin_folders_above(policy: &mut SandboxPolicy) {
    let is_inside = |above: &&Path| {
        let mut folders = policy.writable.iter();
        folders.any(|folder| **above != folder.path && above.starts_with(&folder.path))
    };
    let hidden = policy.hidden.iter().map(|hidden| &hidden.path);
    let writable = policy.writable.iter().map(|folder| &folder.path);
    let fixed = hidden.chain(writable).chain(&policy.read_only);
    let above = fixed.flat_map(|path| path.ancestors().skip(1).take_while(is_inside));
    policy.pinned = above.map(Path::to_owned).collect();
}

fn add_writable(policy: &mut SandboxPolicy, path: PathBuf, kind: FolderKind) {
    if policy.writable.iter().all(|folder| folder.path != path) {
        policy.writable.push(WritableFolder { path, kind });
    }
}

fn resolve_folder(path: &Path) -> Result<PathBuf, Unavailable> {
    fs::canonicalize(path)
        .map_err(|error| Unavailable(format!("cannot find the folder {}: {error}", path.display())))
}

/// Returns nagent's root, and credentials as far as they exist: in the home folder, and where variables say that they are.
/// What holds one of `shown` is not hidden.
fn hidden_paths(root: &Path, home: Option<&Path>, env: &Env, shown: &[PathBuf]) -> Vec<HiddenPath> {
    let mut paths: Vec<PathBuf> = home
        .iter()
        .flat_map(|home| names_in(CREDENTIALS_IN_HOME).map(|name| home.join(name)))
        .collect();
    for (variable, prefix) in CREDENTIAL_VARIABLES {
        for value in env.get_os(variable).iter().flat_map(std::env::split_paths) {
            let below = names_in(CREDENTIALS_IN_HOME)
                .filter_map(|name| Path::new(name).strip_prefix(prefix).ok());
            paths.extend(below.filter(|_| !prefix.is_empty()).map(|below| value.join(below)));
            paths.extend(prefix.is_empty().then_some(value));
        }
    }
    paths.push("/run/secrets".into());
    paths.retain_mut(|path| {
        fs::canonicalize(&path).is_ok_and(|real| {
            *path = real;
            !shown.iter().any(|shown| shown.starts_with(&path))
        })
    });
    paths.extend(root.exists().then(|| root.to_owned()));
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| HiddenPath { is_folder: path.is_dir(), path }).collect()
}

/// Checks that the working tree does not hold too much.
fn check_tree(tree: &Path, home: Option<&Path>, root: &Path) -> Result<(), Unavailable> {
    let why = if tree.parent().is_none() {
        "is the root of the file system"
    } else if home.is_some_and(|home| home.starts_with(tree)) {
        "holds the home folder"
    } else if root.starts_with(tree) {
        "holds nagent's own folder"
    } else if tree.starts_with(root) {
        "is in nagent's own folder"
    } else {
        return Ok(());
    };
    Err(Unavailable(format!(
        "the working tree {} {why}, so the sandbox cannot make it writable: start in the folder of a project, or use --sandbox read-only with --write DIR",
        tree.display()
    )))
}

/// Returns the temp folders that exist: those of the system, and `TMPDIR` unless it holds one of `others`.
fn temp_folders(tmpdir: Option<&OsStr>, others: &[Option<&Path>]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let tmpdir = tmpdir.map(Path::new).filter(|tmpdir| tmpdir.is_absolute());
    let candidates = [Path::new("/tmp"), Path::new("/var/tmp")].into_iter().chain(tmpdir);
    for (at, candidate) in candidates.enumerate() {
        let Ok(folder) = fs::canonicalize(candidate) else { continue };
        let holds = || others.iter().flatten().any(|other| other.starts_with(&folder));
        let is_fine = folder.is_dir() && folder.parent().is_some() && (at < 2 || !holds());
        if is_fine && !folders.iter().any(|known| folder.starts_with(known)) {
            folders.push(folder);
        }
    }
    folders
}

/// Resolves the folder of a `--write`.
fn resolve_named_folder(
    named: &Path,
    folder: &Path,
    tree: &Path,
    root: &Path,
    home: Option<&Path>,
) -> Result<(PathBuf, FolderKind), Unavailable> {
    let wrong = |why: &str| Unavailable(format!("--write {}: {why}", named.display()));
    let named_path = folder.join(expand_home(named, home));
    let path = fs::canonicalize(&named_path).map_err(|error| {
        wrong(&format!("{error}; name a folder that exists (mkdir creates one)"))
    })?;
    // A command may have put that link into the tree.
    if remove_dots(&named_path).starts_with(tree) && !path.starts_with(tree) {
        return Err(wrong(&format!(
            "it leads out of the working tree, to {}; name that folder itself if it is the one",
            path.display()
        )));
    }
    if path.file_name().is_some_and(|name| name == ".git") && path.is_file() {
        return Err(wrong(
            "it is a file that names the repository's folder; name that folder itself, and for a linked working tree also \
             the one that commondir in it names",
        ));
    }
    if !path.is_dir() {
        return Err(wrong("it is not a folder; name one that exists (mkdir creates one)"));
    }
    if path.starts_with(root) {
        return Err(wrong(&format!(
            "it is in nagent's own folder {}, which commands in the sandbox cannot see; name another",
            root.display()
        )));
    }
    if path.parent().is_none() {
        return Err(wrong("it is the root of the file system; --sandbox off restricts no files"));
    }
    let kind = if is_git_folder(&path) { FolderKind::Git } else { FolderKind::Named };
    Ok((path, kind))
}

/// Removes `.` and `..` from a path without looking at links.
fn remove_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in path.components() {
        if step == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(step);
        }
    }
    plain
}

/// Finds the executable of the inner stage.
fn find_inner(executable: Option<&Path>) -> Result<PathBuf, Unavailable> {
    let executable = executable.and_then(|executable| fs::canonicalize(executable).ok());
    let inner = executable.as_deref().and_then(Path::parent).map(|folder| folder.join(INNER));
    inner.filter(|inner| inner.is_file()).ok_or_else(|| {
        Unavailable(format!(
            "the executable {INNER}, which builds the sandbox from inside, is not beside this one{}; install it there",
            executable.map(|path| format!(" ({})", path.display())).unwrap_or_default()
        ))
    })
}

/// Returns the toolkit's executables, which are in one folder.
fn toolkit(inner: &Path) -> Vec<PathBuf> {
    let entries = inner.parent().and_then(|folder| fs::read_dir(folder).ok());
    let is_tool = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        (name == "nagent" || name.starts_with("nagent-") && !name.contains('.')) && path.is_file()
    };
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_tool).collect()
}
