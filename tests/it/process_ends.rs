//! What ends with a run that ends without a word: killed, or left at the second Ctrl-C. What commands are started with,
//! and what they can learn of the process that started them.

use std::path::Path;

use rustix::process::Signal;

use crate::process_under_test::slowness;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};

/// The longest that anything may outlive the run.
const SECOND: f64 = 1.0;

/// The processes with `word` among their arguments. Those that emptied their environment have no other mark.
fn alive(word: &str) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = pids.filter_map(|pid| std::fs::read(pid.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// What follows the point in the `sleep 300.…` of this sandbox.
fn word(sandbox: &Sandbox) -> String {
    let name = sandbox.base().file_name().unwrap().to_str().unwrap();
    name.bytes().map(|byte| format!("{byte:03}")).collect::<String>().split_off(36)
}

/// Asserts that nothing of the sandbox runs any more within a second, or as long as a busy machine needs for it.
fn all_end(sandbox: &Sandbox, word: &str, after: &str) {
    let start = std::time::Instant::now();
    wait_until(&format!("all is gone after {after}"), || {
        sandbox.processes().is_empty() && alive(word).is_empty()
    });
    let limit = SECOND * slowness();
    assert!(start.elapsed().as_secs_f64() < limit, "{:?} after {after}", start.elapsed());
}

/// Sleepers of many kinds, then a shell that stays.
fn sleepers(word: &str) -> String {
    format!(
        "trap '' INT TERM HUP; sleep 300.{word} & (setsid sleep 300.{word} &) ; nohup sleep 300.{word} >/dev/null & \
         env -i PATH=$PATH setsid sh -c '(setsid sleep 300.{word} &) &'; (setsid sleep 300.{word} & kill -STOP $!) & \
         sleep 0.05; touch started; sleep 300.{word}"
    )
}

fn check_death(how: &str, end: impl Fn(&crate::process_under_test::Running)) {
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    sandbox.llm.push(shell(&sleepers(&word)));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the shell has started", || sandbox.work().join("started").exists());
    wait_until("all sleepers run", || alive(&word).len() > 5);
    end(&running);
    running.wait();
    all_end(&sandbox, &word, how);
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    check_death("SIGKILL", |running| running.signal(Signal::KILL));
}

#[test]
fn a_run_that_leaves_at_the_second_sigint_leaves_no_process() {
    check_death("the second SIGINT", |running| {
        running.signal(Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(40));
        running.signal(Signal::INT);
    });
}

#[test]
fn a_run_that_sigquit_ends_leaves_no_process() {
    // Nobody catches it: Ctrl-\\ is the third way out at a keyboard.
    check_death("SIGQUIT", |running| running.signal(Signal::QUIT));
}

#[test]
fn a_command_that_stopped_its_supervisor_ends_with_the_run_all_the_same() {
    let stop = "(sleep 0.02; while [ ! -e started ]; do sleep 0.01; done; kill -STOP $PPID; touch stopped) & ";
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    sandbox.llm.push(shell(&format!("{stop}{}", sleepers(&word))));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the supervisor is stopped", || sandbox.work().join("stopped").exists());
    running.signal(Signal::KILL);
    running.wait();
    all_end(&sandbox, &word, "SIGKILL with a stopped supervisor");
}

#[test]
fn a_command_gets_sigterm_before_sigkill_when_the_run_is_killed() {
    // Whatever it wrote would go into a pipe that nobody reads any more, and end it at once.
    let heeds = "exec >/dev/null 2>&1; trap 'touch told; exit' TERM; touch started; \
         while :; do sleep 0.01; done";
    let sandbox = Sandbox::new().reply(shell(heeds));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the shell has started", || sandbox.work().join("started").exists());
    running.signal(Signal::KILL);
    running.wait();
    all_end(&sandbox, "no such word", "SIGKILL");
    assert!(sandbox.work().join("told").exists());
}

#[test]
fn a_command_ends_where_the_run_and_the_supervisor_are_both_killed() {
    let stays = "trap '' TERM HUP INT; exec >/dev/null 2>&1; echo $PPID >new; mv new supervisor; \
         for i in $(seq 500); do sleep 0.01; done";
    let sandbox = Sandbox::new().reply(shell(stays));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the shell has started", || sandbox.work().join("supervisor").exists());
    let supervisor = sandbox.read("supervisor").trim().parse().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(supervisor, Signal::KILL).unwrap();
    all_end(&sandbox, "no such word", "SIGKILL of both");
}

#[test]
fn the_next_run_has_the_conversation_at_once_after_a_kill() {
    let sandbox = Sandbox::new().reply(shell("trap '' TERM; touch started; sleep 60; sleep 60"));
    let running = sandbox.cmd(&["--conversation", "c", "task"]).spawn();
    wait_until("the shell has started", || sandbox.work().join("started").exists());
    running.signal(Signal::KILL);
    running.wait();
    // The supervisor and the shell live on for 0.2 s, and must not hold the lock that long. On a busy machine the kernel
    // may need a moment to release the killed process's own lock, which shows as a short wait.
    sandbox.llm.push(answer("done"));
    let run = sandbox.run(&["--conversation", "c", "again"]).assert_exit(0);
    assert!(run.seconds < 0.2 * slowness() || !run.stderr.contains("waiting"), "{run:?}");
}

/// A reply that has a child do `work`.
fn by_child(sandbox: &Sandbox, work: String) {
    sandbox.llm.choose(move |request| {
        let asked = request.user();
        if asked.contains("<nagent-shell-result") || asked.contains("<nagent-conversation-result") {
            answer("done").into()
        } else if asked.contains("child work") {
            shell(&work).into()
        } else {
            "<nagent-conversation name=\"child\">child work</nagent-conversation>".into()
        }
    });
}

#[test]
fn a_child_of_a_killed_run_says_so_and_ends_with_its_own_commands() {
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    by_child(&sandbox, sleepers(&word));
    let running = sandbox.cmd(&["--conversation", "c", "task"]).spawn();
    wait_until("the child's shell has started", || sandbox.work().join("started").exists());
    running.signal(Signal::KILL);
    running.wait();
    all_end(&sandbox, &word, "SIGKILL");
    let child = std::fs::read_to_string(sandbox.root().join("conversations/c.child")).unwrap();
    let last = crate::blocks::blocks(&child).pop().unwrap();
    assert!(last.body.contains("interrupted by SIGTERM"), "{child}");
}

/// The first of the shell's ancestors that is a nagent, in `n`.
pub(crate) const FIND_NAGENT: &str =
    "up() { sed 's/.*) . //; s/ .*//' /proc/$1/stat; }; n=$(up $PPID); ";

#[test]
fn a_child_that_its_own_command_kills_is_an_error_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    by_child(
        &sandbox,
        format!("{FIND_NAGENT}(setsid sleep 300.{word} &); kill -9 $n; sleep 300.{word}"),
    );
    let run = sandbox.cmd(&["--conversation", "c", "task"]).run().assert_exit(0);
    assert!(run.after < 5.0, "{run:?}");
    all_end(&sandbox, &word, "the child was killed");
    let parent = std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap();
    let blocks = crate::blocks::blocks(&parent);
    let result = blocks.iter().find(|block| block.name == "nagent-conversation-result").unwrap();
    assert_eq!(result.get("status"), "error");
    assert!(result.body.contains("signal 9"), "{result:?}");
}

#[test]
fn a_command_that_kills_its_supervisor_ends_and_the_result_says_what_may_be_left() {
    let sandbox = Sandbox::new();
    let word = word(&sandbox);
    let escape = format!("kill -9 $PPID; exec sleep 300.{word}");
    let sandbox = sandbox.reply(shell(&escape)).reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    let result = sandbox.block("nagent-shell-result");
    assert!(format!("{result:?}").contains('9') && result.get("status") == "error", "{result:?}");
    assert!(result.body.contains("may still"), "{result:?}");
    all_end(&sandbox, &word, "the supervisor was killed");
}

#[test]
fn a_time_limit_holds_for_a_run_that_was_stopped_and_continued() {
    let sandbox = Sandbox::new()
        .reply("<nagent-shell timeout=\"1\">touch started; sleep 60</nagent-shell>")
        .reply(answer("done"));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the shell has started", || sandbox.work().join("started").exists());
    running.signal(Signal::STOP);
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::CONT);
    let run = running.wait().assert_exit(0);
    assert!(run.seconds > 1.0 && run.seconds < 2.5, "{run:?}");
    assert_eq!(sandbox.block("nagent-shell-result").get("status"), "error");
}

#[test]
fn commands_start_with_every_signal_as_usual_whatever_the_run_was_started_with() {
    let sandbox = Sandbox::new()
        .reply(shell("grep -E '^Sig(Ign|Blk)' /proc/self/status"))
        .reply(answer("done"));
    let line = format!("trap '' HUP QUIT USR1 CHLD PIPE TSTP; exec '{NAGENT}' task");
    sandbox.program("/bin/sh", &["-c", &line]).run().assert_exit(0).stdout_is("done\n");
    let result = sandbox.block("nagent-shell-result");
    let masks: Vec<u64> = result
        .body
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_once(':')?.1.trim(), 16).ok())
        // Without 32 and 33, which the C library keeps to itself and some parents pass on.
        .map(|mask| mask & !(3 << 31))
        .collect();
    assert_eq!(masks, [0, 0], "{result:?}");
    assert_eq!(result.get("exit_code"), "0");
}

#[test]
fn commands_have_no_terminal_where_the_run_has_one() {
    let sandbox = Sandbox::new()
        .reply(shell(
            "tty; sh -c 'exec 3<>/dev/tty' 2>/dev/null || echo no-tty; ps -o tty= -p $$; cat; echo end",
        ))
        .reply(answer("done"));
    sandbox.cmd(&["task"]).run_on_terminal().assert_exit(0);
    let body = sandbox.block("nagent-shell-result").body;
    let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["not a tty", "no-tty", "?", "end"]);
}

/// What a command does that looks for keys in the environments of everything that started it.
const LOOK_UP: &str = "p=$PPID; while case $(cat /proc/$p/comm) in nagent*) true;; *) false;; esac; do \
     tr '\\0' '\\n' 2>/dev/null </proc/$p/environ | sed \"s/^/$(cat /proc/$p/comm) /\"; \
     p=$(sed 's/.*) . //; s/ .*//' /proc/$p/stat); done; echo looked; true";

#[test]
fn no_key_stands_in_the_environment_of_what_started_a_command() {
    let sandbox = Sandbox::new().env("HEADER", format!("Bearer {CANARY}"));
    by_child(&sandbox, LOOK_UP.to_owned());
    sandbox.cmd(&["--conversation", "c", "task"]).run().assert_exit(0);
    let child = std::fs::read_to_string(sandbox.root().join("conversations/c.child")).unwrap();
    let result = crate::blocks::blocks(&child)
        .into_iter()
        .find(|block| block.name == "nagent-shell-result")
        .unwrap();
    assert!(result.body.contains("looked"), "{result:?}");
    assert!(!result.body.contains("canary"), "{result:?}");
    // Others than root see nothing at all.
    if rustix::process::geteuid().is_root() {
        let seen = |line: &str| result.body.lines().filter(|other| other.trim() == line).count();
        // The child's supervisor and the parent's; the child and the parent.
        for line in ["OPENAI_API_KEY=", "HEADER="] {
            assert_eq!(seen(&format!("nagent-super {line}")), 2, "{result:?}");
            assert_eq!(seen(&format!("nagent {line}")), 2, "{result:?}");
        }
    }
    // It was no loss to the requests, the child's neither.
    let bearer = format!("Bearer {CANARY}");
    assert!(sandbox.requests().iter().all(|r| r.header("authorization") == Some(&bearer)));
    assert!(sandbox.requests().len() > 2);
}

#[test]
fn no_core_is_dumped_of_a_run_and_commands_keep_their_limit() {
    let look = format!(
        "{FIND_NAGENT}grep 'Max core' /proc/$PPID/limits /proc/$n/limits; sh -c 'ulimit -c'"
    );
    let sandbox = Sandbox::new().reply(shell(&look)).reply(answer("done"));
    let line = format!("ulimit -S -c 1000; exec '{NAGENT}' task");
    sandbox.program("/bin/sh", &["-c", &line]).run().assert_exit(0);
    let body = sandbox.block("nagent-shell-result").body;
    let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.last(), Some(&"1000"), "{body}");
    let none =
        |line: &&&str| line.split("file size").nth(1).is_some_and(|l| l.trim().starts_with("0 "));
    assert_eq!(lines.iter().filter(none).count(), 2, "{body}");
}

#[test]
fn commands_that_are_too_long_or_whose_folder_is_gone_did_not_start() {
    let sandbox = Sandbox::new()
        .reply(shell(&format!("true {}", "x".repeat(300_000))))
        .reply(shell("rmdir ../work"))
        .reply(shell("true"))
        .reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    let results = sandbox.blocks_of("nagent-shell-result");
    assert!(results[0].body.contains("cannot start") && results[0].body.contains("longer"));
    assert!(results[2].body.contains("cannot start") && results[2].body.contains("folder"));
    for result in [&results[0], &results[2]] {
        assert_eq!(result.get("status"), "error");
        assert!(
            !result.attributes.contains_key("exit_code"),
            "told apart from 126 and 127: {result:?}"
        );
    }
    assert!(!Path::new(&sandbox.work()).exists());
}

#[test]
fn stdin_asked_for_on_a_terminal_does_not_hang() {
    let asks = "read x </dev/tty; echo $?; cat; git -c core.askPass= credential fill </dev/null; \
                [ -t 0 ] || echo none";
    let sandbox = Sandbox::new().reply(shell(asks)).reply(answer("done"));
    sandbox.cmd(&["task"]).silent_stdin().run().assert_exit(0).within(5.0);
    assert!(sandbox.block("nagent-shell-result").body.contains("none"));
}
