//! Looks up the folders and files of a policy, once a run: from flags, config and environment, and from the
//! configuration of the user's repository. Nothing else in the working tree has an influence.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::executed::{executed_paths, paths_named_by_config};
use crate::policy::{HiddenPath, SandboxPolicy};
use crate::special::{Group, names_in};
use crate::{SandboxMode, SandboxRequest};
use history::git;
use sys::env::Env;
use sys::names::{expand_home, resolve_links};
use sys::walk::walk_below;

/// The folders and files of a run.
#[derive(Debug, Clone, Copy)]
pub struct SandboxFolders<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// The git toplevel of `folder`, if any.
    pub toplevel: Option<&'a Path>,
    /// nagent's root, which commands cannot read.
    pub root: &'a Path,
    /// The environment: the home folder, temp folders, paths of credentials, and the running executable.
    pub env: &'a Env,
    /// The config file in use, which could turn the sandbox off: it is read-only wherever it is.
    pub config: Option<&'a Path>,
}

/// The working tree of a run, and what it is compared with. No path has links.
struct Surroundings {
    folder: PathBuf,
    root: PathBuf,
    home: Option<PathBuf>,
    /// The git toplevel, if it belongs to this user and does not hold too much.
    toplevel: Option<PathBuf>,
    /// The repository of a linked working tree, where git writes for it.
    linked: Option<PathBuf>,
    /// The toplevel, else the folder.
    tree: PathBuf,
    /// The temp folders.
    temp: Vec<PathBuf>,
}

impl Surroundings {
    fn find(places: SandboxFolders<'_>) -> Result<Self> {
        let folder = fs::canonicalize(places.folder)
            .with_context(|| format!("cannot find the folder {}", places.folder.display()))?;
        let root = resolve_links(&places.folder.join(places.root));
        sys::fs::check_folder_owner(&root)?;
        let home = places.env.home_folder().map(|home| resolve_links(&home));
        let toplevel = places.toplevel.and_then(|top| fs::canonicalize(top).ok());
        let toplevel = toplevel.filter(|top| is_ours(top) && is_ours(&top.join(".git")));
        let fits = |top: &PathBuf| too_large(top, &root, home.as_deref()).is_none();
        let toplevel = toplevel.filter(fits);
        let linked = toplevel.as_deref().and_then(git::linked_repository);
        let linked = linked.filter(|path| is_ours(path));
        let tree = toplevel.clone().unwrap_or_else(|| folder.clone());
        let temp =
            temp_folders(places.env.get_os("TMPDIR"), &[Some(&tree), home.as_deref(), Some(&root)]);
        Ok(Self { folder, root, home, toplevel, linked, tree, temp })
    }

    /// The reason why it cannot be writable, if there is one.
    fn refusal(&self) -> Option<String> {
        let is_temp = self.temp.contains(&self.tree);
        let why = too_large(&self.tree, &self.root, self.home.as_deref()).filter(|_| !is_temp)?;
        Some(format!("the working tree {} {why}", self.tree.display()))
    }
}

/// The mode where the user chose none: `workspace`, or `read-only`, with the reason, where the working tree holds more
/// than a project.
///
/// # Errors
/// The folder is gone, or nagent's root belongs to somebody else.
pub fn default_mode(places: SandboxFolders<'_>) -> Result<(SandboxMode, Option<String>)> {
    let why = Surroundings::find(places)?.refusal();
    let mode = if why.is_some() { SandboxMode::ReadOnly } else { SandboxMode::Workspace };
    Ok((mode, why))
}

/// The policy of a run, and its folders. No path has links.
#[derive(Debug)]
pub(super) struct PolicyPaths {
    pub(super) policy: SandboxPolicy,
    /// The writable folders that are not temp folders.
    pub(super) trees: Vec<PathBuf>,
    /// The tops of the working trees whose repositories are protected, including those of submodules.
    pub(super) repositories: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
    /// Caches of everyday tools. Each exists, or is made before the first command.
    caches: Vec<PathBuf>,
    /// Folders of such tools from which something runs later, made like caches.
    private: Vec<PathBuf>,
    /// The working tree, nagent's root and the home folder, which no cache may hold.
    outer: Vec<PathBuf>,
    /// The folder in which a scratch folder can be made.
    pub(super) temp: Option<PathBuf>,
    /// Whether commands may write in `TMPDIR`, or in `/tmp` without it.
    pub(super) is_tmpdir_writable: bool,
}

impl PolicyPaths {
    pub(super) fn resolve(request: &SandboxRequest, places: SandboxFolders<'_>) -> Result<Self> {
        let found = Surroundings::find(places)?;
        let refusal = found.refusal();
        let Surroundings { folder, root, home, toplevel, linked, tree, temp } = found;
        let (mut trees, mut writable) = (Vec::new(), Vec::new());
        if request.mode == SandboxMode::Workspace {
            writable.extend(temp.iter().chain(&linked).cloned());
            if !temp.contains(&tree) {
                if let Some(why) = refusal {
                    bail!(
                        "{why}, so the sandbox cannot make it writable: start in the folder of a project, or use --sandbox read-only with --write DIR"
                    );
                }
                trees.push(tree.clone());
            }
        }
        for named in &request.write {
            let path = folder.join(expand_home(named, home.as_deref()));
            let path = resolve_named(&path, &tree, &root)
                .with_context(|| format!("--write {}", named.display()))?;
            trees.extend((!trees.contains(&path)).then_some(path));
        }
        // A folder that the user names is not hidden, and neither is the run's own folder.
        let shown = [&folder, &tree].into_iter().chain(&home).chain(&trees);
        let shown: Vec<&Path> = shown.map(PathBuf::as_path).collect();
        let hidden = hidden_paths(&root, home.as_deref(), places.env, &shown);
        writable.extend(trees.iter().filter(|tree| !temp.contains(tree)).cloned());
        let (mode, no_network) = (request.mode, request.no_network);
        // Commands run the scripts of skills, which the root may hold. A link there must not show what is hidden elsewhere.
        let skills = root.join("skills");
        let is_apart = |real: &PathBuf| {
            let apart = |path: &Path| !path.starts_with(real) && !real.starts_with(path);
            *real == skills || hidden.iter().all(|hidden| apart(&hidden.path))
        };
        let real = fs::canonicalize(&skills).ok().filter(|real| real.is_dir() && is_apart(real));
        let shown = real.map(|_| skills).into_iter().collect();
        let mut policy =
            SandboxPolicy { mode, no_network, writable, hidden, shown, ..Default::default() };

        let config = places.config.map(|config| folder.join(config));
        let own = [config, places.env.executable.clone()];
        let tops = || toplevel.iter().chain(&trees);
        let submodules = tops().flat_map(|top| git::list_submodules(top));
        let mut repositories: Vec<PathBuf> = tops().cloned().chain(submodules).collect();
        repositories.sort();
        repositories.dedup();
        let by_git =
            repositories.iter().flat_map(|top| paths_named_by_config(top, home.as_deref()));
        // If a folder of hooks is the tree itself, protecting it would make the whole tree read-only.
        let by_git = by_git.map(|path| resolve_links(&path)).filter(|path| !tree.starts_with(path));
        let own = own.into_iter().flatten().map(|path| resolve_links(&path));
        let in_git = executed_paths(&repositories).into_iter();
        let read_only = own.chain(by_git).chain(in_git);
        policy.read_only = read_only.filter(|path| policy.is_writable(path)).collect();

        let list = |group| match request.mode {
            SandboxMode::Workspace => list_of_tools(group, home.as_deref(), places.env),
            _ => Vec::new(),
        };
        let (caches, private) = (list(Group::Cache), list(Group::Private));
        let installed = list(Group::Installed).into_iter().filter(|path| path.exists());
        policy.read_only.extend(installed);
        let outer: Vec<PathBuf> = [&tree, &root].into_iter().chain(&home).cloned().collect();

        let tmpdir = places.env.get_os("TMPDIR");
        let tmpdir = fs::canonicalize(folder.join(tmpdir.unwrap_or_else(|| "/tmp".as_ref())));
        let (temp, is_tmpdir_writable) =
            (temp.into_iter().next(), tmpdir.is_ok_and(|tmpdir| policy.is_writable(&tmpdir)));
        Ok(Self {
            policy,
            trees,
            repositories,
            home,
            caches,
            private,
            outer,
            temp,
            is_tmpdir_writable,
        })
    }

    /// Adds the caches and the private folders, made where they are missing. One that cannot be made, or whose link leads
    /// to more than a cache, is left out.
    pub(super) fn add_folders(&self, policy: &mut SandboxPolicy) {
        let make = |path: &PathBuf| {
            sys::fs::create_private_folder(path).ok()?;
            let real = fs::canonicalize(path).ok()?;
            let holds_more = self.outer.iter().any(|outer| outer.starts_with(&real));
            (!holds_more && real.is_dir()).then_some(real)
        };
        policy.writable.extend(self.caches.iter().filter_map(make));
        policy.private.extend(self.private.iter().filter_map(make));
    }
}

/// Returns whether a path belongs to this user or to root. Another user's `.git` above would make everything below it
/// writable.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|there| there.uid() == own || there.uid() == 0)
}

/// Returns nagent's root, and the paths of credentials that exist: in the home folder, and those that variables name. A
/// path that contains one of `shown` is not hidden.
pub fn hidden_paths(
    root: &Path,
    home: Option<&Path>,
    env: &Env,
    shown: &[&Path],
) -> Vec<HiddenPath> {
    let credentials = || names_in(Group::Credential);
    let mut paths: Vec<PathBuf> =
        home.iter().flat_map(|home| credentials().map(|name| home.join(name))).collect();
    for line in names_in(Group::Variable) {
        let (variable, replaced) = line.split_once(' ').unwrap_or((line, ""));
        for value in env.get_os(variable).iter().flat_map(std::env::split_paths) {
            let below =
                credentials().filter_map(|name| Path::new(name).strip_prefix(replaced).ok());
            match replaced {
                "" => paths.push(value),
                _ => paths.extend(below.map(|below| value.join(below))),
            }
        }
    }
    paths.push("/run/secrets".into());
    // Sockets of agents and desktops, and logins of containers.
    paths.push(format!("/run/user/{}", rustix::process::getuid().as_raw()).into());
    // Dotfiles are often elsewhere, with links to them.
    let links = paths.iter().flat_map(|path| walk_below(path, &|_| true).take(1000));
    let links = links.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let linked = links.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    let is_in_home = |path: &Path| home.is_some_and(|home| path.starts_with(home));
    let linked: Vec<_> = linked.filter(|path| path.is_file() || is_in_home(path)).collect();
    let real = paths.iter().filter_map(|path| fs::canonicalize(path).ok()).chain(linked);
    let mut paths: Vec<PathBuf> =
        real.filter(|path| !shown.iter().any(|shown| shown.starts_with(path))).collect();
    paths.extend(root.exists().then(|| root.to_owned()));
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| HiddenPath { is_folder: path.is_dir(), path }).collect()
}

/// Returns the temp folders that exist: those of the system, and `TMPDIR` unless it contains one of `others`.
fn temp_folders(tmpdir: Option<&OsStr>, others: &[Option<&Path>]) -> Vec<PathBuf> {
    let real = |path: &Path| fs::canonicalize(path).ok().filter(|real| real.is_dir());
    let holds = |folder: &Path| others.iter().flatten().any(|other| other.starts_with(folder));
    let system = ["/tmp", "/var/tmp"].into_iter().filter_map(|path| real(Path::new(path)));
    let tmpdir = tmpdir.map(Path::new).filter(|tmpdir| tmpdir.is_absolute()).and_then(real);
    let mut folders: Vec<PathBuf> = system.collect();
    folders.extend(tmpdir.filter(|folder| !holds(folder) && !folder.starts_with("/tmp")));
    folders
}

/// The reason why a working tree contains too much, if it does.
fn too_large(tree: &Path, root: &Path, home: Option<&Path>) -> Option<&'static str> {
    match () {
        () if tree.parent().is_none() => Some("is the root of the file system"),
        () if home == Some(tree) => Some("is the home folder"),
        () if home.is_some_and(|home| home.starts_with(tree)) => Some("contains the home folder"),
        () if root.starts_with(tree) => Some("contains nagent's own folder"),
        () if tree.starts_with(root) => Some("is in nagent's own folder"),
        () => None,
    }
}

/// Lists the caches, or what is in them, of the table: those that exist, and those of programs that are installed. A
/// variable may move one, and a `*` at the end stands for all names that begin so.
fn list_of_tools(group: Group, home: Option<&Path>, env: &Env) -> Vec<PathBuf> {
    let cache = |line: &'static str| {
        let mut words = line.split(' ');
        let (name, program, variable) = (words.next()?, words.next()?, words.next());
        let moved = variable.and_then(|variable| env.get_os(variable)).map(PathBuf::from);
        let path = match moved.filter(|path| path.is_absolute()) {
            Some(moved) => moved.join(name.split_once('/').map_or("", |(_, below)| below)),
            None => home?.join(name),
        };
        let is_made = || program == "-" || env.find_program(program).exists();
        (path.is_dir() || is_made()).then_some(path)
    };
    let expand = |path: PathBuf| {
        let Some(start) = path.as_os_str().as_bytes().strip_suffix(b"*") else { return vec![path] };
        let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.filter(|path| path.as_os_str().as_bytes().starts_with(start)).collect()
    };
    names_in(group).filter_map(cache).flat_map(expand).collect()
}

/// Resolves the folder of a `--write`.
fn resolve_named(named: &Path, tree: &Path, root: &Path) -> Result<PathBuf> {
    // Without a slash at the end, which would hide that it is a link.
    let named: PathBuf = named.components().collect();
    let path = fs::canonicalize(&named).context("name a folder that exists (mkdir creates one)")?;
    // A command may have put a link into the tree.
    let is_in_tree = |link: &Path| {
        let folder = link.parent().and_then(|folder| fs::canonicalize(folder).ok());
        link.is_symlink() && folder.is_some_and(|folder| folder.starts_with(tree))
    };
    let (leads_out, shown) = (named.ancestors().any(is_in_tree), path.display());
    ensure!(
        path.starts_with(tree) || !leads_out,
        "it leads out of the working tree, to {shown}; name that folder itself if you mean it"
    );
    ensure!(
        path.is_dir(),
        "it is not a folder; name one that exists (a file .git names the repository's folder; name that one, and for a linked working tree also the one that commondir in it names)"
    );
    ensure!(
        !path.starts_with(root),
        "it is in nagent's own folder, which commands in the sandbox cannot see; name another"
    );
    ensure!(path.parent().is_some(), "it is the root of the file system; use --sandbox off");
    Ok(path)
}
