//! Everything that a run started ends with it: time limits, kills at random instants, the second Ctrl-C, forks without end,
//! output without end, thousands of shells. As root and as a plain user.
//!
//! Needs root (to become the plain user), setpriv, script, perl, unshare.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::figures::Figures;
use crate::process_under_test::Running;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};

mod recycled; // numbers of processes that go round

/// The plain user.
const NOBODY: &str = "65534";

pub(crate) fn run(figures: &mut Figures) {
    // `PROCESSES=recycled` takes these alone.
    if std::env::var("PROCESSES").is_ok_and(|wanted| wanted == "recycled") {
        return recycled::run(figures);
    }
    time_limits(figures);
    recycled::run(figures);
    kills(figures, None, 100);
    second_sigint(figures);
    fork_bomb(figures);
    output(figures);
    shells(figures);
}

/// The processes with `word` among their arguments.
fn alive(word: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|pid| std::fs::read(pid.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// What follows the point in the `sleep 300.…` of this sandbox.
fn word(sandbox: &Sandbox) -> String {
    let name = sandbox.base().file_name().unwrap().to_str().unwrap();
    name.bytes().map(|byte| format!("{byte:03}")).collect::<String>().split_off(36)
}

/// Sleepers of many kinds, one that would leave a file later, then a shell that stays.
fn sleepers(word: &str) -> String {
    format!(
        "trap '' INT TERM HUP; sleep 300.{word} & (setsid sleep 300.{word} &) ; nohup sleep 300.{word} >/dev/null & \
         env -i PATH=$PATH setsid sh -c '(setsid sleep 300.{word} &) &'; (setsid sleep 300.{word} & kill -STOP $!) & \
         (setsid sh -c \"trap '' TERM; sleep 3; touch late # 300.{word}\" &); touch started; sleep 300.{word}"
    )
}

/// What outlives a run, a second after its end, and how long it took until nothing did.
fn survivors(sandbox: &Sandbox, word: &str) -> (usize, Duration) {
    let start = Instant::now();
    loop {
        let left = alive(word).max(sandbox.processes().len());
        if left == 0 || start.elapsed() > Duration::from_secs(1) {
            return (left, start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does something `times`, some side by side; what all of it came to.
fn many<T: Send>(times: usize, at_once: usize, once: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, all) = (Mutex::new(0..times), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(n) = next.lock().unwrap().next() else { return };
                    let result = once(n);
                    all.lock().unwrap().push(result);
                }
            });
        }
    });
    all.into_inner().unwrap()
}

fn late(sandboxes: &[Sandbox]) -> usize {
    std::thread::sleep(Duration::from_millis(3200));
    sandboxes.iter().filter(|sandbox| sandbox.work().join("late").exists()).count()
}

fn time_limits(figures: &mut Figures) {
    let all = many(100, 8, |_| {
        let sandbox = Sandbox::new();
        let word = word(&sandbox);
        sandbox.llm.push(format!("<nagent-shell timeout=\"1\">{}</nagent-shell>", sleepers(&word)));
        sandbox.llm.push(answer("done"));
        let run = sandbox.run(&["task"]).assert_exit(0);
        let left = alive(&word);
        (left, run.seconds, sandbox)
    });
    figures.exactly("time limits with escapees: runs", all.len(), 100);
    figures.exactly("survivors at the run's end", all.iter().map(|one| one.0).sum(), 0);
    let slow = all.iter().map(|one| one.1).fold(0.0, f64::max);
    figures.row(
        "the slowest, limit 1 s",
        format!("{slow:.2} s"),
        "under 4 s (8 at once)",
        slow < 4.0,
    );
    let sandboxes: Vec<Sandbox> = all.into_iter().map(|one| one.2).collect();
    figures.exactly("files that an orphan would write later", late(&sandboxes), 0);
}

/// The executable where the plain user can reach it. Made once: a copy that is still open for writing cannot be run.
fn reachable() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::copy(NAGENT, folder.path().join("nagent")).unwrap();
    for path in [folder.path().to_owned(), folder.path().join("nagent")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn as_nobody() -> [&'static str; 5] {
    ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
}

/// Gives the sandbox to the plain user.
fn hand_over(sandbox: &Sandbox) {
    let owner = format!("{NOBODY}:{NOBODY}");
    let given = Command::new("chown").args(["-R", &owner]).arg(sandbox.base()).status().unwrap();
    assert!(given.success());
}

/// A run in the sandbox, as this user, or with that executable as the plain one.
fn start(sandbox: &Sandbox, for_nobody: Option<&Path>) -> Running {
    let Some(program) = for_nobody else { return sandbox.cmd(&["task"]).spawn() };
    hand_over(sandbox);
    let words = [&as_nobody()[..], &[program.to_str().unwrap(), "task"]].concat();
    sandbox.program("setpriv", &words).spawn()
}

fn kills(figures: &mut Figures, for_nobody: Option<&Path>, times: usize) {
    let all = many(times, 4, |n| {
        let sandbox = Sandbox::new();
        let word = word(&sandbox);
        sandbox.llm.push(shell(&sleepers(&word)));
        let running = start(&sandbox, for_nobody);
        if n % 4 == 0 {
            wait_until("it has begun", || sandbox.work().join("started").exists());
        } else {
            // Any instant of start, request, shell.
            let millis = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            std::thread::sleep(Duration::from_millis(millis % 400));
        }
        running.signal(Signal::KILL);
        let had_begun = sandbox.work().join("started").exists();
        let _ = running.wait();
        let (left, took) = survivors(&sandbox, &word);
        (left, took, had_begun, sandbox)
    });
    let who = if for_nobody.is_none() { "" } else { ", as a plain user" };
    figures.exactly(&format!("kill -9 at any instant{who}: runs"), all.len(), times);
    figures.at_least(
        "of them with a shell at work",
        all.iter().filter(|one| one.2).count(),
        times / 4,
    );
    figures.exactly("survivors after 1 s", all.iter().map(|one| one.0).sum(), 0);
    let slow = all.iter().map(|one| one.1).max().unwrap_or_default().as_millis();
    figures.row("the last one's end", format!("{slow} ms"), "under 1000 ms", slow < 1000);
    let sandboxes: Vec<Sandbox> = all.into_iter().map(|one| one.3).collect();
    figures.exactly("files that an orphan would write later", late(&sandboxes), 0);
}

/// Whether it has not ended. One that has ended is reaped by `wait`.
fn is_running(running: &Running) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.pid()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn second_sigint(figures: &mut Figures) {
    let all = many(20, 2, |_| {
        let sandbox = Sandbox::new();
        let word = word(&sandbox);
        sandbox.llm.push(shell(&sleepers(&word)));
        let running = sandbox.cmd(&["task"]).spawn();
        wait_until("it has begun", || sandbox.work().join("started").exists());
        running.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(40));
        running.signal(Signal::INT);
        let run = running.wait().assert_exit(130);
        (survivors(&sandbox, &word), run.after)
    });
    figures.exactly("second Ctrl-C: runs", all.len(), 20);
    figures.exactly("survivors after 1 s", all.iter().map(|one| one.0.0).sum(), 0);
    let slow = all.iter().map(|one| one.1).fold(0.0, f64::max);
    figures.row("the slowest exit", format!("{:.0} ms", slow * 1e3), "under 200 ms", slow < 0.2);
}

fn fork_bomb(figures: &mut Figures) {
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    // 63 subshells, each in a session of its own, and a sleeper of each. No more: the machine is shared.
    let bomb = format!(
        "<nagent-shell timeout=\"1\">cat >b <<'E'\ntrap '' TERM\n[ $1 -gt 0 ] && {{ setsid sh b $(($1-1)) $2 & \
         setsid sh b $(($1-1)) $2 & }}\nsleep 300.$2\nE\nsh b 5 {word}</nagent-shell>"
    );
    sandbox.llm.push(bomb);
    sandbox.llm.push(answer("done"));
    let running = sandbox.cmd(&["task"]).spawn();
    let mut most = 0;
    while is_running(&running) {
        most = most.max(alive(&word));
        std::thread::sleep(Duration::from_millis(20));
    }
    let run = running.wait().assert_exit(0);
    figures.at_least("fork bomb: processes", most, 100);
    figures.exactly("survivors at the run's end", alive(&word), 0);
    let text = format!("{:.2} s", run.seconds);
    figures.row("its end, limit 1 s", text, "under 3 s", run.seconds < 3.0);
}

/// A line of `/proc/PID/status` in KiB.
fn status(pid: u32, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn output(figures: &mut Figures) {
    for command in ["yes", "cat /dev/zero", "head -c 10G /dev/zero >&2"] {
        let sandbox = Sandbox::new().reply(shell(command)).reply(answer("done"));
        let running = sandbox.cmd(&["task"]).spawn();
        let pid = running.pid();
        let mut most = 0;
        while is_running(&running) {
            most = most.max(status(pid, "VmHWM").unwrap_or(0));
            std::thread::sleep(Duration::from_millis(20));
        }
        running.wait().assert_exit(0);
        figures.row(
            &format!("memory for `{command}`"),
            format!("{} MiB", most >> 10),
            "under 64 MiB",
            most < 64 << 10,
        );
        let result = sandbox.block("nagent-shell-result");
        let kept = std::fs::metadata(result.get("output")).map_or(0, |file| file.len());
        let told: u64 = result.get("bytes").parse().unwrap_or(0);
        figures.row(
            "bytes told of, bytes kept",
            format!("{told}, {kept}"),
            "the same, over 1 GiB",
            told == kept && kept > 1 << 30,
        );
        let size = sandbox.conversation().len();
        figures.row("the conversation", format!("{size} bytes"), "under 64 KiB", size < 64 << 10);
    }
}

fn shells(figures: &mut Figures) {
    let sandbox = Sandbox::new();
    for _ in 0..20 {
        sandbox.llm.push(shell("true").repeat(100));
    }
    sandbox.llm.push(answer("done"));
    let running = sandbox.cmd(&["--max-turns", "50", "task"]).spawn();
    let pid = running.pid();
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let (mut first, mut last, mut fds, mut zombies, mut samples) = (None, 0, 0, 0, 0);
    while is_running(&running) {
        let memory = status(pid, "VmRSS");
        if let Some(memory) = memory
            && sandbox.requests().len() > 2
        {
            first.get_or_insert(memory);
            last = memory;
            fds = fds.max(open());
            // Its supervisor may be one that has just ended.
            zombies = zombies.max(children(pid, 'Z').saturating_sub(1));
            samples += 1;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    running.wait().assert_exit(0);
    figures.exactly("shells in one run", sandbox.blocks_of("nagent-shell-result").len(), 2000);
    figures.at_least("samples", samples, 50);
    let grown = last.saturating_sub(first.unwrap_or(0));
    figures.row("growth of memory", format!("{grown} KiB"), "under 5120 KiB", grown < 5120);
    figures.row("most descriptors", fds, "under 32", fds < 32);
    figures.exactly("zombies", zombies, 0);
}

/// The children of a process in a state.
fn children(pid: u32, state: char) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = pids.filter_map(|pid| std::fs::read_to_string(pid.path().join("stat")).ok());
    let wanted = format!(") {state} {pid} ");
    stats.filter(|stat| stat.contains(&wanted)).count()
}

pub(crate) fn plain_user(figures: &mut Figures) {
    let folder = reachable();
    let program = folder.path().join("nagent");
    kills(figures, Some(&program), 20);

    // Nothing to be read of the run's process, and nothing to be typed into its terminal.
    let look = "id -u; n=$PPID; while case $(cat /proc/$n/comm) in nagent*) true;; *) false;; esac; do \
         for f in environ mem maps fd/0 auxv; do head -c 1 /proc/$n/$f >/dev/null 2>&1 && echo read $f; done; \
         n=$(sed 's/.*) . //; s/ .*//' /proc/$n/stat); done; \
         perl -e 'open F, \"+<\", $ARGV[0] or die; $c = \"X\"; \
         print ioctl(F, 0x5412, $c) ? \"typed\\n\" : \"not typed\\n\"' \"$(cat tty)\"; echo looked";
    let sandbox = Sandbox::new().reply(shell(look)).reply(answer("done"));
    hand_over(&sandbox);
    let line = format!("tty >tty; exec '{}' task </dev/null", program.display());
    let script = ["script", "-q", "-e", "-c", &line, "/dev/null"];
    let run = sandbox
        .program("setpriv", &[&as_nobody()[..], &script].concat())
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .silent_stdin()
        .run();
    let body = sandbox.block("nagent-shell-result").body;
    let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let wanted = [NOBODY, "not typed", "looked"];
    figures.row(
        "what a plain user's command reads and types",
        lines.join(", "),
        wanted.join(", "),
        lines == wanted,
    );
    let clean = run.code == 0 && !body.contains(CANARY);
    figures.row("its run", run.code, "0, no key", clean);
}
