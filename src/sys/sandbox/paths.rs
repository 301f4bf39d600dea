//! Looks up the folders and files that a policy is made of, once a run: from flags, config and environment, and from the
//! configuration of the user's repository. What else is in the working tree has no say.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::git_config_paths::paths_named_by_git;
use crate::sandbox::policy::{HiddenPath, SandboxPolicy, WritableFolder};
use crate::sandbox::protected::{Group, names_in};
use crate::sandbox::{SandboxMode, SandboxRequest};
use crate::sys::env::Env;
use crate::sys::names::{expand_home, resolve_links};

/// The executable of the inner stage, beside the running one.
pub const INNER: &str = "nagent-sandbox";

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub struct SandboxFolders<'a> {
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

/// The policy of a run, and where things are. No path has links.
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
    pub(super) fn resolve(request: &SandboxRequest, places: SandboxFolders<'_>) -> Result<Self> {
        let folder = fs::canonicalize(places.folder)
            .with_context(|| format!("cannot find the folder {}", places.folder.display()))?;
        let root = resolve_links(&places.folder.join(places.root));
        crate::sys::fs::check_folder_owner(&root)?;
        let home = places.env.home_folder().map(|home| resolve_links(&home));
        let toplevel = places.toplevel.and_then(|top| fs::canonicalize(top).ok());
        let tree = toplevel.clone().unwrap_or_else(|| folder.clone());
        let tmpdir = places.env.get_os("TMPDIR");
        let temp = temp_folders(tmpdir, &[Some(&tree), home.as_deref(), Some(&root)]);
        let around = Around { folder: &folder, tree: &tree, root: &root, home: home.as_deref() };

        let mut policy = SandboxPolicy {
            mode: request.mode,
            no_network: request.no_network,
            ..SandboxPolicy::default()
        };
        if request.mode == SandboxMode::Workspace {
            let folders =
                temp.iter().map(|path| WritableFolder { path: path.clone(), is_temp: true });
            policy.writable = folders.collect();
            if !places.per_file && !temp.contains(&tree) {
                around.check_tree()?;
                add_writable(&mut policy, tree.clone());
            }
        }
        if request.mode != SandboxMode::Off {
            // A folder that the user names is not hidden, and neither is the one that the run is about.
            let mut shown = vec![folder.clone(), tree.clone()];
            shown.extend(home.clone());
            for named in &request.write {
                let why = || format!("--write {}", named.display());
                let path = around.resolve_named(named).with_context(why)?;
                add_writable(&mut policy, path.clone());
                shown.push(path);
            }
            policy.hidden = hidden_paths(&root, home.as_deref(), places.env, &shown);
        }
        let inner = find_inner(places.env.executable.as_deref())?;
        let config = places.config.map(|config| folder.join(config));
        let own = [config, places.env.executable.clone(), Some(inner.clone())];
        protect(&mut policy, own.into_iter().flatten(), |_| true);
        let by_git = toplevel.iter().flat_map(|top| paths_named_by_git(top, home.as_deref()));
        // A folder of hooks that is the tree itself would leave nothing to write in.
        protect(&mut policy, by_git, |path| !tree.starts_with(path));
        pin_folders_above(&mut policy);
        // If the user works in such a folder or names it, that is what the user works on.
        let starters =
            home.iter().flat_map(|home| names_in(Group::Starter).map(|name| home.join(name)));
        let writable = policy.writable.clone();
        protect(&mut policy, starters, |path| writable.iter().all(|folder| folder.path != path));

        let tmpdir = folder.join(tmpdir.unwrap_or_else(|| "/tmp".as_ref()));
        let is_tmpdir_writable =
            fs::canonicalize(tmpdir).is_ok_and(|tmpdir| policy.is_writable(&tmpdir));
        Ok(Self { policy, root, inner, temp: temp.into_iter().next(), is_tmpdir_writable })
    }
}

fn add_writable(policy: &mut SandboxPolicy, path: PathBuf) {
    if policy.writable.iter().all(|folder| folder.path != path) {
        policy.writable.push(WritableFolder { path, is_temp: false });
    }
}

/// Makes paths read-only that are in writable folders and for which `is_kept` holds, or notes that they do not exist.
fn protect(
    policy: &mut SandboxPolicy,
    paths: impl Iterator<Item = PathBuf>,
    is_kept: impl Fn(&Path) -> bool,
) {
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

/// Returns nagent's root, and credentials as far as they exist: in the home folder, and where variables say that they are.
/// What holds one of `shown` is not hidden.
pub(super) fn hidden_paths(
    root: &Path,
    home: Option<&Path>,
    env: &Env,
    shown: &[PathBuf],
) -> Vec<HiddenPath> {
    let credentials = || names_in(Group::Credential);
    let mut paths: Vec<PathBuf> =
        home.iter().flat_map(|home| credentials().map(|name| home.join(name))).collect();
    for line in names_in(Group::Variable) {
        let (variable, replaced) = line.split_once(' ').unwrap_or((line, ""));
        for value in env.get_os(variable).iter().flat_map(std::env::split_paths) {
            if replaced.is_empty() {
                paths.push(value);
            } else {
                let below =
                    credentials().filter_map(|name| Path::new(name).strip_prefix(replaced).ok());
                paths.extend(below.map(|below| value.join(below)));
            }
        }
    }
    paths.push("/run/secrets".into());
    paths.push(format!("/run/user/{}/containers", rustix::process::getuid()).into());
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

/// What a folder is compared with before commands may write in it.
struct Around<'a> {
    folder: &'a Path,
    tree: &'a Path,
    root: &'a Path,
    home: Option<&'a Path>,
}

impl Around<'_> {
    /// Checks that the working tree does not contain too much.
    fn check_tree(&self) -> Result<()> {
        let tree = self.tree;
        let why = match () {
            () if tree.parent().is_none() => "is the root of the file system",
            () if self.home.is_some_and(|home| home.starts_with(tree)) => {
                "contains the home folder"
            }
            () if self.root.starts_with(tree) => "contains nagent's own folder",
            () if tree.starts_with(self.root) => "is in nagent's own folder",
            () => return Ok(()),
        };
        bail!(
            "the working tree {} {why}, so the sandbox cannot make it writable: start in the folder of a project, or use --sandbox read-only with --write DIR",
            tree.display()
        )
    }

    /// Resolves the folder of a `--write`.
    fn resolve_named(&self, named: &Path) -> Result<PathBuf> {
        let named = self.folder.join(expand_home(named, self.home));
        let path = fs::canonicalize(&named)
            .with_context(|| "name a folder that exists (mkdir creates one)")?;
        // A command may have put a link into the tree.
        let is_in_tree = |link: &Path| {
            let folder = link.parent().and_then(|folder| fs::canonicalize(folder).ok());
            link.is_symlink() && folder.is_some_and(|folder| folder.starts_with(self.tree))
        };
        ensure!(
            path.starts_with(self.tree) || !named.ancestors().any(is_in_tree),
            "it leads out of the working tree, to {}; name that folder itself if it is the one",
            path.display()
        );
        ensure!(
            path.is_dir(),
            "it is not a folder; name one that exists (a file .git names the repository's folder; name that one, and for a linked working tree also the one that commondir in it names)"
        );
        ensure!(
            !path.starts_with(self.root),
            "it is in nagent's own folder {}, which commands in the sandbox cannot see; name another",
            self.root.display()
        );
        ensure!(path.parent().is_some(), "it is the root of the file system; use --sandbox off");
        Ok(path)
    }
}

fn find_inner(executable: Option<&Path>) -> Result<PathBuf> {
    let executable = executable.and_then(|executable| fs::canonicalize(executable).ok());
    let inner = executable.as_deref().and_then(Path::parent).map(|folder| folder.join(INNER));
    inner.filter(|inner| inner.is_file()).with_context(|| {
        let beside = executable.map(|path| format!(" ({})", path.display())).unwrap_or_default();
        format!("the executable {INNER}, which builds the sandbox from inside, is not beside this one{beside}; install it there")
    })
}
