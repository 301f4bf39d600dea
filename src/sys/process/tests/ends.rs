//! Nothing outlives its job, wherever it hid and whatever it did to its keeper; and no job harms another.

use super::*;

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
    let allowed = Duration::from_millis(800) + timeout.unwrap_or_default();
    assert!(watch.elapsed() < allowed, "{script}: {finished:?}");
    let expect = if timeout.is_some() { Outcome::TimedOut } else { Outcome::Ended { code: 0 } };
    assert_eq!(finished.outcome, expect, "{script}");
    assert!(!descend::has_children(), "{script}: a zombie is left");
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
    let mut jobs = Jobs::new();
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
    let first = jobs.next(&interrupts).unwrap();
    assert_eq!((first.id, first.outcome), (short_id, Outcome::TimedOut));
    assert_eq!(
        (alive(&short), alive(&long)),
        (0, 4),
        "three sleeps and the shell of the other job"
    );
    assert_eq!(jobs.next(&interrupts).unwrap().outcome, Outcome::TimedOut);
    assert_eq!(alive(&long), 0);
}

/// What hides from everything but its keeper: no environment, a session of its own, twice forked.
fn hidden(word: &str) -> String {
    format!("env -i PATH=$PATH setsid sh -c '(setsid sleep 60.{word} &) &'; sleep 0.1")
}

#[test]
fn an_orphan_that_hid_ends_with_its_own_job_while_others_run() {
    let mut jobs = Jobs::new();
    let (word, other) = (word(), word());
    let first = jobs.start(job(&hidden(&word))).unwrap();
    let limit = Some(Duration::from_millis(600));
    jobs.start(Job { timeout: limit, ..job(&hidden(&other).replace("; sleep 0.1", "; sleep 60")) })
        .unwrap();
    let interrupts = Interrupts::none();
    assert_eq!(jobs.next(&interrupts).unwrap().id, first);
    // The other's orphan, and its shell, which has the word among its arguments.
    assert_eq!((alive(&word), alive(&other)), (0, 2));
    assert_eq!(jobs.next(&interrupts).unwrap().outcome, Outcome::TimedOut);
    assert_eq!(alive(&other), 0);
}

#[test]
fn nothing_outlives_a_job_that_kills_its_keeper() {
    let killed = Outcome::Killed { signal: 9 };
    for way in ESCAPES {
        let word = word();
        let sleeps = way.replace("{}", &format!("sleep 60.{word}"));
        let watch = Instant::now();
        let finished =
            finish(job(&format!("{sleeps}\nsleep 0.02; kill -9 $PPID; sleep 60.{word}")));
        assert_eq!((finished.outcome, alive(&word)), (killed, 0), "{way}");
        assert!(watch.elapsed() < Duration::from_millis(800), "{way}");
        assert!(!descend::has_children(), "{way}: a zombie is left");
    }
}

#[test]
fn a_job_that_kills_its_keeper_does_not_harm_its_neighbours() {
    let mut jobs = Jobs::new();
    let (word, other) = (word(), word());
    let script = format!("{}; kill -9 $PPID; sleep 60", hidden(&word));
    let first = jobs.start(job(&script)).unwrap();
    let limit = Some(Duration::from_millis(600));
    jobs.start(Job { timeout: limit, ..job(&hidden(&other).replace("; sleep 0.1", "; sleep 60")) })
        .unwrap();
    let interrupts = Interrupts::none();
    let finished = jobs.next(&interrupts).unwrap();
    assert_eq!((finished.id, finished.outcome), (first, Outcome::Killed { signal: 9 }));
    assert_eq!((alive(&word), alive(&other)), (0, 2));
    assert_eq!(jobs.next(&interrupts).unwrap().outcome, Outcome::TimedOut);
    assert_eq!(alive(&other), 0);
    assert!(!descend::has_children() && keepers().is_empty());
}

#[test]
fn a_job_that_kills_its_group_harms_nobody_else() {
    code("sleep 60 & kill -9 0", Outcome::Killed { signal: 9 });
    code("kill -9 -$$", Outcome::Killed { signal: 9 });
}

#[test]
fn signals_to_a_keeper_change_nothing() {
    let signals = "for s in HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD TSTP TTIN TTOU SEGV";
    let script = format!("{signals}; do kill -$s $PPID; done; sleep 0.05; echo end; exit 3");
    let finished = finish(job(&script));
    assert_eq!(
        (&text(&finished.stdout)[..], finished.outcome),
        ("end\n", Outcome::Ended { code: 3 })
    );
}

#[test]
fn a_keeper_that_its_job_stopped_is_continued_or_done_without() {
    let word = word();
    let watch = Instant::now();
    let stops = format!("setsid sleep 60.{word} & kill -STOP $PPID; exit 4");
    let finished = finish(job(&stops));
    assert_eq!((finished.outcome, alive(&word)), (Outcome::Ended { code: 4 }, 0));
    assert!(watch.elapsed() < Duration::from_millis(1500), "{:?}", watch.elapsed());

    let limit = Some(Duration::from_millis(50));
    let stops =
        format!("setsid sleep 60.{word} & trap '' TERM; while :; do kill -STOP $PPID; done");
    let finished = finish(Job { timeout: limit, ..job(&stops) });
    assert_eq!((finished.outcome, alive(&word)), (Outcome::TimedOut, 0));
    assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
}

#[test]
fn a_keeper_holds_nothing_of_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "cd /proc/$PPID; ls fd | tr '\\n' ' '; readlink cwd; cat comm; ls -l fd | grep -c pipe";
    let finished = finish(Job {
        cwd: folder.path().to_owned(),
        stdin: Stdin::Bytes(b"x".to_vec()),
        output: Output::Separate,
        ..job(script)
    });
    assert_eq!(text(&finished.stdout), "0 1 /\nnagent-keeper\n0\n");
}

#[test]
fn jobs_that_are_dropped_are_killed() {
    let word = word();
    let mut jobs = Jobs::new();
    jobs.start(job(&format!("setsid sleep 60.{word} & sleep 60.{word}"))).unwrap();
    while alive(&word) < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(jobs);
    assert_eq!(alive(&word), 0);
}

#[test]
fn a_keeper_that_does_not_end_is_done_without() {
    let word = word();
    let mut jobs = Jobs::new();
    jobs.start(job(&format!("setsid sleep 60.{word} & sleep 60.{word}"))).unwrap();
    while alive(&word) < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    jobs.running[0].give_up(Outcome::TimedOut);
    assert_eq!(jobs.next(&Interrupts::none()).unwrap().outcome, Outcome::TimedOut);
    assert_eq!(alive(&word), 0);
    assert!(!descend::has_children() && keepers().is_empty());
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
    assert_eq!(finish(job(&start)).outcome, Outcome::Ended { code: 0 });
    assert!(watch.elapsed() < Duration::from_secs(1), "{:?}", watch.elapsed());
    assert_eq!(alive(&word), 0);
}
