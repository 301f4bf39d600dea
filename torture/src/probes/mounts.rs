//! Mounts, namespaces and roots: ways to another view of the file system.
//!
//! Without the sandbox, whatever mounts does so in a namespace of its own; the machine's mounts are never touched.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::null;

use super::inside::{Inside, Through, any, c, create, done, ok, run, write_to};
use super::{Probe, probe};

/// A mount namespace of its own, whose changes nobody sees. In the sandbox it is tried, and what follows is tried anyway.
pub(super) fn private(i: &Inside) -> Through {
    // SAFETY: no pointers.
    let alone = done(unsafe { libc::unshare(libc::CLONE_NEWNS) }, "unshare(CLONE_NEWNS)");
    let alone =
        alone.and_then(|_| mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE));
    if i.is_sandboxed() { Ok(()) } else { alone }
}

/// Without the sandbox: an empty folder of its own in the place of a folder of the system.
pub(super) fn cover(i: &Inside, folder: &str) -> Through {
    if i.is_sandboxed() {
        return Ok(());
    }
    private(i)?;
    mount(Some(c"none"), Path::new(folder), Some(c"tmpfs"), 0)
}

fn mount(from: Option<&CStr>, to: &Path, kind: Option<&CStr>, flags: libc::c_ulong) -> Through {
    let to = c(to);
    let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: strings that live on, or none.
    done(unsafe { libc::mount(text(from), to.as_ptr(), text(kind), flags, null()) }, "mount")
        .map(drop)
}

fn bind(from: &Path, to: &Path) -> Through {
    mount(Some(&c(from)), to, None, libc::MS_BIND)
}

/// Without the sandbox: a folder outside that is read-only, as it would be within.
fn read_only(i: &Inside, folder: &Path) -> Through {
    private(i)?;
    if i.is_sandboxed() {
        return Ok(());
    }
    bind(folder, folder)?;
    mount(None, folder, None, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY)
}

pub(super) const PROBES: &[Probe] = &[
    probe("remount-writable", "remount a read-only folder writable", |i| {
        let outside = i.at("outside");
        read_only(i, &outside)?;
        let remounted = mount(None, &outside, None, libc::MS_BIND | libc::MS_REMOUNT);
        let remounted = remounted.or_else(|why| {
            // In the sandbox all of it is one mount; without, the first one was enough.
            if i.is_sandboxed() {
                mount(None, Path::new("/"), None, libc::MS_BIND | libc::MS_REMOUNT)
            } else {
                Err(why)
            }
        });
        remounted?;
        write_to(i.at("outside/victim.txt"))
    })
    .files(),
    probe("remount-protected", "remount .git writable", |i| {
        let git = i.tree(".git");
        read_only(i, &git)?;
        mount(None, &git, None, libc::MS_BIND | libc::MS_REMOUNT)?;
        write_to(git.join("config"))
    })
    .files(),
    probe("bind-over", "mount a folder of its own over one outside", |i| {
        private(i)?;
        bind(&i.tree("work"), &i.at("outside"))
    }),
    probe("bind-into-tree", "mount a folder outside into the tree, and write there", |i| {
        private(i)?;
        bind(&i.at("outside"), &i.tree("work/folder"))?;
        write_to(i.tree("work/folder/victim.txt"))
    })
    .files(),
    probe("unmount-protection", "take the mounts over .git and the root away", |i| {
        private(i)?;
        i.each([i.tree(".git"), i.at("home/.nagent")], |folder| {
            if !i.is_sandboxed() {
                bind(folder, folder)?;
            }
            let folder = c(folder);
            // SAFETY: a string that lives on.
            done(unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) }, "umount2").map(drop)
        })
    }),
    probe("mount-tmpfs", "mount a file system of its own", |i| {
        private(i)?;
        mount(Some(c"none"), &i.tree("work/folder"), Some(c"tmpfs"), 0)
    }),
    probe("mount-proc", "mount another /proc", |i| {
        private(i)?;
        mount(Some(c"proc"), &i.tree("work/folder"), Some(c"proc"), 0)
    }),
    probe("fsopen", "mount by fsopen, fsmount", |i| {
        private(i)?;
        // SAFETY: constant strings.
        unsafe {
            let fs = done(libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0), "fsopen")?;
            let create = 6; // FSCONFIG_CMD_CREATE
            done(
                libc::syscall(libc::SYS_fsconfig, fs, create, null::<u8>(), null::<u8>(), 0),
                "fsconfig",
            )?;
            done(libc::syscall(libc::SYS_fsmount, fs, 0, 0), "fsmount").map(drop)
        }
    }),
    probe("open-tree", "copy a mount by open_tree, and move it with move_mount", |i| {
        private(i)?;
        let (from, to) = (c(i.at("outside")), c(i.tree("work/folder")));
        // SAFETY: strings that live on.
        unsafe {
            // OPEN_TREE_CLONE is 1, MOVE_MOUNT_F_EMPTY_PATH is 4.
            let tree = done(
                libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, from.as_ptr(), 1),
                "open_tree",
            )?;
            let moved = libc::syscall(
                libc::SYS_move_mount,
                tree,
                c"".as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                4,
            );
            done(moved, "move_mount").map(drop)
        }
    }),
    probe("mount-setattr", "take read-only from a mount by mount_setattr", |i| {
        let outside = i.at("outside");
        read_only(i, &outside)?;
        let attributes: [u64; 4] = [0, 1, 0, 0]; // clear MOUNT_ATTR_RDONLY
        i.each([if i.is_sandboxed() { Path::new("/") } else { &outside }], |folder| {
            let folder = c(folder);
            // SAFETY: a string and attributes of the length given.
            let set = unsafe {
                libc::syscall(
                    libc::SYS_mount_setattr,
                    libc::AT_FDCWD,
                    folder.as_ptr(),
                    0,
                    attributes.as_ptr(),
                    32,
                )
            };
            done(set, "mount_setattr").map(drop)
        })?;
        write_to(outside.join("victim.txt"))
    })
    .files(),
    probe("pivot-root", "make the tree the root", |i| {
        private(i)?;
        let folder = i.tree("work");
        if !i.is_sandboxed() {
            bind(&folder, &folder)?;
        }
        let (new, old) = (c(&folder), c(folder.join("folder")));
        // SAFETY: strings that live on.
        done(
            unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) },
            "pivot_root",
        )
        .map(drop)
    }),
    probe("chroot", "make a folder the root", |i| {
        let folder = c(i.tree("work"));
        // SAFETY: a string that lives on.
        done(unsafe { libc::chroot(folder.as_ptr()) }, "chroot").map(drop)
    }),
    probe("namespaces", "make new namespaces by unshare", |i| {
        let all = [
            ("mounts", libc::CLONE_NEWNS),
            ("users", libc::CLONE_NEWUSER),
            ("network", libc::CLONE_NEWNET),
            ("processes", libc::CLONE_NEWPID),
            ("ipc", libc::CLONE_NEWIPC),
            ("uts", libc::CLONE_NEWUTS),
            ("cgroup", libc::CLONE_NEWCGROUP),
        ];
        // SAFETY: no pointers.
        i.each(all, |(_, flag)| done(unsafe { libc::unshare(*flag) }, "unshare").map(drop))
    }),
    probe(
        "user-and-mount-namespace",
        "take all capabilities in a namespace of users, and mount there",
        |i| {
            // SAFETY: no pointers.
            done(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }, "unshare")?;
            mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)?;
            mount(Some(c"none"), &i.tree("work/folder"), Some(c"tmpfs"), 0)
        },
    ),
    probe("clone-namespace", "make a namespace of users by clone and clone3", |i| {
        i.each([libc::SYS_clone, libc::SYS_clone3], |call| {
            // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, three more.
            let arguments = [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
            // SAFETY: as fork; the child ends at once.
            let child = unsafe {
                if *call == libc::SYS_clone {
                    libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0)
                } else {
                    libc::syscall(libc::SYS_clone3, arguments.as_ptr(), 64)
                }
            };
            if child == 0 {
                // SAFETY: nothing of the parent's is touched.
                unsafe { libc::_exit(0) };
            }
            done(child, "clone").map(drop)
        })
    }),
    probe("setns", "enter the namespaces of process 1 and of others", |i| {
        let kinds = [
            ("mnt", libc::CLONE_NEWNS),
            ("net", libc::CLONE_NEWNET),
            ("uts", libc::CLONE_NEWUTS),
            ("ipc", libc::CLONE_NEWIPC),
        ];
        i.each(kinds, |(kind, flag)| {
            let enter = |pid: i32| {
                let file = ok(File::open(format!("/proc/{pid}/ns/{kind}")))?;
                // SAFETY: an open descriptor.
                done(unsafe { libc::setns(file.as_raw_fd(), *flag) }, "setns").map(drop)
            };
            enter(1)
                .or_else(|first| enter(i.victim()).map_err(|second| format!("{first}, {second}")))
        })
    }),
    probe("setns-by-pidfd", "enter all namespaces of a process by its pidfd", |i| {
        i.each([i.victim()], |pid| {
            // SAFETY: no pointers.
            unsafe {
                let fd = done(libc::syscall(libc::SYS_pidfd_open, *pid, 0), "pidfd_open")?;
                done(libc::setns(fd as i32, libc::CLONE_NEWNS | libc::CLONE_NEWNET), "setns")
                    .map(drop)
            }
        })
    }),
    probe("nsenter", "let nsenter do it", |i| {
        any(["1".to_owned(), i.text("victim").to_owned()], |pid| {
            run("nsenter", &["-t", pid, "-m", "-n", "true"]).map(drop)
        })
    }),
    probe("cgroup", "make a control group, and open the top one's list of processes", |i| {
        let name = format!("nagent-probe-{}", i.token());
        let tops = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let top = tops
            .iter()
            .map(Path::new)
            .find(|top| top.join("cgroup.procs").exists())
            .ok_or("there are no control groups")?;
        ok(std::fs::create_dir(top.join(name)))
    }),
    probe("sysfs", "open a setting of the system for writing", |_| {
        let settings = [
            "/sys/kernel/uevent_helper",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/power/pm_async",
            "/sys/block/loop0/queue/read_ahead_kb",
        ];
        any(settings, |path| ok(File::options().write(true).open(path)).map(drop))
    }),
    probe("proc-sys", "write settings back as they are", |i| {
        i.each(
            [
                "/proc/sys/kernel/core_pattern",
                "/proc/sys/kernel/printk_ratelimit",
                "/proc/sys/vm/swappiness",
            ],
            |path| {
                let now = ok(std::fs::read(path))?;
                ok(std::fs::write(path, now))
            },
        )
    }),
    probe("proc-triggers", "open what the machine does things by, and its memory", |_| {
        let files = [
            "/proc/sysrq-trigger",
            "/proc/sys/kernel/sysrq",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/vm/drop_caches",
            "/proc/irq/default_smp_affinity",
        ];
        any(files, |path| ok(File::options().write(true).open(path)).map(drop))
    }),
    probe("devices", "open what the machine is made of", |_| {
        let devices = [
            "/dev/kmsg",
            "/dev/mem",
            "/dev/kmem",
            "/dev/kvm",
            "/dev/fuse",
            "/dev/loop-control",
            "/dev/tty0",
            "/dev/tty1",
            "/dev/userfaultfd",
            "/dev/hwrng",
            "/dev/mapper/control",
            "/dev/net/tun",
            "/dev/vda",
            "/dev/sda",
            "/dev/vsock",
        ];
        any(devices, |path| ok(File::open(path)).map(drop))
    }),
    probe("loop-devices", "open a loop device for writing", |_| {
        ok(File::options().read(true).write(true).open("/dev/loop0")).map(drop)
    }),
    probe("devices-folder", "make a file in /dev and /dev/shm of the system", |i| {
        // In a sandbox with their own /dev, what is made is seen by nobody; so the outside looks.
        let name = format!("nagent-probe-{}", i.token());
        create(Path::new("/dev/shm").join(name))
    })
    .effect()
    .gap("write to /dev/shm"),
];
