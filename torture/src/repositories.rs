//! Repositories that somebody made to be too much: files of many megabytes where git has a line, objects that unpack to
//! gigabytes, a hundred thousand commits, FIFOs and devices where files are. What looks at a repository ends in seconds, takes
//! little memory, starts no program and opens no connection but to the model.
//!
//! Needs git, python3, strace with the right to trace. Bounds are those of a debug build on a machine that is shared.
//! `REPOSITORIES=FIFO` takes those alone that have this in their name.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::figures::Figures;
use crate::process_under_test::Run;
use crate::sandbox::{NAGENT, Sandbox, answer};

const FILE_EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

/// Commits of the long history.
const COMMITS: usize = 100_000;

/// What may be started: nagent's own, and the sandbox.
const OWN: [&str; 4] = ["nagent", "nagent-file-edit", "nagent-sandbox", "bwrap"];

/// A place, how it is made, what its history says, and the bounds: seconds, MiB.
struct Place {
    name: &'static str,
    make: fn(&Sandbox),
    /// A word of what `--history` says.
    history: &'static str,
    seconds: f64,
    memory: u64,
}

const PLACES: &[Place] = &[
    Place { name: "a small one", make: |_| {}, history: "first", seconds: 5.0, memory: 64 },
    Place {
        name: "100,000 commits",
        make: long_history,
        history: "50000 commits",
        seconds: 25.0,
        memory: 256,
    },
    Place {
        name: "100,000 branches",
        make: many_branches,
        history: "first",
        seconds: 10.0,
        memory: 128,
    },
    Place {
        name: "a message of 50 MB",
        make: |sandbox| message(sandbox, 50 << 20),
        history: "over the limit",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "a message of 15 MB",
        make: |sandbox| message(sandbox, 15 << 20),
        history: "xxxxx",
        seconds: 5.0,
        memory: 128,
    },
    Place {
        name: "a commit that unpacks to 4 GB",
        make: bomb,
        history: "over the limit",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "packed-refs of 100 MB",
        make: |sandbox| {
            let line = format!("{} refs/heads/{{}}\n", "ab".repeat(20));
            large(sandbox, ".git/packed-refs", 100 << 20, &line);
        },
        history: "over the limit",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "a config of 50 MB",
        make: |sandbox| {
            large(sandbox, ".git/config", 50 << 20, "[remote \"r{}\"]\n\turl = https://x/{}\n");
        },
        history: "over the limit",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "a config of 1 MB",
        make: |sandbox| {
            large(sandbox, ".git/config", 1 << 20, "[remote \"r{}\"]\n\turl = https://x/{}\n");
        },
        history: "first",
        seconds: 30.0,
        memory: 192,
    },
    Place {
        name: "HEAD as FIFO",
        make: |sandbox| fifo(sandbox, ".git/HEAD"),
        history: "not a regular file",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "a branch as FIFO",
        make: |sandbox| fifo(sandbox, ".git/refs/heads/main"),
        history: "does not answer",
        seconds: 12.0,
        memory: 64,
    },
    Place {
        name: "objects as FIFOs",
        make: |sandbox| {
            let id = git(sandbox, &["rev-parse", "HEAD^{tree}"]);
            fifo(sandbox, &format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        },
        history: "does not answer",
        seconds: 12.0,
        memory: 64,
    },
    Place {
        name: "alternates: /dev/zero",
        make: |sandbox| _ = sandbox.write(".git/objects/info/alternates", "/dev/zero\n"),
        history: "first",
        seconds: 5.0,
        memory: 64,
    },
    Place {
        name: "alternates as FIFO",
        make: |sandbox| fifo(sandbox, ".git/objects/info/alternates"),
        history: "not a regular file",
        seconds: 5.0,
        memory: 64,
    },
];

pub(crate) fn run(figures: &mut Figures) {
    let (mut started, mut connected, mut runs) = (Vec::new(), Vec::new(), 0);
    let wanted = std::env::var("REPOSITORIES").unwrap_or_default();
    let places: Vec<&Place> = PLACES.iter().filter(|place| place.name.contains(&wanted)).collect();
    for place in &places {
        let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
        commit(&sandbox, "first");
        (place.make)(&sandbox);
        sandbox.llm.choose(|_| answer("done").into());
        let calls = [
            (NAGENT, &["--status"][..]),
            (NAGENT, &["task"]),
            (NAGENT, &["--file-edit", "a.txt", "task"]),
            (FILE_EDIT, &["--file", "a.txt", "--history"]),
        ];
        let (mut slowest, mut most, mut said) = (0.0, 0, String::new());
        for (tool, args) in calls {
            let (run, memory) = watched(&sandbox, tool, args);
            runs += 1;
            slowest = f64::max(slowest, run.seconds);
            most = most.max(memory);
            if ![0, 1].contains(&run.code) || run.stderr.contains("panicked") {
                figures.miss(format!("{}: {args:?}: {run:?}", place.name));
            }
            said = run.stdout + &run.stderr;
        }
        if !said.contains(place.history) {
            let said: String = said.chars().take(500).collect();
            figures.miss(format!("{}: the history lacks {:?}: {said}", place.name, place.history));
        }
        figures.row(
            &format!("{}: slowest look, most memory", place.name),
            format!("{slowest:.1} s, {} MiB", most >> 10),
            format!("under {} s, {} MiB", place.seconds, place.memory),
            slowest < place.seconds && most >> 10 < place.memory,
        );
        // What is started and connected, once more under a tracer, which takes time and memory of its own.
        for (tool, args) in calls {
            let (programs, connections) = traced(&sandbox, tool, args);
            let tell = |what: &String| format!("{}: {args:?}: {what}", place.name);
            started.extend(programs.iter().map(tell));
            connected.extend(connections.iter().map(tell));
        }
    }
    figures.exactly("looks at hostile repositories", runs, places.len() * 4);
    figures.exactly("programs that one of them started", started.len(), 0);
    figures.exactly("connections but to the model", connected.len(), 0);
    for what in started.iter().chain(&connected).take(10) {
        figures.miss(what.clone());
    }
}

/// A run, and the most memory that its process held, in KiB.
fn watched(sandbox: &Sandbox, tool: &str, args: &[&str]) -> (Run, u64) {
    let running = sandbox.program(tool, args).spawn();
    let path = format!("/proc/{}/status", running.pid());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn(move || {
        let mut most = 0;
        let a_moment = Duration::from_millis(2);
        while ended.recv_timeout(a_moment) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let size = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
            most = most.max(size.unwrap_or(0));
        }
        most
    });
    let run = running.wait_up_to(Duration::from_mins(2));
    drop(end);
    (run, watcher.join().unwrap())
}

/// What a run started beside nagent's own, and where it connected to beside the model.
fn traced(sandbox: &Sandbox, tool: &str, args: &[&str]) -> (Vec<String>, Vec<String>) {
    let log = std::env::temp_dir().join(format!("nagent-places-{}", std::process::id()));
    let path = log.to_str().unwrap();
    let strace =
        ["-f", "--seccomp-bpf", "-qq", "-o", path, "-e", "trace=execve,execveat,connect", tool];
    let run = sandbox.program("strace", &[&strace[..], args].concat()).spawn();
    run.wait_up_to(Duration::from_mins(2));
    let text = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    let port = sandbox.llm.origin().rsplit(':').next().unwrap().to_owned();
    let is_own = |line: &str| {
        let program = line.split('"').nth(1).unwrap_or_default();
        let name = Path::new(program).file_name().unwrap_or_default();
        OWN.iter().any(|own| name == *own)
    };
    assert!(text.contains("execve("), "nothing was traced: {text}");
    let lines = |what: &str| text.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    let programs = lines(" execve").into_iter().filter(|line| !is_own(line));
    let connections = lines(" connect(")
        .into_iter()
        .filter(|line| !line.contains(&format!("htons({port})")) && !line.contains("AF_UNIX"));
    (programs.map(str::to_owned).collect(), connections.map(str::to_owned).collect())
}

fn git_command(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=A", "-c", "user.email=a@x", "-c", "gc.auto=0"]).args(args);
    git.current_dir(sandbox.work()).env("HOME", sandbox.home());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    git
}

fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = git_command(sandbox, args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(sandbox: &Sandbox, message: &str) {
    git(sandbox, &["add", "--all"]);
    git(sandbox, &["commit", "--quiet", "-m", message]);
}

/// What git makes of a stream of orders.
fn import(sandbox: &Sandbox, write: impl FnOnce(&mut dyn Write)) {
    let mut import = git_command(sandbox, &["fast-import", "--quiet", "--force"]);
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut orders = BufWriter::new(import.stdin.take().unwrap());
    write(&mut orders);
    drop(orders);
    assert!(import.wait().unwrap().success(), "git fast-import");
}

/// Every second commit changes `a.txt`.
fn long_history(sandbox: &Sandbox) {
    import(sandbox, |orders| {
        for n in 1..=COMMITS {
            let name = if n % 2 == 0 { "a.txt" } else { "b.txt" };
            let (text, message) = (format!("{n}\n"), format!("number {n}"));
            write!(
                orders,
                "commit refs/heads/main\ncommitter A <a@x> {} +0000\ndata {}\n{message}\n\
                 M 100644 inline {name}\ndata {}\n{text}\n",
                1_000_000_000 + n,
                message.len(),
                text.len()
            )
            .unwrap();
        }
    });
}

fn many_branches(sandbox: &Sandbox) {
    let id = git(sandbox, &["rev-parse", "HEAD"]);
    import(sandbox, |orders| {
        for n in 0..100_000 {
            write!(orders, "reset refs/heads/b{n}\nfrom {id}\n\n").unwrap();
        }
    });
    git(sandbox, &["pack-refs", "--all"]);
}

/// A commit of `a.txt` with a message of so many bytes.
fn message(sandbox: &Sandbox, bytes: usize) {
    import(sandbox, |orders| {
        let from = "from refs/heads/main^0";
        write!(
            orders,
            "commit refs/heads/main\ncommitter A <a@x> 2000000000 +0000\ndata {bytes}\n"
        )
        .unwrap();
        orders.write_all(&vec![b'x'; bytes]).unwrap();
        write!(orders, "\n{from}\nM 100644 inline a.txt\ndata 4\ntwo\n\n").unwrap();
    });
}

/// A commit by its first bytes, and then zeros.
fn bomb(sandbox: &Sandbox) {
    let (id, tree) = ("ab".repeat(20), git(sandbox, &["rev-parse", "HEAD^{tree}"]));
    let script = "import sys, zlib\n\
        text = b'tree %s\\nauthor A <a@x> 2000000000 +0000\\ncommitter A <a@x> 2000000000 +0000\\n\\n' % sys.argv[2].encode()\n\
        size, zeros = 4 << 30, bytes(16 << 20)\n\
        z = zlib.compressobj(1)\n\
        f = open(sys.argv[1], 'wb')\n\
        f.write(z.compress(b'commit %d\\0' % size + text))\n\
        left = size - len(text)\n\
        while left > 0:\n    n = min(left, len(zeros)); f.write(z.compress(zeros[:n])); left -= n\n\
        f.write(z.flush())\n";
    let object = sandbox.write(&format!(".git/objects/{}/{}", &id[..2], &id[2..]), "");
    let made = Command::new("python3").args(["-c", script]).arg(object).arg(tree).status();
    assert!(made.unwrap().success(), "python3");
    sandbox.write(".git/refs/heads/main", id + "\n");
}

/// A file of lines that differ by a number, over its start.
fn large(sandbox: &Sandbox, path: &str, bytes: usize, line: &str) {
    let path = sandbox.work().join(path);
    let mut text = fs::read_to_string(&path).unwrap_or_default();
    let mut n = 0;
    loop {
        let more = line.replace("{}", &n.to_string());
        // Just below the limit.
        if text.len() + more.len() > bytes {
            break;
        }
        text += &more;
        n += 1;
    }
    fs::write(path, text).unwrap();
}

fn fifo(sandbox: &Sandbox, path: &str) {
    let path = sandbox.work().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(fs::remove_file(&path));
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
}
