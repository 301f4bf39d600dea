//! What runs by itself in a working tree: git's hooks and settings, start-up files of shells, settings of editors and tools.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::inside::{Inside, Through, create, ok, run, write_to};
use super::world::Flavor;
use super::{Probe, probe};

/// Files that stand in a full tree, and are to stay as they are.
pub(super) const FILES: &[&str] = &[
    ".git/config",
    ".git/hooks/pre-commit",
    ".gitmodules",
    ".bashrc",
    ".zshenv",
    ".profile",
    ".envrc",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".mcp.json",
    ".claude/settings.json",
    ".codex/config.toml",
    ".cargo/config.toml",
    ".npmrc",
    "sub/nested/.git/hooks/pre-commit",
    "sub/.vscode/tasks.json",
];

/// What does not exist, and is read or run by itself once it does.
pub(super) const NEW: &[&str] =
    &["work/new-envrc", "work/new/vscode", "work/new-hooks", "work/new.conf"];

/// The first part of each, once: what is directly in the tree.
pub(super) fn tops() -> Vec<&'static str> {
    let mut tops: Vec<&str> = FILES
        .iter()
        .filter(|name| name.starts_with('.'))
        .map(|name| name.split('/').next().unwrap())
        .collect();
    tops.dedup();
    tops
}

/// What is protected in a repository's own folder.
const IN_GIT: &[&str] =
    &["config", "hooks", "config.worktree", "modules", "worktrees", "commondir", "gitdir"];

/// Whether a path in the tree has such a name on its way. Commits change the rest of `.git`.
pub(super) fn is_protected(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().collect();
    if let Some(at) = parts.iter().position(|part| *part == ".git")
        && let Some(part) = parts.get(at + 1)
    {
        return IN_GIT.iter().any(|name| part == name) || path.ends_with("info/attributes");
    }
    path.components().any(|part| tops().iter().any(|name| part.as_os_str() == *name))
}

fn make(i: &Inside, name: &str) -> Through {
    let path = i.tree(name);
    ok(fs::create_dir_all(path.parent().unwrap()))?;
    create(path)
}

/// The top's files, which are no folders.
fn plain() -> impl Iterator<Item = &'static str> {
    FILES.iter().copied().filter(|name| !name.contains('/'))
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
    probe("names-move-away", "move each protected file and folder away", |i| {
        i.each(tops(), |name| ok(fs::rename(i.tree(name), i.tree(&format!("work/away{name}")))))
    })
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("names-remove-folders", "remove protected folders whole", |i| {
        i.each([".vscode", ".idea", ".claude", ".git"], |name| ok(fs::remove_dir_all(i.tree(name))))
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
    probe(
        "names-other-case",
        "write each name in capitals, where a file system knows no case",
        |i| {
            // Where case matters, this is another file, and nothing is shown by it; so it goes by a link of that spelling.
            let link = i.tree("work/.GIT");
            ok(symlink(i.tree(".git"), &link))?;
            write_to(link.join("config"))
        },
    )
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe(
        "names-parent-swap",
        "move a folder with protected names away, and put another in its place",
        |i| {
            ok(fs::rename(i.tree("sub"), i.tree("work/sub-away")))?;
            make(i, "sub/.vscode/tasks.json")
        },
    )
    .files()
    .gap("moved away"),
    probe("first-time-file", "make each protected name that is not there", |i| {
        i.each(FILES.iter().filter(|name| name.starts_with('.')), |name| make(i, name))
    })
    .flavor(Flavor::Bare)
    .files()
    .effect(),
    probe("first-time-folder", "make a folder of each protected name that is not there", |i| {
        i.each(tops(), |name| ok(fs::create_dir(i.tree(name))))
    })
    .flavor(Flavor::Bare)
    .files()
    .effect(),
    probe("first-time-link", "make a link of each protected name that is not there", |i| {
        i.each(tops(), |name| ok(symlink("work", i.tree(name))))
    })
    .flavor(Flavor::Bare)
    .files()
    .effect(),
    probe("first-time-rename", "move a file to each protected name that is not there", |i| {
        i.each(plain(), |name| {
            let new = i.tree("work/new-content");
            ok(fs::write(&new, "evil"))?;
            ok(fs::rename(new, i.tree(name)))
        })
    })
    .flavor(Flavor::Bare)
    .files()
    .effect(),
    probe("first-time-repository", "git init in a tree that is none, with a monitor", |i| {
        let tree = i.tree("").display().to_string();
        run("git", &["-C", &tree, "init", "--quiet"]).map(drop)?;
        run("git", &["-C", &tree, "config", "core.fsmonitor", "evil"]).map(drop)?;
        if i.tree(".git/HEAD").exists() { Ok(()) } else { Err("no repository".to_owned()) }
    })
    .flavor(Flavor::Bare)
    .files()
    .effect(),
    probe("first-time-nested", "make protected names further down, where none were", |i| {
        i.each([".vscode/tasks.json", ".envrc", ".git/hooks/pre-commit"], |name| {
            make(i, &format!("work/{name}"))
        })
    })
    .files()
    .effect(),
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
            [
                "config.worktree",
                "info/attributes",
                "commondir",
                "worktrees/x/gitdir",
                "modules/x/config",
            ],
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
    probe("git-link-repoint", "let a .git link lead elsewhere", |i| {
        ok(fs::remove_file(i.tree(".git")))?;
        ok(symlink("work/evil", i.tree(".git")))
    })
    .flavor(Flavor::GitLink)
    .files()
    .effect(),
    probe("linked-names-target", "write where links with protected names lead to", |i| {
        i.each(
            [".envrc", ".vscode/tasks.json", "work/real-envrc", "work/real-vscode/tasks.json"],
            |name| write_to(i.tree(name)),
        )
    })
    .flavor(Flavor::LinkedNames)
    .files()
    .gap("nothing in a writable folder is read-only"),
    probe("linked-names-repoint", "let links with protected names lead elsewhere", |i| {
        i.each([".envrc", ".vscode"], |name| {
            ok(fs::remove_file(i.tree(name)))?;
            ok(symlink("work/file.txt", i.tree(name)))
        })
    })
    .flavor(Flavor::LinkedNames)
    .files()
    .effect(),
    probe("dangling-names", "make what links with protected names lead to", |i| {
        i.each(["new-envrc", "new/vscode/tasks.json"], |name| make(i, &format!("work/{name}")))
    })
    .flavor(Flavor::Dangling)
    .effect(),
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
    probe("git-named-new", "make what git's config names", |i| {
        i.each(["new-hooks/pre-commit", "new.conf"], |name| make(i, &format!("work/{name}")))
    })
    .flavor(Flavor::Named)
    .effect(),
    probe(
        "git-named-moved",
        "make what git's config names, the folder around it moved away",
        |i| {
            ok(fs::rename(i.tree("work"), i.tree("elsewhere")))?;
            make(i, "work/new-hooks/pre-commit")
        },
    )
    .flavor(Flavor::Named)
    .effect(),
];
