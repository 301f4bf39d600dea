//! What belongs to nagent and to its user: the root with conversations and settings, credentials, keys in the environment.

use std::fs;
use std::os::unix::fs::symlink;

use super::inside::{Through, c, create, done, ok, read_from, run, say, shown, write_to};
use super::mounts::private;
use super::{Probe, With, probe};

/// Files of the home folder that hold credentials.
pub(super) const CREDENTIALS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/secring",
    ".kube/config",
    ".docker/config.json",
    ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
];

/// Files of the root.
const ROOT: &[&str] = &["config.json", "conversations/talk.md", "outputs/one.txt"];

pub(super) const PROBES: &[Probe] = &[
    probe("root-read", "read the config, a conversation, an output", |i| {
        i.each(ROOT, |name| read_from(i.at("home/.nagent").join(name)))
    })
    .files(),
    probe("root-list", "list the root's folders", |i| {
        let names: Vec<_> = ok(fs::read_dir(i.at("home/.nagent/conversations")))?
            .flatten()
            .map(|e| e.file_name())
            .collect();
        shown(format!("{names:?}").as_bytes())
    })
    .files(),
    probe("root-stat", "learn a conversation's size by its name", |i| {
        let there = ok(fs::metadata(i.at("home/.nagent/conversations/talk.md")))?;
        say(&there.len().to_string());
        Ok(())
    })
    .gap("size and times"),
    probe("root-write", "write the config and a conversation, make a file", |i| {
        i.each(["config.json", "conversations/talk.md", "bin-new"], |name| {
            write_to(i.at("home/.nagent").join(name))
        })
    })
    .files(),
    probe("root-rename-over", "move a file over the config", |i| {
        ok(fs::rename(i.tree("work/file.txt"), i.at("home/.nagent/config.json")))
    })
    .files(),
    probe("root-move-away", "move the root away", |i| {
        ok(fs::rename(i.at("home/.nagent"), i.at("home/gone")))
    })
    .files(),
    probe("root-hard-link", "make a hard link of a conversation", |i| {
        let link = i.tree("work/talk");
        ok(fs::hard_link(i.at("home/.nagent/conversations/talk.md"), &link))?;
        read_from(link)
    })
    .files(),
    probe("root-by-planted-link", "read a conversation by a link in the tree", |i| {
        read_from(i.tree("work/link-root/config.json"))
    })
    .files(),
    probe("root-by-own-link", "make a link to the root, and read by it", |i| {
        let link = i.at("tmp/link-root");
        let link = if symlink(i.at("home/.nagent"), &link).is_ok() {
            link
        } else {
            i.tree("work/link-root")
        };
        read_from(link.join("config.json"))
    })
    .files(),
    probe("root-by-proc", "read a conversation by /proc/*/root and /proc/*/cwd", |i| {
        let path = i.at("home/.nagent/config.json");
        let mut why = "no process is there".to_owned();
        for entry in ok(fs::read_dir("/proc"))?.flatten() {
            for way in
                [format!("root{}", path.display()), "cwd/home/.nagent/config.json".to_owned()]
            {
                match read_from(entry.path().join(way)) {
                    Ok(()) => return Ok(()),
                    Err(error) if entry.file_name() == "self" => why = error,
                    Err(_) => {}
                }
            }
        }
        Err(why)
    })
    .files(),
    probe("root-by-mount", "mount the root's folder elsewhere, and read there", |i| {
        private(i)?;
        let (from, to) = (c(i.at("home")), c(i.at("outside/empty")));
        // SAFETY: two strings that live on, and none.
        done(
            unsafe {
                libc::mount(
                    from.as_ptr(),
                    to.as_ptr(),
                    std::ptr::null(),
                    libc::MS_BIND,
                    std::ptr::null(),
                )
            },
            "mount",
        )?;
        read_from(i.at("outside/empty/.nagent/config.json"))
    })
    .files(),
    probe("root-by-handle", "open a conversation by its handle, past every folder", |i| {
        // struct file_handle: its length, its kind, the bytes.
        let mut handle = [0_u8; 8 + 128];
        handle[0] = 128;
        let (mut mount, path) = (0_i32, c(i.at("home/.nagent/config.json")));
        // SAFETY: a string, a handle of the length that it says, a number.
        unsafe {
            let named = libc::syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                path.as_ptr(),
                handle.as_mut_ptr(),
                &raw mut mount,
                0,
            );
            done(named, "name_to_handle_at")?;
            let folder = c(i.at("tree"));
            let folder = libc::open(folder.as_ptr(), libc::O_RDONLY);
            let fd = done(
                libc::syscall(
                    libc::SYS_open_by_handle_at,
                    folder,
                    handle.as_mut_ptr(),
                    libc::O_RDONLY,
                ),
                "open_by_handle_at",
            )?;
            read_from(format!("/proc/self/fd/{fd}"))
        }
    }),
    probe("root-by-disk", "open the disk that it lies on", |i| {
        i.each([i.text("disk").to_owned()], |disk| ok(fs::File::open(disk)).map(drop))
    }),
    probe("credentials-read", "read keys and tokens of the home folder", |i| {
        i.each(CREDENTIALS, |name| read_from(i.at("home").join(name)))
    })
    .files(),
    probe("credentials-list", "list the folders that they are in", |i| {
        i.each([".ssh", ".aws", ".gnupg"], |name| {
            let entries = ok(fs::read_dir(i.at("home").join(name)))?.count();
            if entries > 0 { Ok(()) } else { Err("empty".to_owned()) }
        })
    })
    .files(),
    probe("credentials-write", "make ~/.ssh/authorized_keys and ~/.ssh/rc", |i| {
        i.each([".ssh/authorized_keys", ".ssh/rc"], |name| create(i.at("home").join(name)))
    })
    .files(),
    probe("environment", "read keys in its own environment", |_| {
        let all: Vec<String> =
            std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
        shown(all.join("\n").as_bytes())
    }),
    probe("environment-of-others", "read keys in the environment of every process", |i| {
        all_of_proc("environ", i.is_sandboxed())
    }),
    probe("command-lines", "read keys in the command line of every process", |i| {
        all_of_proc("cmdline", i.is_sandboxed())
    })
    .gap("command lines"),
    probe("inherited-secret", "read by a descriptor that was open before", |_| {
        let mut bytes = [0_u8; 4096];
        // SAFETY: a buffer of its length; the descriptor is open or is not.
        let count = done(
            unsafe { libc::pread(7, bytes.as_mut_ptr().cast(), bytes.len(), 0) } as i64,
            "pread",
        )?;
        shown(&bytes[..usize::try_from(count).unwrap_or(0)])
    })
    .with(With::OpenSecret),
    probe("proc-descriptors-of-others", "read by the descriptors of every process", |_| {
        let mut through = false;
        for process in ok(fs::read_dir("/proc"))?.flatten() {
            if process.file_name() == std::process::id().to_string().as_str() {
                continue;
            }
            for fd in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
                let is_ours = fs::read_link(fd.path())
                    .is_ok_and(|to| to.ends_with("home/.nagent/config.json"));
                through |= is_ours && read_from(fd.path()).is_ok();
            }
        }
        if through { Ok(()) } else { Err("none has it".to_owned()) }
    }),
    probe("search-for-root", "find a conversation by searching everything", |i| {
        let found = run("grep", &["-rhs", "SECRET-", &i.at("home").display().to_string()])?;
        shown(found.as_bytes())
    }),
];

/// Looks for a secret in a file of every process.
fn all_of_proc(file: &str, _is_sandboxed: bool) -> Through {
    let own = std::process::id().to_string();
    for process in ok(fs::read_dir("/proc"))?.flatten() {
        let name = process.file_name();
        if name == own.as_str() || name == "self" || name == "thread-self" {
            continue;
        }
        if fs::read(process.path().join(file)).is_ok_and(|bytes| shown(&bytes).is_ok()) {
            return Ok(());
        }
    }
    Err("no process shows one".to_owned())
}
