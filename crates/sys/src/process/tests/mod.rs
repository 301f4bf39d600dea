//! Each promise of the engine, kept against real processes. Those that a test leaves behind are `sleep`s with
//! a fraction of a second that is drawn for the test, so that survivors can be counted.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use uuid::Uuid;

use super::job::{Output, Stdin};
use super::*;
use conversation::exit::Signal;

mod ends; // of all that a job started

fn job(script: &str) -> Job {
    let argv = ["sh", "-c", script].map(OsString::from).to_vec();
    let path = std::env::var_os("PATH").unwrap();
    Job::new(argv, std::env::temp_dir(), vec![("PATH".into(), path)])
}

fn finish(job: Job) -> Finished {
    run(job, &Interrupts::none()).unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// The processes with `word` among their arguments, zombies not counted.
fn alive(word: &str) -> usize {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|pid| fs::read(pid.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// What follows the point in a `sleep 60.…` that only this test starts.
fn word() -> String {
    (Uuid::new_v4().as_u128() % 1_000_000_000_000_000).to_string()
}

fn code(script: &str, expect: JobOutcome) {
    assert_eq!(finish(job(script)).outcome, expect, "{script}");
}

#[test]
fn ends_are_told_apart() {
    code("exit 0", JobOutcome::Ended { code: 0 });
    code("exit 1", JobOutcome::Ended { code: 1 });
    code("exit 255", JobOutcome::Ended { code: 255 });
    code("kill -9 $$", JobOutcome::Killed { signal: 9 });
    code("kill -SEGV $$", JobOutcome::Killed { signal: 11 });
    code("no-such-command-here 2>/dev/null", JobOutcome::Ended { code: 127 });
    // Over a limit of its own, of a file's size and of memory.
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -c 0; ulimit -f 8; exec head -c 1000000 /dev/zero >file";
    let over = finish(Job { cwd: folder.path().to_owned(), ..job(script) });
    assert_eq!(over.outcome, JobOutcome::Killed { signal: 25 });
    code("ulimit -v 100000; exec 2>&-; exec tail /dev/zero", JobOutcome::Ended { code: 1 });
}

#[test]
fn merged_output_comes_in_the_order_written() {
    let script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let finished = finish(job(script));
    let expect = (0..200).fold(String::new(), |text, i| format!("{text}o{i}\ne{i}\n"));
    assert_eq!(text(&finished.stdout), expect);
    assert_eq!((text(&finished.stdout).lines().count(), finished.stderr.len()), (400, 0));
}

#[test]
fn separate_output_stays_separate_and_never_blocks() {
    let script = "head -c 1000000 /dev/zero | tr '\\0' e >&2; echo out";
    let finished = finish(Job { output: Output::Separate, keep: 1 << 20, ..job(script) });
    assert_eq!(text(&finished.stdout), "out\n");
    assert_eq!(finished.stderr.len(), 1_000_000);
}

#[test]
fn stdin_is_empty_or_fed_while_output_is_read() {
    assert_eq!(text(&finish(job("cat; echo end")).stdout), "end\n");
    let bytes = 10_000_000;
    let fed = |script: &str| {
        finish(Job { stdin: Stdin::Bytes(vec![b'x'; bytes]), keep: bytes, ..job(script) })
    };
    let finished = fed("cat");
    assert_eq!((finished.stdout.len(), finished.outcome), (bytes, JobOutcome::Ended { code: 0 }));
    // A job that does not read, or stops reading, neither blocks nor fails.
    assert_eq!(text(&fed("echo end").stdout), "end\n");
    assert_eq!(text(&fed("head -c 3; exec <&-; echo; sleep 0.05; echo end").stdout), "xxx\nend\n");
}

#[test]
fn stdout_is_handed_on_as_it_comes() {
    let watch = Instant::now();
    let mut pieces = Vec::new();
    let finished = run_streaming(
        job("echo one; sleep 0.3; echo two"),
        &Interrupts::none(),
        None,
        &mut |piece| {
            pieces.push((piece.to_vec(), watch.elapsed()));
        },
    );
    let expect: Vec<&[u8]> = vec![b"one\n", b"two\n"];
    assert_eq!(pieces.iter().map(|(piece, _)| &piece[..]).collect::<Vec<_>>(), expect);
    assert!(pieces[1].1.saturating_sub(pieces[0].1) > Duration::from_millis(200));
    assert_eq!(text(&finished.unwrap().stdout), "one\ntwo\n");
}

#[test]
fn the_child_gets_a_clean_start() {
    // A descriptor that this process holds. Those that it inherits are tested through the executable.
    let (held, _end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let script = "ls /proc/self/fd | tr '\\n' ' '; grep -E '^(SigIgn|SigBlk)' /proc/self/status; \
         cat /proc/$$/stat; tty; (exec 3<>/dev/tty) 2>/dev/null || echo no-tty; pwd; env";
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let mut job = Job { cwd: cwd.clone(), ..job(script) };
    job.env.push(("ODD".into(), std::os::unix::ffi::OsStringExt::from_vec(b"a\xffb".to_vec())));
    let finished = finish(job);
    let text = text(&finished.stdout);
    // ls itself holds 3 for the folder that it lists.
    assert!(text.starts_with("0 1 2 3 SigBlk"), "{text}");
    let mask = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(name)).unwrap();
        // Without 32 and above, which the C library keeps to itself and some parents pass on.
        u64::from_str_radix(line.1.trim(), 16).unwrap() & 0x7FFF_FFFF
    };
    assert_eq!((mask("SigBlk:"), mask("SigIgn:")), (0, 0), "{text}");
    let stat: Vec<&str> =
        text.lines().find(|line| line.contains("(sh)")).unwrap().split(' ').collect();
    assert_eq!(
        (stat[0], stat[0], "0"),
        (stat[4], stat[5], stat[6]),
        "leads its group and session, no terminal"
    );
    assert!(text.contains("not a tty") && text.contains("no-tty"), "{text}");
    assert!(text.contains(&format!("\n{}\n", cwd.display())), "{text}");
    assert!(text.contains("\nODD=a\u{fffd}b\n") && !text.contains("HOME="), "{text}");
    drop(held);
}

#[test]
fn a_descriptor_is_inherited_only_if_the_job_names_it() {
    let (named, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&end, b"through a pipe").unwrap();
    drop(end);
    let number = std::os::fd::AsRawFd::as_raw_fd(&named);
    let script = format!("cat /proc/self/fd/{number}; ls /proc/self/fd | wc -l");
    assert_ne!(text(&finish(job(&script)).stdout), "through a pipe5\n");
    let finished = finish(Job { inherit: vec![named], ..job(&script) });
    assert_eq!(text(&finished.stdout), "through a pipe5\n");
}

#[test]
fn failures_to_start_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "text").unwrap();
    let start = |program: &str, argument: String, cwd: &Path| {
        let argv = vec![program.into(), argument.into()];
        run(Job { argv, cwd: cwd.to_owned(), ..job("") }, &Interrupts::none()).unwrap_err()
    };
    let here = folder.path();
    let error = start("no-such-program", String::new(), here);
    assert!(error.to_string().contains("not found"), "{error}");
    assert!(error.to_string().starts_with("cannot start no-such-program: not found"), "{error}");
    let error = start(plain.to_str().unwrap(), String::new(), here);
    assert!(error.to_string().contains("chmod +x"), "{error}");
    let error = start("sh", "x".repeat(3_000_000), here);
    assert!(error.to_string().contains("(30"), "{error}");
    let error = start("sh", String::new(), &here.join("gone"));
    assert!(error.to_string().contains("is the folder still there"), "{error}");
    let error = start("sh", String::new(), &plain);
    assert!(error.to_string().contains("is the folder still there"), "{error}");
    let error = start("sh", "a\0b".into(), here);
    assert!(error.to_string().contains("nul byte"), "{error}");
    let busy = folder.path().join("busy");
    fs::copy("/bin/true", &busy).unwrap();
    let written = fs::OpenOptions::new().append(true).open(&busy).unwrap();
    let error = start(busy.to_str().unwrap(), String::new(), here);
    assert!(error.to_string().contains("busy"), "{error}");
    drop(written);
    let error = run(Job { argv: vec![], ..job("") }, &Interrupts::none()).unwrap_err();
    assert!(error.to_string().contains("no program"), "{error}");
}

#[test]
fn a_time_limit_ends_the_job() {
    let finished =
        finish(Job { timeout: Some(Duration::from_millis(300)), ..job("echo begun; sleep 60") });
    assert_eq!(finished.outcome, JobOutcome::TimedOut);
    assert!(
        finished.took >= Duration::from_millis(300) && finished.took < Duration::from_secs(10),
        "{finished:?}"
    );
    assert_eq!(text(&finished.stdout), "begun\n");
}

#[test]
fn sigterm_comes_first_and_a_trap_has_its_say() {
    let script = "trap 'echo saved; exit 7' TERM; while :; do sleep 0.01; done";
    let finished = finish(Job { timeout: Some(Duration::from_millis(100)), ..job(script) });
    assert_eq!(finished.outcome, JobOutcome::TimedOut);
    assert!(text(&finished.stdout).ends_with("saved\n"), "{finished:?}");
    // One that is stopped can be ended, too.
    let finished =
        finish(Job { timeout: Some(Duration::from_millis(100)), ..job("kill -STOP $$; sleep 60") });
    assert!(finished.took < Duration::from_secs(20), "{finished:?}");
}

#[test]
fn a_signal_ends_every_job() {
    let interrupts = Interrupts::none();
    let mut jobs = Jobs::default();
    let word = word();
    for _ in 0..3 {
        jobs.start(job(&format!("sleep 60.{word} & wait"))).unwrap();
    }
    let watch = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            interrupts.raise(Signal::Term);
        });
        let first = jobs.next_finished(&interrupts).unwrap();
        assert_eq!(first.outcome, JobOutcome::Interrupted(Signal::Term));
        Instant::now()
    });
    assert_eq!(
        jobs.next_finished(&interrupts).unwrap().outcome,
        JobOutcome::Interrupted(Signal::Term)
    );
    assert_eq!(
        jobs.next_finished(&interrupts).unwrap().outcome,
        JobOutcome::Interrupted(Signal::Term)
    );
    assert!(jobs.next_finished(&interrupts).is_none());
    assert!(watch.elapsed() < Duration::from_secs(10));
    assert_eq!(alive(&word), 0);
}

#[test]
fn a_daemon_that_holds_the_pipe_does_not_make_the_result_wait() {
    let word = word();
    let watch = Instant::now();
    let finished = finish(job(&format!("setsid sleep 60.{word} & echo out; sleep 0.02")));
    assert_eq!(
        (&text(&finished.stdout)[..], finished.outcome),
        ("out\n", JobOutcome::Ended { code: 0 })
    );
    assert!(watch.elapsed() < Duration::from_secs(10));
}

#[test]
fn everything_in_the_pipe_is_read_when_the_job_has_ended() {
    // 64 KiB stand in the pipe when the leader ends.
    for _ in 0..20 {
        let finished = finish(Job { keep: 1 << 20, ..job("head -c 65536 /dev/zero | tr '\\0' x") });
        assert_eq!(finished.stdout.len(), 65536);
    }
}

#[test]
fn ten_jobs_run_side_by_side() {
    let mut jobs = Jobs::default();
    let watch = Instant::now();
    let mut open: BTreeSet<JobId> = (0..10)
        .map(|i| jobs.start(job(&format!("sleep 0.5; echo {i}; exit {i}"))).unwrap())
        .collect();
    let interrupts = Interrupts::none();
    while let Some(finished) = jobs.next_finished(&interrupts) {
        assert!(open.remove(&finished.id));
        let JobOutcome::Ended { code } = finished.outcome else { panic!("{finished:?}") };
        assert_eq!(
            (text(&finished.stdout), finished.id),
            (format!("{code}\n"), JobId(u64::try_from(code).unwrap()))
        );
    }
    assert!(open.is_empty() && watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
}

#[test]
fn endless_output_is_bounded_in_memory_and_ended_at_its_limit() {
    let before = memory();
    let (mut bytes, mut most) = (0, before);
    let yes = Job { limit: 32 << 20, ..job("yes") };
    let finished = run_streaming(yes, &Interrupts::none(), None, &mut |chunk| {
        bytes += chunk.len();
        most = most.max(memory());
    })
    .unwrap();
    assert_eq!((finished.outcome, finished.stdout.len()), (JobOutcome::TooMuch, 8192));
    assert!(bytes > 32 << 20 && bytes < 40 << 20, "{bytes}");
    // The output itself would be 32 MiB.
    assert!(most - before < 4 << 20, "{}", most - before);
}

/// The memory of this process in bytes, without code, which is paged in at any time.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn many_jobs_leave_nothing_behind() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    finish(job("true"));
    let (before, memory_before) = (open(), memory());
    for _ in 0..180 {
        finish(Job { stdin: Stdin::Bytes(b"x".to_vec()), output: Output::Separate, ..job("true") });
    }
    for _ in 0..20 {
        let _ = run(Job { cwd: "/no/such/folder".into(), ..job("true") }, &Interrupts::none());
    }
    assert_eq!(open(), before);
    assert!(memory().saturating_sub(memory_before) < 3 << 20, "{memory_before}");
    assert!(!ends::has_children());
}

/// Not a test by itself: what the next one runs as a process of its own, whose stdin and stdout are pipes.
#[test]
fn entry() {
    if std::env::var_os("NAGENT_TEST_PROCESS").is_none() {
        return;
    }
    let script = "tr a-z A-Z; echo said >&2; exit 5";
    let passed = Job { stdin: Stdin::Inherited, output: Output::Inherited, ..job(script) };
    let finished = finish(passed);
    let JobOutcome::Ended { code } = finished.outcome else { panic!("{finished:?}") };
    assert_eq!((finished.stdout.len(), finished.stderr.len()), (0, 0));
    std::process::exit(code);
}

#[test]
fn what_is_inherited_passes_through() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::tests::entry", "--nocapture"])
        .env("NAGENT_TEST_PROCESS", "inherited")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    io::Write::write_all(&mut child.stdin.take().unwrap(), b"some words\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(text(&output.stdout).ends_with("SOME WORDS\n"), "{output:?}");
    assert_eq!((&text(&output.stderr)[..], output.status.code()), ("said\n", Some(5)));
}
