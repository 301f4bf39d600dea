//! Nothing outlives its job, wherever it hid; and no job harms another.

use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;

/// Returns whether this process has any child, alive or not reaped.
pub(super) fn has_children() -> bool {
    crate::process::supervisor::end_idle();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// The ways out that a script may try; `{}` is a command that stays.
const ESCAPES: [&str; 9] = [
    "{} &",
    "nohup {} >/dev/null 2>&1 &",
    "setsid {} &",
    "setsid sh -c '({} &) &' &",
    "(setsid {} & ) &",
    "trap '' TERM HUP INT; {} & ",
    "trap '' TERM; setsid sh -c \"trap '' TERM HUP; {} & {} & wait\" &",
    "env -i PATH=$PATH setsid sh -c '(setsid {} &) & exit' &",
    "{} | {} &",
];

fn check_escape(way: &str, ending: &str, timeout: Option<Duration>) {
    let word = word();
    let script = format!("{}{ending}", way.replace("{}", &format!("sleep 60.{word}")));
    let watch = Instant::now();
    let finished = finish(Job { timeout, ..job(&script) });
    let survivors = alive(&word);
    assert_eq!(survivors, 0, "{script}");
    let allowed = Duration::from_secs(20) + timeout.unwrap_or_default();
    assert!(watch.elapsed() < allowed, "{script}: {finished:?}");
    let expect =
        if timeout.is_some() { JobOutcome::TimedOut } else { JobOutcome::Ended { code: 0 } };
    assert_eq!(finished.outcome, expect, "{script}");
    assert!(!has_children(), "{script}: a zombie is left");
}

#[test]
fn nothing_outlives_a_job_that_ends() {
    for way in ESCAPES {
        check_escape(way, "\nexit 0", None);
        check_escape(way, "\nsleep 0.05; exit 0", None);
    }
}

#[test]
fn nothing_outlives_a_job_that_is_timed_out() {
    for way in ESCAPES {
        check_escape(
            way,
            "\ntrap '' TERM; while :; do sleep 0.02; done",
            Some(Duration::from_millis(60)),
        );
    }
}

#[test]
fn a_job_that_ends_does_not_harm_its_neighbours() {
    let mut jobs = Jobs::default();
    let (short, long) = (word(), word());
    // A child in the job's own group, an orphan in its session, an orphan in one of its own.
    let script = |word: &str| {
        format!(
            "sleep 60.{word} & (sleep 60.{word} &) & (setsid sleep 60.{word} &) & wait; sleep 60.{word}"
        )
    };
    let limited =
        |word, millis| Job { timeout: Some(Duration::from_millis(millis)), ..job(&script(word)) };
    let short_id = jobs.start(limited(&short, 300)).unwrap();
    jobs.start(limited(&long, 700)).unwrap();
    let interrupts = Interrupts::none();
    let first = jobs.next_finished(&interrupts).unwrap();
    assert_eq!((first.id, first.outcome), (short_id, JobOutcome::TimedOut));
    assert_eq!(
        (alive(&short), alive(&long)),
        (0, 4),
        "three sleeps and the shell of the other job"
    );
    assert_eq!(jobs.next_finished(&interrupts).unwrap().outcome, JobOutcome::TimedOut);
    assert_eq!(alive(&long), 0);
}

/// What hides from everything but its supervisor: no environment, a session of its own, twice forked.
fn hidden(word: &str) -> String {
    format!("env -i PATH=$PATH setsid sh -c '(setsid sleep 60.{word} &) &'; sleep 0.1")
}

#[test]
fn an_orphan_that_hid_ends_with_its_own_job_while_others_run() {
    let mut jobs = Jobs::default();
    let (word, other) = (word(), word());
    let first = jobs.start(job(&hidden(&word))).unwrap();
    let limit = Some(Duration::from_secs(2));
    jobs.start(Job { timeout: limit, ..job(&hidden(&other).replace("; sleep 0.1", "; sleep 60")) })
        .unwrap();
    let interrupts = Interrupts::none();
    assert_eq!(jobs.next_finished(&interrupts).unwrap().id, first);
    // The other's orphan, and its shell, which has the word among its arguments.
    assert_eq!((alive(&word), alive(&other)), (0, 2));
    assert_eq!(jobs.next_finished(&interrupts).unwrap().outcome, JobOutcome::TimedOut);
    assert_eq!(alive(&other), 0);
}

#[test]
fn a_job_that_kills_its_supervisor_dies_with_it_and_harms_no_other() {
    let mut jobs = Jobs::default();
    let (word, other) = (word(), word());
    let first = jobs.start(job(&format!("kill -9 $PPID; exec sleep 60.{word}"))).unwrap();
    let limit = Some(Duration::from_secs(2));
    jobs.start(Job { timeout: limit, ..job(&hidden(&other).replace("; sleep 0.1", "; sleep 60")) })
        .unwrap();
    let interrupts = Interrupts::none();
    let finished = jobs.next_finished(&interrupts).unwrap();
    assert_eq!((finished.id, finished.outcome), (first, JobOutcome::Killed { signal: 9 }));
    assert!(!finished.all_gone, "nobody knows what else it has started");
    // A shell that has forked has the word, too, until it becomes what it starts.
    let settled = (0..150).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        (alive(&word), alive(&other)) == (0, 2)
    });
    assert!(settled, "{} {}", alive(&word), alive(&other));
    assert_eq!(jobs.next_finished(&interrupts).unwrap().outcome, JobOutcome::TimedOut);
    assert_eq!(alive(&other), 0);
    assert!(!has_children());
}

#[test]
fn a_job_that_kills_its_group_harms_nobody_else() {
    code("sleep 60 & kill -9 0", JobOutcome::Killed { signal: 9 });
    code("kill -9 -$$", JobOutcome::Killed { signal: 9 });
}

#[test]
fn signals_to_a_supervisor_change_nothing() {
    let signals = "for s in HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD TSTP TTIN TTOU SEGV";
    let script = format!("{signals}; do kill -$s $PPID; done; sleep 0.05; echo end; exit 3");
    let finished = finish(job(&script));
    assert_eq!(
        (&text(&finished.stdout)[..], finished.outcome),
        ("end\n", JobOutcome::Ended { code: 3 })
    );
}

#[test]
fn a_time_limit_holds_for_a_job_that_stops_its_supervisor() {
    let word = word();
    let watch = Instant::now();
    let limit = Some(Duration::from_millis(50));
    let stops = format!("setsid sleep 60.{word} & kill -STOP $PPID; exit 4");
    let finished = finish(Job { timeout: limit, ..job(&stops) });
    assert_eq!((finished.outcome, alive(&word)), (JobOutcome::TimedOut, 0));

    let stops = "trap '' TERM; while :; do kill -STOP $PPID; done";
    let finished = finish(Job { timeout: limit, ..job(stops) });
    assert_eq!(finished.outcome, JobOutcome::TimedOut);
    // Far below the minute that the sleeper would take; a busy machine needs some of it.
    assert!(watch.elapsed() < Duration::from_secs(20), "{:?}", watch.elapsed());
}

#[test]
fn a_supervisor_holds_nothing_of_this_process() {
    let folder = tempfile::tempdir().unwrap();
    // The supervisor closes its descriptors when the command has begun.
    let script = "cd /proc/$PPID; n=0; while [ -e fd/2 ] && [ $((n += 1)) -lt 200 ]; do sleep 0.01; done; sleep 0.05; \
                  ls fd | tr '\\n' ' '; readlink cwd; cat comm; ls -l fd | grep -c pipe";
    let finished = finish(Job {
        cwd: folder.path().to_owned(),
        stdin: Stdin::Bytes(b"x".to_vec()),
        output: Output::Separate,
        ..job(script)
    });
    assert_eq!(text(&finished.stdout), "0 1 /\nnagent-super\n0\n");
}

#[test]
fn jobs_that_are_dropped_are_killed() {
    let word = word();
    let mut jobs = Jobs::default();
    jobs.start(job(&format!("setsid sleep 60.{word} & sleep 60.{word}"))).unwrap();
    while alive(&word) < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(jobs);
    assert_eq!(alive(&word), 0);
}

#[test]
fn a_supervisor_that_does_not_end_is_killed() {
    let word = word();
    let mut jobs = Jobs::default();
    jobs.start(job(&format!("exec sleep 60.{word}"))).unwrap();
    while alive(&word) < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    jobs.running[0].kill_supervisor(JobOutcome::TimedOut);
    assert_eq!(jobs.next_finished(&Interrupts::none()).unwrap().outcome, JobOutcome::TimedOut);
    // It dies a moment after its supervisor.
    while alive(&word) > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!has_children());
}

/// Each runner starts the next one in a session of its own and ends: two hundred at most.
#[test]
fn a_chain_that_runs_on_is_caught_up_with() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("runner");
    let body = "[ $1 -gt 0 ] || exec sleep 60.$2\nsetsid sh $0 $(($1 - 1)) $2 &\n";
    fs::write(&script, body).unwrap();
    let word = word();
    let start =
        format!("for i in 1 2 3; do setsid sh {} 60 {word} & done; sleep 0.02", script.display());
    let watch = Instant::now();
    assert_eq!(finish(job(&start)).outcome, JobOutcome::Ended { code: 0 });
    assert!(watch.elapsed() < Duration::from_secs(20), "{:?}", watch.elapsed());
    assert_eq!(alive(&word), 0);
}

#[test]
fn a_supervisor_that_has_done_nothing_unusual_gets_the_next_job() {
    let supervisor = |job| text(&finish(job).stdout);
    let first = supervisor(job("echo $PPID"));
    assert_eq!(supervisor(job("echo $PPID; sleep 9 &")), first);
    // One that ended early, one that could not be started, and one whose supervisor was stopped.
    let limit = Some(Duration::from_millis(50));
    finish(Job { timeout: limit, ..job("sleep 9") });
    let second = supervisor(job("echo $PPID"));
    assert_ne!(second, first);
    let missing = Job::new(vec!["/nonexistent/program".into()], "/".into(), Vec::new());
    crate::process::run(missing, &Interrupts::none()).unwrap_err();
    assert_eq!(supervisor(job("echo $PPID")), second);
    let process = rustix::process::Pid::from_raw(second.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_ne!(supervisor(job("echo $PPID")), second);
    assert!(!has_children());
}

#[test]
fn more_descriptors_than_a_message_takes_are_inherited_under_their_numbers() {
    let files: Vec<std::os::fd::OwnedFd> =
        (0..300).map(|_| fs::File::open("/dev/null").unwrap().into()).collect();
    let (first, last) = (files[0].as_raw_fd(), files[299].as_raw_fd());
    let script = format!(
        "n=0; i={first}; while [ $i -le {last} ]; do [ -e /proc/self/fd/$i ] && n=$((n+1)); i=$((i+1)); done; echo $n"
    );
    let inherits = Job { inherit: files, ..job(&script) };
    assert_eq!(text(&finish(inherits).stdout), "300\n");
}
