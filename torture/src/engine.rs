//! What a process with the script engine can still do: each probe does something for real, without the walls (it must work: a
//! dead probe shows nothing), then behind them, as root and as nobody; there the kernel must end it. And what a running engine
//! has: descriptors, environment, rights, as the kernel tells. And kills at random instants of runs that write memory.js.
//! Needs root, to become nobody. `KILLS=2000` kills more often, `SEED=7` at other instants.
//!
//! A probe is a function in this executable, which is started as `torture --engine NAME [walls]`.
#![expect(unsafe_code, reason = "a probe is the system call itself")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, net, thread};

use rustix::process::Signal;
use sandbox::script::js_worker::rights::give_up_rights;

use crate::figures::Figures;
use crate::ground::{Numbers, number};
use crate::sandbox::{Sandbox, answer, wait_until};

pub(crate) const FLAG: &str = "--engine";

/// As which users: nobody's number is that of no other process.
const USERS: [(&str, u32); 2] = [("root", 0), ("nobody", 65_534)];

type Probe = (&'static str, fn() -> bool);

/// Whether a system call without pointers works.
fn call(number: i64, args: [i64; 3]) -> bool {
    // SAFETY: the calls of the table take numbers and null pointers.
    unsafe { libc::syscall(number, args[0], args[1], args[2], 0, 0, 0) != -1 }
}

/// Memory of our own with these rights.
fn map(rights: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which nothing else uses.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) }
}

const PROBES: &[Probe] = &[
    ("read-file", || fs::read("/etc/passwd").is_ok()),
    ("read-own-memory-file", || fs::File::open("/proc/self/mem").is_ok()),
    ("write-file", || {
        let path = std::env::temp_dir().join(format!("nagent-engine-{}", std::process::id()));
        let is_written = fs::write(&path, "out").is_ok();
        let _ = fs::remove_file(path);
        is_written
    }),
    ("list-folder", || fs::read_dir("/").is_ok()),
    ("look-at-file", || fs::metadata("/").is_ok()),
    ("change-folder", || std::env::set_current_dir("/").is_ok()),
    ("listen", || net::TcpListener::bind("127.0.0.1:0").is_ok()),
    ("datagram", || net::UdpSocket::bind("127.0.0.1:0").is_ok()),
    ("unix-socket", || std::os::unix::net::UnixStream::pair().is_ok()),
    ("netlink", || call(libc::SYS_socket, [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), 0])),
    ("program", || Command::new("/bin/true").status().is_ok_and(|status| status.success())),
    ("thread", || thread::Builder::new().spawn(|| ()).is_ok()),
    // SAFETY: the child ends at once.
    ("fork", || match unsafe { libc::fork() } {
        0 => unsafe { libc::_exit(0) },
        child => child > 0,
    }),
    ("signal", || rustix::process::test_kill_process(rustix::process::getpid()).is_ok()),
    ("trace", || call(libc::SYS_ptrace, [0, 0, 0])),
    ("memory-of-process", || {
        let mut byte = 0_u8;
        let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: a byte of this process is copied onto itself.
        unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &here, 1, 0) == 1 }
    }),
    ("new-code", || map(libc::PROT_READ | libc::PROT_EXEC) != libc::MAP_FAILED),
    ("data-becomes-code", || {
        let memory = map(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: nothing else uses this memory.
        unsafe { libc::mprotect(memory, 4096, libc::PROT_READ | libc::PROT_EXEC) == 0 }
    }),
    ("memory-file", || call(libc::SYS_memfd_create, [c"x".as_ptr() as i64, 0, 0])),
    ("shared-memory", || call(libc::SYS_shmget, [0, 4096, 0o1600])),
    ("duplicate", || call(libc::SYS_dup, [0, 0, 0])),
    ("pipe", || rustix::pipe::pipe().is_ok()),
    ("watch-files", || call(libc::SYS_inotify_init1, [0, 0, 0])),
    ("wait-for-many", || call(libc::SYS_epoll_create1, [0, 0, 0])),
    ("timer", || call(libc::SYS_timerfd_create, [1, 0, 0])),
    ("raise-limit", || call(libc::SYS_prlimit64, [0, 7, 0])),
    ("name-of-process", || call(libc::SYS_prctl, [libc::PR_GET_DUMPABLE.into(), 0, 0])),
    ("user", || call(libc::SYS_getuid, [0, 0, 0])),
    ("mask", || call(libc::SYS_umask, [0o22, 0, 0])),
    #[cfg(target_arch = "x86_64")]
    ("call-of-another-table", || {
        let answer: i64;
        // SAFETY: number 20 of the calls for 32 bits tells the number of the process.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
        answer > 0
    }),
    ("sleep", || {
        thread::sleep(std::time::Duration::from_millis(1));
        true
    }),
];

/// `--engine NAME [walls]`: exit 0 where the probe works, 77 where it does not, 126 where there are no walls.
pub(crate) fn inside(words: &[String]) -> ExitCode {
    let (_, probe) = PROBES.iter().find(|(name, _)| *name == words[0]).expect("a probe's name");
    if words.len() > 1 && give_up_rights(1 << 28).is_err() {
        return ExitCode::from(126);
    }
    ExitCode::from(if probe() { 0 } else { 77 })
}

pub(crate) fn run(figures: &mut Figures) {
    if !rustix::process::geteuid().is_root() {
        return figures.miss("it needs root, to run as root and as nobody".to_owned());
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let open = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(folder.path());
    let program = folder.path().join("torture");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program);
    for (user, id) in USERS {
        let start = |name: &str, walls: &[&str]| -> ExitStatus {
            let mut command = Command::new(&program);
            command.arg(FLAG).arg(name).args(walls).uid(id).gid(id).env_clear();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().unwrap()
        };
        let (mut alive, mut stopped, mut through) = (0, 0, 0);
        for (name, _) in PROBES {
            if start(name, &[]).code() == Some(0) {
                alive += 1;
            } else {
                figures
                    .miss(format!("{name}, as {user}: it does not work without the walls either"));
            }
            let status = start(name, &["walls"]);
            through += usize::from(status.code() == Some(0));
            if status.signal() == Some(libc::SIGSYS) {
                stopped += 1;
            } else {
                figures.miss(format!("{name}, as {user}: {status}"));
            }
        }
        figures.exactly(
            &format!("probes that work without the walls, as {user}"),
            alive,
            PROBES.len(),
        );
        figures.exactly(&format!("probes that the kernel ended, as {user}"), stopped, PROBES.len());
        figures.exactly(&format!("probes that got through, as {user}"), through, 0);
    }
    figures.exactly("what a running engine has that it must not", count_rights(), 0);
    kill_runs(figures, number("KILLS", 200), Numbers::new(number("SEED", 1)));
}

/// Kills runs of a script in plain language at random instants: what they leave is whole, and the next run goes on from it.
fn kill_runs(figures: &mut Figures, kills: usize, mut numbers: Numbers) {
    let sandbox = Sandbox::new().file("hello.md", "Print hello.");
    let folder = sandbox.home().join(".thinkingscript/thoughts/hello");
    let code = format!("'{}'", "x".repeat(30_000));
    let path = folder.join("memory.js").display().to_string();
    let script = format!("<nagent-script>fs.writeFile({path:?}, {code:?})</nagent-script>");
    sandbox.llm.choose(move |request| {
        let is_second = request.text().contains("nagent-script-result");
        if is_second { answer("done") } else { script.clone() }.into()
    });
    let think = concat!(env!("CARGO_BIN_EXE_nagent"), "-think");
    let run = || sandbox.program(think, &["hello.md"]);
    // The kills are spread over the time of a run on this machine.
    let begun = Instant::now();
    run().run().assert_exit(0);
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
    fs::remove_file(folder.join("memory.js")).unwrap();
    let (mut broken, mut written) = (0, 0);
    for _ in 0..kills {
        sandbox.llm.forget();
        let running = run().spawn();
        thread::sleep(Duration::from_millis(numbers.below(took + 10)));
        running.signal(Signal::KILL);
        running.wait();
        wait_until("the engine has ended", || sandbox.processes().is_empty());
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let is_json = |text: String| serde_json::from_str::<serde_json::Value>(&text).is_ok();
        written += usize::from(read("memory.js").is_some());
        if read("memory.js").is_some_and(|text| text != code)
            || !["policy.json", "origin"].iter().all(|name| read(name).is_none_or(is_json))
        {
            broken += 1;
        }
        let _ = fs::remove_file(folder.join("memory.js"));
    }
    sandbox.llm.forget();
    run().run().assert_exit(0);
    run().run().assert_exit(0).stdout_is(&code[1..=30_000]);
    figures.at_least("kills behind the write of memory.js", written, kills / 20);
    figures.exactly("files that a kill left in part", broken, 0);
}

/// What the engine of a script that waits still has, by what the kernel tells of it.
fn count_rights() -> usize {
    let sandbox = Sandbox::new();
    let js = concat!(env!("CARGO_BIN_EXE_nagent"), "-js");
    let running = sandbox.program(js, &["-e", "process.sleep(60000)"]).spawn();
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    let engine = || fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
    let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", engine()));
    let has = |line: &str| read("status").is_ok_and(|status| status.contains(line));
    wait_until("the engine runs", || has("Seccomp:\t2"));
    let folder = fs::read_dir(format!("/proc/{}/fd", engine())).unwrap().count();
    // Dates need it.
    let is_zone = |text: &str| text.starts_with("TZ=") && text.matches('\0').count() == 1;
    let wrong = [
        (folder != 3, "descriptors"),
        (!read("environ").is_ok_and(|text| text.is_empty() || is_zone(&text)), "environment"),
        (!has("NoNewPrivs:\t1"), "new privileges"),
        (!has("CapEff:\t0000000000000000") || !has("CapPrm:\t0000000000000000"), "capabilities"),
        (!has("Threads:\t1\n"), "threads"),
        (fs::read_link(format!("/proc/{}/cwd", engine())).unwrap() != Path::new("/"), "folder"),
    ];
    running.signal(Signal::KILL);
    running.wait();
    for (_, what) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
        println!("  {what}");
    }
    wrong.iter().filter(|(is_wrong, _)| *is_wrong).count()
}
