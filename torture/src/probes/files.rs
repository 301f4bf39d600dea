//! Writes outside of what may be written in, by every way that leads to a file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

use super::inside::{Inside, MARK, Through, c, create, done, failed, ok, run, say, write_to};
use super::mounts::cover;
use super::uring::Ring;
use super::{Probe, With, probe};

pub(super) const PROBES: &[Probe] = &[
    probe("write-home", "append to a file of the home folder", |i| {
        write_to(i.at("home/notes.txt"))
    })
    .files(),
    probe("create-home", "make a file in the home folder", |i| create(i.at("home/new.txt")))
        .files(),
    probe("create-home-starter", "make ~/.bashrc and ~/.config/autostart/x", |i| {
        i.each(["home/.bashrc", "home/.config/autostart/x.desktop"], |name| create(i.at(name)))
    })
    .files(),
    probe("write-tool", "write into an executable of the user's PATH", |i| {
        write_to(i.at("home/.local/bin/tool"))
    })
    .files(),
    probe("sibling-prefix", "write in a folder whose name begins as the tree's", |i| {
        write_to(i.at("tree-evil/victim.txt"))
    })
    .files(),
    probe("sibling-new", "make a folder beside the tree", |i| ok(fs::create_dir(i.at("tree2"))))
        .files(),
    probe("system-folders", "make a file in /etc, /usr, /opt and others", |i| {
        i.each(["/etc", "/usr", "/opt", "/var/lib", "/root", "/boot", "/home", "/"], |folder| {
            if !i.is_sandboxed() && *folder == "/" {
                return Ok(());
            }
            cover(i, folder)?;
            create(std::path::Path::new(folder).join(format!("nagent-probe-{}", i.token())))
        })
    })
    .files(),
    probe("dot-dot", "leave the tree by ..", |i| write_to(i.tree("work/../../outside/victim.txt")))
        .files(),
    probe("relative", "leave the tree by a relative path", |_| write_to("../outside/victim.txt"))
        .files(),
    probe("change-folder", "chdir out, then write by a bare name", |i| {
        ok(std::env::set_current_dir(i.at("outside")))?;
        write_to("victim.txt")
    })
    .files(),
    probe("planted-link", "write through a link that stands in the tree", |i| {
        write_to(i.tree("work/link"))
    })
    .files(),
    probe("planted-parent-link", "make a file below a link that stands in the tree", |i| {
        create(i.tree("work/link-folder/new.txt"))
    })
    .files(),
    probe("own-link", "make a link and write through it", |i| {
        let link = i.at("tmp/own-link");
        let link = if symlink(i.victim_file(), &link).is_ok() { link } else { i.tree("work/link") };
        write_to(link)
    })
    .files(),
    probe("link-of-links", "write through a chain of links and ..", |i| {
        write_to(i.tree("work/link-folder/../outside/./victim.txt"))
    })
    .files(),
    probe("hard-link", "make a hard link of a file outside, and write by that name", |i| {
        let link = i.tree("work/hard");
        ok(fs::hard_link(i.victim_file(), &link))?;
        write_to(link)
    })
    .files(),
    probe("hard-link-into-temp", "make a hard link of a file outside in the temp folder", |i| {
        ok(fs::hard_link(i.victim_file(), i.at("tmp/hard")))
    })
    .files(),
    probe("rename-out", "move a file of the tree out", |i| {
        ok(fs::rename(i.tree("work/file.txt"), i.at("outside/moved.txt")))
    })
    .files(),
    probe("rename-over", "move a file of the tree over one outside", |i| {
        ok(fs::rename(i.tree("work/file.txt"), i.victim_file()))
    })
    .files(),
    probe("rename-in", "move a file from outside into the tree", |i| {
        ok(fs::rename(i.victim_file(), i.tree("work/moved.txt")))
    })
    .files(),
    probe("rename-exchange", "let a file of the tree and one outside change places", |i| {
        let (ours, theirs) = (c(i.tree("work/file.txt")), c(i.victim_file()));
        // SAFETY: two strings that live on.
        let result = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                ours.as_ptr(),
                libc::AT_FDCWD,
                theirs.as_ptr(),
                libc::RENAME_EXCHANGE,
            )
        };
        done(result, "renameat2").map(drop)
    })
    .files(),
    probe("rename-folder", "move the tree's own folder away", |i| {
        ok(fs::rename(i.at("tree"), i.at("tree-moved")))
    })
    .files(),
    probe("proc-self-root", "write by /proc/self/root", |i| {
        write_to(format!("/proc/self/root{}", i.victim_file().display()))
    })
    .files(),
    probe("proc-self-cwd", "write by /proc/self/cwd/..", |_| {
        write_to("/proc/self/cwd/../outside/victim.txt")
    })
    .files(),
    probe("proc-root-of-others", "write by the root and the folder of other processes", |i| {
        let victim = i.victim_file();
        let ways = [
            format!("/proc/{}/root{}", i.victim(), victim.display()),
            format!("/proc/{}/cwd/outside/victim.txt", i.victim()),
        ];
        i.each(ways, |path| write_to(path))
    })
    .files(),
    probe(
        "reopen-descriptor",
        "open for reading, and again for writing by /dev/fd and /proc/self/fd",
        |i| {
            let file = ok(File::open(i.victim_file()))?;
            i.each(["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"], |folder| {
                write_to(format!("{folder}/{}", file.as_raw_fd()))
            })
        },
    )
    .files(),
    probe("reopen-path-descriptor", "open as a mere path, and again for writing", |i| {
        let file =
            ok(OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(i.victim_file()))?;
        write_to(format!("/proc/self/fd/{}", file.as_raw_fd()))
    })
    .files(),
    probe("truncate", "cut a file off by its name, and by opening it", |i| {
        let path = c(i.victim_file());
        // SAFETY: a string that lives on.
        let cut = done(unsafe { libc::truncate(path.as_ptr(), 3) }, "truncate").map(drop);
        let open =
            ok(OpenOptions::new().write(true).truncate(true).open(i.victim_file())).map(drop);
        cut.or(open)
    })
    .files(),
    probe("truncate-for-reading", "cut a file off while opening it to read", |i| {
        let path = c(i.victim_file());
        // SAFETY: a string that lives on.
        done(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_TRUNC) }, "open").map(drop)
    })
    .files(),
    probe("unlink", "remove a file", |i| ok(fs::remove_file(i.victim_file()))).files(),
    probe("rmdir", "remove a folder", |i| ok(fs::remove_dir(i.at("outside/empty")))).files(),
    probe("mkdir", "make a folder", |i| ok(fs::create_dir(i.at("outside/new")))).files(),
    probe("symlink", "make a link", |i| ok(symlink("/", i.at("outside/link")))).files(),
    probe("mknod-outside", "make a FIFO, a socket's name and a file by mknod", |i| {
        i.each(
            [("fifo", libc::S_IFIFO), ("socket", libc::S_IFSOCK), ("file", libc::S_IFREG)],
            |(name, kind)| {
                let path = c(i.at("outside").join(name));
                // SAFETY: a string that lives on.
                done(unsafe { libc::mknod(path.as_ptr(), kind | 0o600, 0) }, "mknod").map(drop)
            },
        )
    })
    .files(),
    probe("nameless-file", "make a file without a name outside, and give it one", |i| {
        let file =
            ok(OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(i.at("outside")))?;
        name_it(&file, i, "outside/nameless")
    })
    .files(),
    probe(
        "nameless-file-out",
        "make a file without a name in a temp folder, and give it one outside",
        |i| {
            let made = |folder: &str| {
                OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(i.at(folder))
            };
            let file = ok(made("tmp").or_else(|_| made("tree/work")))?;
            name_it(&file, i, "outside/nameless")
        },
    )
    .files(),
    probe("copy-file-range", "let the kernel copy a file out", |i| {
        let from = ok(File::open(i.tree("work/file.txt")))?;
        let to = ok(OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(i.at("outside/copied")))?;
        let none = std::ptr::null_mut::<libc::off64_t>();
        // SAFETY: two open descriptors, no offsets.
        done(
            unsafe { libc::copy_file_range(from.as_raw_fd(), none, to.as_raw_fd(), none, 4, 0) }
                as i64,
            "copy_file_range",
        )
        .map(drop)
    })
    .files(),
    probe("chmod", "change modes by chmod, fchmod, fchmodat2", |i| {
        let path = c(i.victim_file());
        i.each(["chmod", "fchmod", "fchmodat2"], |way| {
            let mode = fs::Permissions::from_mode(0o777);
            match *way {
                "chmod" => ok(fs::set_permissions(i.victim_file(), mode)),
                "fchmod" => {
                    ok(File::open(i.victim_file()).and_then(|file| file.set_permissions(mode)))
                }
                // SAFETY: a string that lives on. 452 is fchmodat2.
                _ => done(
                    unsafe { libc::syscall(452, libc::AT_FDCWD, path.as_ptr(), 0o755, 0) },
                    "fchmodat2",
                )
                .map(drop),
            }
        })
    })
    .files()
    .gap("chmod"),
    probe("chown", "change a file's group", |i| {
        let there = ok(fs::metadata(i.victim_file()))?;
        ok(std::os::unix::fs::chown(i.victim_file(), Some(there.uid()), Some(there.gid())))
    })
    .files()
    .gap("chown"),
    probe("utimes", "change a file's times", |i| {
        let path = c(i.victim_file());
        let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
        // SAFETY: a string and two times that live on.
        done(
            unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), 0) },
            "utimensat",
        )
        .map(drop)
    })
    .files()
    .gap("times and attributes"),
    probe("setxattr", "set and remove extended attributes", |i| {
        let (path, name) = (c(i.victim_file()), c("user.probe"));
        // SAFETY: strings that live on, four bytes.
        done(
            unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), c"1234".as_ptr().cast(), 4, 0) },
            "setxattr",
        )
        .map(drop)
    })
    .files()
    .gap("attributes"),
    probe("chattr", "set a file's flags by ioctl and by file_setattr", |i| {
        let file = ok(File::open(i.victim_file()))?;
        let mut flags: libc::c_long = 0;
        let fd = file.as_raw_fd();
        // FS_NODUMP_FL, which does nothing else.
        // SAFETY: an open descriptor and a long that lives on.
        done(unsafe { libc::ioctl(fd, libc::FS_IOC_GETFLAGS, &raw mut flags) }, "FS_IOC_GETFLAGS")?;
        flags |= 0x40;
        // SAFETY: as above.
        done(unsafe { libc::ioctl(fd, libc::FS_IOC_SETFLAGS, &raw const flags) }, "FS_IOC_SETFLAGS")
            .map(drop)
    })
    .files()
    .gap("attributes"),
    probe("mknod-device", "make a device in the tree and in the temp folder", |i| {
        i.each(
            [("tree/work/null", libc::S_IFCHR, 1, 3), ("tmp/disk", libc::S_IFBLK, 7, 0)],
            |(name, kind, major, minor)| {
                let path = c(i.at(name));
                // SAFETY: a string that lives on.
                done(
                    unsafe {
                        libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(*major, *minor))
                    },
                    "mknod",
                )
                .map(drop)
            },
        )
    }),
    probe("inherited-file", "write by a descriptor that was open before", |_| {
        // SAFETY: seven bytes of a constant; the descriptor is open or is not.
        done(unsafe { libc::write(7, MARK.as_ptr().cast(), MARK.len()) } as i64, "write").map(drop)
    })
    .with(With::OpenFile)
    .files(),
    probe("inherited-folder", "make a file from a folder that was open before", |_| {
        // SAFETY: a constant string; the descriptor is open or is not.
        done(
            unsafe {
                libc::openat(7, c"from-descriptor".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600)
            },
            "openat",
        )
        .map(drop)
    })
    .with(With::OpenFolder)
    .files(),
    probe("uring-write", "let io_uring open a file outside for writing", |i| {
        let mut ring = Ring::new()?;
        let fd = ring.open(&c(i.victim_file()), libc::O_WRONLY | libc::O_TRUNC)?;
        say(&format!("descriptor {fd}"));
        Ok(())
    })
    .files(),
    probe("nested-sandbox", "start nagent-sandbox again with a wider sandbox", |i| {
        let (sandbox, outside) = (i.text("sandbox").to_owned(), i.at("outside"));
        let (outside, victim) =
            (outside.display().to_string(), i.victim_file().display().to_string());
        run(
            &sandbox,
            &[
                "--root",
                &i.at("home/.nagent").display().to_string(),
                "--write",
                &outside,
                "--",
                "sh",
                "-c",
                &format!("echo x >> '{victim}'"),
            ],
        )
        .map(drop)
    })
    .files(),
    probe("core-dump", "die with a core dump", |_| {
        let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a limit that lives on; the child does nothing but die.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &raw const all);
            let child = libc::fork();
            if child == 0 {
                libc::signal(libc::SIGABRT, libc::SIG_DFL);
                libc::abort();
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            if libc::WCOREDUMP(status) { Ok(()) } else { Err("no core".to_owned()) }
        }
    }),
    probe("tree-when-read-only", "write in the tree in mode read-only", |i| {
        i.each(["work/file.txt", "work/new.txt", "top.txt"], |name| write_to(i.tree(name)))
    })
    .only_read_only(),
    probe("temp-when-read-only", "write in temp folders of others in mode read-only", |i| {
        let shared = format!("/tmp/nagent-probe-{}", i.token());
        i.each(
            [
                i.at("tmp/new.txt"),
                shared.into(),
                format!("/var/tmp/nagent-probe-{}", i.token()).into(),
            ],
            |path: &std::path::PathBuf| create(path),
        )
    })
    .only_read_only(),
];

/// Gives a file without a name one.
fn name_it(file: &File, i: &Inside, name: &str) -> Through {
    let (mut file, to) = (file, c(i.at(name)));
    let _ = file.write_all(MARK.as_bytes());
    let from = c(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // SAFETY: two strings that live on.
    let result = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    if result < 0 { Err(failed("linkat")) } else { Ok(()) }
}
