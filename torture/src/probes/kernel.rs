//! The kernel's own doors: capabilities, set-user-id, calls that need them, calls that have been ways out. Nothing global is
//! changed: values are written back as they were read, or what is asked is refused by the kernel after it has been allowed.

use std::fs;
use std::io;

use super::inside::{Through, done, ok, run};
use super::{Probe, probe};

fn status(name: &str) -> Result<String, String> {
    let text = ok(fs::read_to_string("/proc/self/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.unwrap_or_default().trim().to_owned())
}

fn is_zero(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|digit| digit == b'0')
}

/// Got through where the call was allowed, though it then failed with one of these errors.
fn allowed(result: i64, what: &str, after: &[i32]) -> Through {
    let error = io::Error::last_os_error();
    if result >= 0 || error.raw_os_error().is_some_and(|number| after.contains(&number)) {
        return Ok(());
    }
    Err(format!("{what}: {error}"))
}

pub(super) const PROBES: &[Probe] = &[
    probe("capabilities", "hold a capability", |_| {
        for name in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            let value = status(name)?;
            if !is_zero(&value) {
                super::inside::say(&format!("{name} is {value}"));
                return Ok(());
            }
        }
        Err("none".to_owned())
    }),
    // A bounding set that is not empty gives nothing by itself: with no_new_privs, a program that is started gets no capability
    // that its parent did not have, as root neither (capabilities(7), Documentation/userspace-api/no_new_privs.rst of Linux).
    probe("bounding-set", "have a way for capabilities to come back", |_| {
        let (bounding, no_new) = (status("CapBnd")?, status("NoNewPrivs")?);
        let started = run("/bin/grep", &["CapPrm", "/proc/self/status"])?;
        let comes_back = !started.split_whitespace().last().is_some_and(is_zero);
        if !comes_back && (is_zero(&bounding) || no_new == "1") {
            Err(format!("{bounding}, {no_new}"))
        } else {
            Ok(())
        }
    }),
    probe("new-privileges", "not be bound by no_new_privs", |_| {
        if status("NoNewPrivs")? == "1" { Err("bound".to_owned()) } else { Ok(()) }
    }),
    probe("no-filter", "not be bound by a seccomp filter", |_| {
        if status("Seccomp")? == "2" { Err("bound".to_owned()) } else { Ok(()) }
    }),
    probe("set-user-id", "become another user by a set-user-id program", |i| {
        let id = run(&i.at("outside/suid-id").display().to_string(), &["-u"])?;
        if id.trim() == i.text("suid") { Ok(()) } else { Err(format!("it ran as {}", id.trim())) }
    }),
    probe("set-user-id-own", "make a set-user-id program in the tree, and run it", |i| {
        let program = i.tree("work/suid");
        ok(fs::copy("/usr/bin/id", &program))?;
        ok(std::os::unix::fs::chown(&program, Some(31_313), None))?;
        ok(fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)))?;
        let id = run(&program.display().to_string(), &["-u"])?;
        if id.trim() == "31313" { Ok(()) } else { Err(format!("it ran as {}", id.trim())) }
    }),
    probe("file-capability", "gain a capability from a program's file", |i| {
        let text = run(&i.at("outside/cap-cat").display().to_string(), &["/proc/self/status"])?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .unwrap_or_default()
            .trim()
            .to_owned();
        if is_zero(&line) { Err("it has none".to_owned()) } else { Ok(()) }
    }),
    probe("set-file-capability", "give a program in the tree capabilities", |i| {
        let path = super::inside::c(i.tree("work/file.txt"));
        let value: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
        // SAFETY: strings that live on, twenty bytes.
        done(
            unsafe {
                libc::setxattr(
                    path.as_ptr(),
                    c"security.capability".as_ptr(),
                    value.as_ptr().cast(),
                    20,
                    0,
                )
            },
            "setxattr",
        )
        .map(drop)
    }),
    probe("change-user", "become another user by setuid", |i| {
        i.each(["setuid", "setgroups"], |way| {
            // SAFETY: numbers only.
            unsafe {
                if *way == "setgroups" {
                    done(libc::setgroups(1, &raw const GROUP), "setgroups")
                } else {
                    // In a child, so that the next one still may.
                    let child = libc::fork();
                    if child == 0 {
                        libc::_exit(i32::from(libc::setuid(31_313) != 0));
                    }
                    let mut status = 0;
                    libc::waitpid(child, &raw mut status, 0);
                    if status == 0 { Ok(0) } else { Err("setuid: refused".to_owned()) }
                }
            }
            .map(drop)
        })
    }),
    probe("bpf", "load into the kernel by bpf", |_| {
        // BPF_MAP_CREATE: an array, keys and values of four bytes, one entry.
        let map: [u32; 18] = [2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: attributes of the length given.
        done(unsafe { libc::syscall(libc::SYS_bpf, 0, map.as_ptr(), 72) }, "bpf").map(drop)
    }),
    probe("perf-events", "open a counter", |_| {
        // PERF_TYPE_SOFTWARE, 64 bytes, PERF_COUNT_SW_TASK_CLOCK.
        let mut attributes = [0_u64; 8];
        attributes[0] = 1 | (64 << 32);
        attributes[1] = 1;
        // SAFETY: attributes of the length that they say.
        done(
            unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) },
            "perf_event_open",
        )
        .map(drop)
    }),
    probe("userfaultfd", "handle page faults oneself", |i| {
        // UFFD_USER_MODE_ONLY is 1.
        i.each([0, 1], |flags| {
            // SAFETY: numbers only.
            done(unsafe { libc::syscall(libc::SYS_userfaultfd, *flags) }, "userfaultfd").map(drop)
        })
    }),
    probe("io-uring", "make a ring", |_| super::uring::Ring::new().map(drop)),
    probe("kernel-log", "read the kernel's log", |_| {
        let mut bytes = [0_u8; 4096];
        // SYSLOG_ACTION_READ_ALL is 3.
        // SAFETY: a buffer of the length given.
        done(unsafe { libc::syscall(libc::SYS_syslog, 3, bytes.as_mut_ptr(), 4096) }, "syslog")
            .map(drop)
    }),
    probe("reboot", "reboot, with words that the kernel does not know", |_| {
        // SAFETY: numbers that mean nothing: allowed, it is EINVAL.
        let result = unsafe { libc::syscall(libc::SYS_reboot, 0x1234, 0x5678, 0, 0) };
        allowed(result, "reboot", &[libc::EINVAL])
    })
    .weaker("the machine must not go down: asked is with words that make the kernel say EINVAL"),
    probe("clock", "set the clock's pace to what it is", |i| {
        i.each(["adjtimex", "clock_adjtime"], |way| {
            // SAFETY: zeroed, then filled by the kernel.
            unsafe {
                let mut now: libc::timex = std::mem::zeroed();
                libc::adjtimex(&raw mut now);
                now.modes = libc::ADJ_TICK;
                match *way {
                    "adjtimex" => done(libc::adjtimex(&raw mut now), "adjtimex"),
                    _ => done(
                        libc::clock_adjtime(libc::CLOCK_REALTIME, &raw mut now),
                        "clock_adjtime",
                    ),
                }
            }
            .map(drop)
        })
    }),
    probe("host-name", "set the machine's name to what it is", |_| {
        let mut name = [0 as libc::c_char; 256];
        // SAFETY: a buffer of the length given.
        unsafe {
            done(libc::gethostname(name.as_mut_ptr(), 256), "gethostname")?;
            let length = libc::strlen(name.as_ptr());
            done(libc::sethostname(name.as_ptr(), length), "sethostname").map(drop)
        }
    }),
    probe("swap-and-accounting", "turn swap on, accounting off", |i| {
        i.each([libc::SYS_swapon, libc::SYS_acct], |call| {
            let none = c"/nagent-probe/no/such/file";
            // SAFETY: a constant string.
            allowed(unsafe { libc::syscall(*call, none.as_ptr(), 0) }, "call", &[libc::ENOENT])
        })
    })
    .weaker("asked is for a file that is not there: ENOENT says that it was allowed"),
];

static GROUP: libc::gid_t = 31_313;
