//! What git runs and no diff shows in the repository of a working tree: its config and hooks, and what the config names.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::inside::{Inside, Through, create, ok, run, write_to};
use super::{Probe, probe};

/// How the tree looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flavor {
    /// Every protected name is there.
    Full,
    /// `.git` is a file that leads to a folder of the tree.
    GitFile,
    /// `.git` is a link to one.
    GitLink,
    /// The repository's config names files and folders of the tree.
    Named,
}

/// Files that are in a full tree, and are to stay as they are.
pub(super) const FILES: &[&str] = &[".git/config", ".git/hooks/pre-commit"];

/// What is protected in a repository's own folder.
const IN_GIT: &[&str] = &[
    "config",
    "hooks",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
    "commondir",
];

/// Whether a path in the tree is one of these. Commits change the rest of `.git`.
pub(super) fn is_protected(path: &Path) -> bool {
    let folders = [".git", "work/real-git"].into_iter();
    folders
        .filter_map(|folder| path.strip_prefix(folder).ok())
        .any(|inside| IN_GIT.iter().any(|name| inside.starts_with(name)))
}

fn make(i: &Inside, name: &str) -> Through {
    let path = i.tree(name);
    ok(fs::create_dir_all(path.parent().unwrap()))?;
    create(path)
}

pub(super) const PROBES: &[Probe] = &[
    probe("names-append", "append to each protected file", |i| {
        i.each(FILES, |name| write_to(i.tree(name)))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-truncate", "cut each protected file off", |i| {
        i.each(FILES, |name| {
            ok(OpenOptions::new().write(true).truncate(true).open(i.tree(name))).map(drop)
        })
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-rename-over", "move a new file over each protected one", |i| {
        i.each(FILES, |name| {
            let new = i.at("tmp/new-content");
            let new = if fs::write(&new, "evil").is_ok() { new } else { i.tree("work/file.txt") };
            ok(fs::rename(&new, i.tree(name)).or_else(|_| {
                let near = i.tree("work/new-content");
                fs::write(&near, "evil").and_then(|()| fs::rename(&near, i.tree(name)))
            }))
        })
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-unlink", "remove each protected file", |i| {
        i.each(FILES, |name| ok(fs::remove_file(i.tree(name))))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-move-away", "move git's own folder away", |i| {
        ok(fs::rename(i.tree(".git"), i.tree("work/away")))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-remove-folders", "remove git's own folder whole", |i| {
        ok(fs::remove_dir_all(i.tree(".git")))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe(
        "names-hard-link",
        "make a hard link of each protected file, and write by that name",
        |i| {
            i.each(FILES, |name| {
                let link = i.tree("work/hard-name");
                let _ = fs::remove_file(&link);
                ok(fs::hard_link(i.tree(name), &link))?;
                write_to(link)
            })
        },
    )
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-replace-by-link", "put a link in the place of each protected file", |i| {
        i.each(FILES, |name| {
            ok(fs::remove_file(i.tree(name)))?;
            ok(symlink("/dev/null", i.tree(name)))
        })
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-new-hook", "make a hook", |i| create(i.tree(".git/hooks/post-checkout")))
        .files()
        .gap("nothing in a writable folder is read-only"),
    probe("git-hook-mode", "make a hook executable", |i| {
        ok(fs::set_permissions(i.tree(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o777)))
    })
    .files()
    .gap("chmod"),
    probe("git-config-command", "let git config set core.fsmonitor", |i| {
        run("git", &["-C", &i.tree("").display().to_string(), "config", "core.fsmonitor", "evil"])
            .map(drop)
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-config-lock", "write config.lock, and move it over", |i| {
        ok(fs::write(i.tree(".git/config.lock"), "[core]\n\tfsmonitor = evil\n"))?;
        ok(fs::rename(i.tree(".git/config.lock"), i.tree(".git/config")))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-worktree-config", "make config.worktree, info/attributes, commondir", |i| {
        i.each(
            ["config.worktree", "info/attributes", "objects/info/alternates", "commondir"],
            |name| make(i, &format!(".git/{name}")),
        )
    })
    .files()
    .effect(),
    probe("git-file-repoint", "let a .git file name another repository", |i| {
        ok(fs::write(i.tree(".git"), "gitdir: work/evil\n"))
    })
    .flavor(Flavor::GitFile)
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-file-target", "write a hook where a .git file leads to", |i| {
        i.each(["hooks/pre-commit", "config"], |name| write_to(i.tree("work/real-git").join(name)))
    })
    .flavor(Flavor::GitFile)
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-link-target", "write a hook where a .git link leads to", |i| {
        i.each(["work/real-git/hooks/pre-commit", ".git/config"], |name| write_to(i.tree(name)))
    })
    .flavor(Flavor::GitLink)
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("git-named-there", "change what git's config names", |i| {
        i.each(["monitor", "shared.conf", "clean.sh"], |name| {
            let path = i.tree("work").join(name);
            write_to(&path).or_else(|_| {
                ok(fs::remove_file(&path))?;
                create(&path)
            })
        })
    })
    .flavor(Flavor::Named)
    .files()
    .gap("nothing in a writable folder is read-only"),
];
