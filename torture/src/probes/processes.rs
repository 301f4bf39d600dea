//! Other processes of the same user: nagent itself, which holds keys, and strangers. All is done to a process that the
//! outside made for it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ptr::null_mut;
use std::time::Duration;

use super::inside::{Inside, Through, done, ok, shown};
use super::{Probe, With, probe};

fn memory(i: &Inside) -> (u64, usize) {
    (i.number("address"), i.number("length"))
}

fn signal_by(i: &Inside, call: libc::c_long, pid: i32) -> Through {
    // SAFETY: no pointers but one to nothing.
    unsafe {
        match call {
            libc::SYS_pidfd_send_signal => {
                let fd = done(libc::syscall(libc::SYS_pidfd_open, i.victim(), 0), "pidfd_open")?;
                done(libc::syscall(call, fd, libc::SIGTERM, 0, 0), "pidfd_send_signal").map(drop)
            }
            libc::SYS_tgkill => {
                done(libc::syscall(call, i.victim(), pid, libc::SIGTERM), "tgkill").map(drop)
            }
            _ => done(libc::syscall(call, pid, libc::SIGTERM), "kill").map(drop),
        }
    }
}

/// Attaches, as one way of `ptrace` does it, and lets go.
fn attach(i: &Inside, way: libc::c_uint) -> Through {
    // SAFETY: numbers only.
    unsafe {
        done(libc::ptrace(way, i.victim(), 0, 0), "ptrace")?;
        libc::waitpid(i.victim(), null_mut(), libc::__WALL | libc::WNOHANG);
        std::thread::sleep(std::time::Duration::from_millis(20));
        libc::ptrace(libc::PTRACE_DETACH, i.victim(), 0, 0);
    }
    Ok(())
}

pub(super) const PROBES: &[Probe] = &[
    probe("proc-environ", "read its environment", |i| {
        shown(&ok(fs::read(format!("/proc/{}/environ", i.victim())))?)
    }),
    probe("proc-mem-read", "read its memory", |i| {
        let (address, length) = memory(i);
        let mut file = ok(File::open(format!("/proc/{}/mem", i.victim())))?;
        ok(file.seek(SeekFrom::Start(address)))?;
        let mut bytes = vec![0; length];
        ok(file.read_exact(&mut bytes))?;
        shown(&bytes)
    }),
    probe("proc-mem-write", "write into its memory", |i| {
        let (address, _) = memory(i);
        let mut file =
            ok(OpenOptions::new().write(true).open(format!("/proc/{}/mem", i.victim())))?;
        ok(file.seek(SeekFrom::Start(address)))?;
        ok(file.write_all(b"overwritten"))
    }),
    probe("proc-maps", "read where its memory is", |i| {
        let text = ok(fs::read_to_string(format!("/proc/{}/maps", i.victim())))?;
        if text.contains("heap") { Ok(()) } else { Err("nothing in it".to_owned()) }
    }),
    probe("proc-fd", "read a file by its descriptor", |i| {
        shown(&ok(fs::read(format!("/proc/{}/fd/9", i.victim())))?)
    }),
    probe("proc-oom", "make it the first to be killed", |i| {
        ok(fs::write(format!("/proc/{}/oom_score_adj", i.victim()), "700"))
    }),
    probe("ptrace-attach", "attach to it", |i| attach(i, libc::PTRACE_ATTACH)),
    probe("ptrace-seize", "seize it", |i| {
        // SAFETY: numbers only.
        done(unsafe { libc::ptrace(libc::PTRACE_SEIZE, i.victim(), 0, 0) }, "ptrace").map(drop)
    }),
    probe("ptrace-traceme", "let its parent trace it", |_| {
        // SAFETY: numbers only.
        done(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }, "ptrace").map(drop)
    }),
    probe("process-vm-readv", "read its memory by process_vm_readv", |i| {
        let (address, length) = memory(i);
        let mut bytes = vec![0_u8; length];
        let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let there = libc::iovec { iov_base: address as *mut _, iov_len: length };
        // SAFETY: a buffer of the length given; the other address is the other's.
        done(
            unsafe {
                libc::process_vm_readv(i.victim(), &raw const here, 1, &raw const there, 1, 0)
            } as i64,
            "process_vm_readv",
        )?;
        shown(&bytes)
    }),
    probe("process-vm-writev", "write into its memory by process_vm_writev", |i| {
        let (address, _) = memory(i);
        let bytes = b"overwritten";
        let here = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let there = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
        // SAFETY: as above.
        done(
            unsafe {
                libc::process_vm_writev(i.victim(), &raw const here, 1, &raw const there, 1, 0)
            } as i64,
            "process_vm_writev",
        )
        .map(drop)
    }),
    probe("pidfd-getfd", "take a descriptor of it", |i| {
        // SAFETY: numbers only.
        let fd = unsafe {
            let process = done(libc::syscall(libc::SYS_pidfd_open, i.victim(), 0), "pidfd_open")?;
            done(libc::syscall(libc::SYS_pidfd_getfd, process, 9, 0), "pidfd_getfd")?
        };
        shown(&ok(fs::read(format!("/proc/self/fd/{fd}")))?)
    }),
    probe("kcmp", "compare its descriptors with one's own", |i| {
        let own = std::process::id();
        // SAFETY: numbers only. KCMP_FILE is 0.
        done(unsafe { libc::syscall(libc::SYS_kcmp, own, i.victim(), 0, 0, 9) }, "kcmp").map(drop)
    }),
    probe("kill", "end it", |i| signal_by(i, libc::SYS_kill, i.victim())),
    probe("kill-group", "end its group", |i| signal_by(i, libc::SYS_kill, -i.victim())),
    probe("tgkill", "end it by its thread", |i| signal_by(i, libc::SYS_tgkill, i.victim())),
    probe("tkill", "end it by its thread's number", |i| signal_by(i, libc::SYS_tkill, i.victim())),
    probe("pidfd-kill", "end it by a pidfd", |i| {
        signal_by(i, libc::SYS_pidfd_send_signal, i.victim())
    }),
    probe("stop", "stop it", |i| {
        // SAFETY: numbers only.
        done(unsafe { libc::kill(i.victim(), libc::SIGSTOP) }, "kill").map(drop)
    }),
    probe("signal-parent", "reach its own parent with a signal", |i| {
        // Signal 0 asks whether one could be sent.
        // SAFETY: numbers only.
        let parent = unsafe { libc::getppid() };
        // Where processes have numbers of their own, a parent with a number is inside, too.
        let is_inside = fs::read_to_string("/proc/1/comm").is_ok_and(|name| name == "bwrap\n");
        if parent == 0 || is_inside {
            return Err("its parent outside is not there".to_owned());
        }
        i.each([parent], |pid| done(unsafe { libc::kill(*pid, 0) }, "kill").map(drop))
    }),
    probe("signal-by-io", "let the kernel send the signal when something can be read", |i| {
        let mut ends = [0; 2];
        // SAFETY: two numbers; then numbers only, and one byte.
        unsafe {
            done(libc::pipe(ends.as_mut_ptr()), "pipe")?;
            done(libc::fcntl(ends[0], libc::F_SETOWN, i.victim()), "F_SETOWN")?;
            done(libc::fcntl(ends[0], 10, libc::SIGTERM), "F_SETSIG")?;
            done(libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK), "F_SETFL")?;
            done(libc::write(ends[1], c"x".as_ptr().cast(), 1) as i64, "write")?;
        }
        // It takes a moment until somebody has ended. Whether it came, the outside sees.
        let stat = format!("/proc/{}/stat", i.victim());
        let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z"));
        for _ in 0..100 {
            if !lives() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("sent".to_owned())
    })
    .effect(),
    probe("setpriority", "let it run behind all others", |i| {
        // SAFETY: numbers only.
        done(unsafe { libc::setpriority(libc::PRIO_PROCESS, i.victim() as u32, 7) }, "setpriority")
            .map(drop)
    })
    .gap("priority"),
    probe("scheduler", "change its scheduling, and where it may run", |i| {
        let none = libc::sched_param { sched_priority: 0 };
        let pid = i.victim();
        i.each(["policy", "ioprio"], |way| {
            // SAFETY: numbers, and a parameter that lives on.
            unsafe {
                match *way {
                    "policy" => done(
                        libc::sched_setscheduler(pid, libc::SCHED_BATCH, &raw const none),
                        "sched_setscheduler",
                    ),
                    // The idle class, of a process.
                    _ => done(libc::syscall(libc::SYS_ioprio_set, 1, pid, 3 << 13), "ioprio_set"),
                }
            }
            .map(drop)
        })
    })
    .gap("priority"),
    probe("affinity", "keep it to one processor", |i| {
        let mask = [1_u8, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: a mask of eight bytes.
        done(
            unsafe { libc::syscall(libc::SYS_sched_setaffinity, i.victim(), 8, mask.as_ptr()) },
            "sched_setaffinity",
        )
        .map(drop)
    })
    .gap("priority"),
    probe("prlimit", "set a limit of it", |i| {
        let limit = libc::rlimit { rlim_cur: 17, rlim_max: 4096 };
        // SAFETY: a limit that lives on.
        done(
            unsafe { libc::prlimit(i.victim(), libc::RLIMIT_NOFILE, &raw const limit, null_mut()) },
            "prlimit",
        )
        .map(drop)
    })
    .gap("message queues"),
    probe("see-others", "see that it is there", |i| {
        ok(fs::metadata(format!("/proc/{}", i.victim()))).map(drop)
    })
    .gap("command lines"),
    probe("shared-memory", "write into System V shared memory", |i| {
        // SAFETY: a segment of at least eleven bytes, if it is there.
        unsafe {
            let at = libc::shmat(i.number("shm"), std::ptr::null(), 0);
            if at as isize == -1 {
                return Err(super::inside::failed("shmat"));
            }
            at.cast::<u8>().copy_from(b"overwritten".as_ptr(), 11);
        }
        Ok(())
    })
    .gap("message queues"),
    probe("message-queue", "send to a message queue of POSIX", |i| {
        let name = super::inside::c(i.text("queue"));
        // SAFETY: strings that live on.
        unsafe {
            let queue = done(libc::mq_open(name.as_ptr(), libc::O_WRONLY), "mq_open")?;
            done(libc::mq_send(queue as i32, c"probe".as_ptr(), 5, 0), "mq_send").map(drop)
        }
    })
    .gap("message queues"),
    probe("shared-memory-file", "write into shared memory of POSIX", |i| {
        ok(OpenOptions::new()
            .write(true)
            .open(i.text("shm_file"))
            .and_then(|mut file| file.write_all(b"overwritten")))
    })
    .gap("write to /dev/shm"),
    probe("keyring", "read a key of the session's keyring", |i| {
        let mut bytes = [0_u8; 256];
        // SAFETY: a buffer of the length given. KEYCTL_READ is 11.
        let read = unsafe {
            libc::syscall(
                libc::SYS_keyctl,
                11,
                i.number::<i64>("key"),
                bytes.as_mut_ptr(),
                bytes.len(),
            )
        };
        done(read, "keyctl")?;
        shown(&bytes)
    }),
    probe("keyring-add", "leave a key in the session's keyring", |_| {
        // KEY_SPEC_SESSION_KEYRING is -3.
        // SAFETY: constant strings.
        let added = unsafe {
            libc::syscall(
                libc::SYS_add_key,
                c"user".as_ptr(),
                c"nagent-probe-left".as_ptr(),
                c"x".as_ptr(),
                1,
                -3,
            )
        };
        done(added, "add_key").map(drop)
    }),
    probe("linger", "leave a process behind that writes later", |i| {
        linger(i)?;
        Err("left behind".to_owned())
    })
    .with(With::Linger)
    .effect(),
    probe("linger-after-kill", "leave a process behind when nagent-sandbox is killed", |i| {
        linger(i)?;
        super::inside::say("ready");
        std::thread::sleep(std::time::Duration::from_secs(8));
        Err("it was not killed".to_owned())
    })
    .with(With::Kill)
    .effect(),
];

/// Forks twice into a session of its own, deaf to signals, and writes where that is allowed, a while later.
fn linger(i: &Inside) -> Through {
    let path = super::inside::c(i.tree("work/lingered"));
    // SAFETY: the children call nothing that needs the parent's threads, of which there are none.
    unsafe {
        let first = libc::fork();
        if first < 0 {
            return Err(super::inside::failed("fork"));
        }
        if first > 0 {
            let mut status = 0;
            libc::waitpid(first, &raw mut status, 0);
            return Ok(());
        }
        libc::setsid();
        if libc::fork() > 0 {
            libc::_exit(0);
        }
        for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT, libc::SIGPIPE, libc::SIGCHLD] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        for fd in 0..3 {
            libc::close(fd);
        }
        libc::usleep(500_000);
        libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600);
        libc::_exit(0);
    }
}
