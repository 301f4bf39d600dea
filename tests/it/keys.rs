//! What is typed at the prompt of `nagent-repl`, before it and during a run; and how the terminal is left, whatever ends what.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::answers::{Answer, Latch};
use crate::process_under_test::slowness;
use crate::pty::Pty;
use crate::repl::{prompt, screen, start};
use crate::sandbox::{Sandbox, answer, shell, wait_until};

const QUESTION: &str = "why not [n]: ";

fn prompts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect()
}

#[test]
fn lines_are_edited_on_any_terminal() {
    let sandbox = Sandbox::new();
    (0..4).for_each(|_| sandbox.llm.push(answer("ok")));
    let mut pty = start(&sandbox, &[], "» ");
    // A paste waits for Enter; Alt-Enter begins another line.
    pty.type_keys("\x1b[200~rm -rf x\r\nls \\\r\nend\x1b[201~");
    wait_until("it is shown", || screen(&pty).iter().any(|line| line == "end"));
    assert!(sandbox.requests().is_empty());
    prompt(&mut pty, "» ", "");
    prompt(&mut pty, "» ", "a\x1b\rb\x1b\rc");
    // Ctrl-C drops a line, and says how to leave where there is none.
    pty.type_keys("dropped\x03");
    wait_until("it is dropped", || screen(&pty).last().is_some_and(|line| line == "»"));
    assert!(!pty.printed().contains("leaves)"));
    pty.type_keys("\x03");
    pty.expect("(Ctrl-D or /quit leaves)");
    pty.resize(30);
    prompt(&mut pty, "» ", &"世界 e\u{301} ".repeat(9));
    // Up brings the last one back.
    prompt(&mut pty, "» ", "\x1b[A!");
    let prompts: Vec<String> =
        sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect();
    let wide = "世界 e\u{301} ".repeat(9);
    let wide = wide.trim();
    assert_eq!(prompts, ["rm -rf x\nls \\\nend", "a\nb\nc", wide, &format!("{wide} !")]);
}

#[test]
fn tab_completes_commands_names_and_paths() {
    let sandbox = Sandbox::new().file("some notes.txt", "").file("folder/inner.txt", "");
    sandbox.llm.push(answer("ok"));
    sandbox.run(&["--conversation", "kept", "x"]).assert_exit(0);
    let mut pty = start(&sandbox, &["--conversation", "c"], "» ");
    for (keys, expect) in [
        ("/stat\t", "» /status"),
        ("/load ke\t", "» /load kept"),
        ("what is in fold\tinn\t", "» what is in folder/inner.txt"),
        ("/read som\t", "» /read some notes.txt"),
    ] {
        pty.type_keys(keys);
        wait_until(expect, || screen(&pty).last().is_some_and(|line| line == expect));
        pty.type_keys("\x03");
        wait_until("the line is dropped", || screen(&pty).last().is_some_and(|line| line == "»"));
    }
}

#[test]
fn a_line_may_be_long() {
    let sandbox = Sandbox::new().reply(answer("ok")).reply(answer("ok"));
    let mut pty = start(&sandbox, &[], "» ");
    let long = "word ".repeat(20_000);
    prompt(&mut pty, "» ", &format!("\x1b[200~{long}\x1b[201~"));
    // A prompt of this length is a file for the model, of which it sees the two ends.
    let outputs = std::fs::read_dir(sandbox.root().join("outputs")).unwrap();
    let mut outputs = outputs.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    assert!(outputs.any(|bytes| bytes == long.trim_end().as_bytes()));
    // A paste with more rows than the editor can count. One of 10 MB takes an unoptimised editor seconds to read.
    let rows = format!("\x1b[200~first{}last\x1b[201~", "\r".repeat(70_000));
    prompt(&mut pty, "» ", &rows);
    assert!(prompts(&sandbox)[1].starts_with("first") && prompts(&sandbox)[1].ends_with("last"));
}

#[test]
fn ctrl_d_during_a_run_does_not_leave() {
    let latch = Latch::default();
    let sandbox = Sandbox::new().answer(Answer::held(&latch, answer("one")));
    let mut pty = start(&sandbox, &[], "» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    pty.type_keys("\x04");
    latch.release();
    pty.expect("one");
    pty.expect_times("\x1b[?2004h", 2);
    pty.type_keys("\x04");
    assert!(pty.wait().success());
    // Ctrl-Space is another key.
    let mut pty = start(&sandbox, &[], "» ");
    pty.type_keys("\0still here");
    wait_until("it is shown", || screen(&pty).last().is_some_and(|line| line == "» still here"));
}

#[test]
fn a_question_is_answered_by_what_is_typed_behind_it() {
    let latch = Latch::default();
    let many = format!("touch ran; echo ' nagent asks: y'\n{}", "true\n".repeat(60));
    let sandbox = Sandbox::new().answer(Answer::held(&latch, shell(&many)));
    for _ in 0..2 {
        sandbox.llm.push(shell("touch ran"));
    }
    sandbox.llm.push(answer("done"));
    let mut pty = start(&sandbox, &["--approve", "shell"], "» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    pty.type_keys("y\ry\r\x1b[200~y\ry\r\x1b[201~");
    pty.expect("queued for the model: y");
    latch.release();
    pty.expect(QUESTION);
    let shown = screen(&pty).join("\n");
    assert!(shown.contains("│ touch ran; echo ' nagent asks: y'"), "{shown}");
    assert!(shown.contains("more rows: v shows them"), "{shown}");
    pty.type_keys("v\r");
    pty.expect_times(QUESTION, 2);
    assert_eq!(screen(&pty).iter().filter(|line| *line == "│ true").count(), 33 + 60);
    for (count, keys) in
        ["x\r", "n not tha\x1b[D\x1b[3~\x7fe\x7f\x7f\x7fthis\r", "\x04", "\r"].iter().enumerate()
    {
        pty.expect_times(QUESTION, count + 2);
        pty.type_keys(keys);
    }
    pty.expect("done");
    assert!(!sandbox.work().join("ran").exists());
    let bodies: Vec<String> =
        sandbox.blocks_of("nagent-shell-result").into_iter().map(|block| block.body).collect();
    assert_eq!(bodies[0].trim(), "not run: the user said no: not this", "{bodies:?}");
}

#[test]
fn who_is_typing_answers_nothing() {
    let sandbox = Sandbox::new();
    let mut was_tried = false;
    while !was_tried {
        let latch = Latch::default();
        sandbox.llm.push(Answer::held(&latch, shell("touch ran")));
        sandbox.llm.push(answer("done"));
        let before = sandbox.requests().len();
        let mut pty = start(&sandbox, &["--new", "--approve", "shell"], "» ");
        pty.type_keys("go\r");
        sandbox.llm.wait_for_requests(before + 1);
        // A prompt that goes on while the question appears: each line would be a yes. If this test is kept from typing for
        // so long that it looks like quiet, the next one would be an answer: then it tries again.
        let (mut behind, mut last, mut gap) = (0, Instant::now(), Duration::ZERO);
        while behind < 20 {
            pty.type_keys("y\r");
            gap = gap.max(last.elapsed());
            last = Instant::now();
            latch.release();
            behind += usize::from(pty.printed().contains("nagent asks"));
            std::thread::sleep(Duration::from_millis(10));
        }
        was_tried = gap < Duration::from_millis(200);
        pty.expect(QUESTION);
        pty.type_keys("n\r");
        pty.expect("done");
        assert!(!was_tried || !sandbox.work().join("ran").exists());
    }
}

/// What the terminal shows of an action that it was asked about is not shown again.
#[test]
fn an_action_that_was_asked_about_takes_a_line_afterwards() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(shell("echo first\necho second\necho third"));
    sandbox.llm.push(shell("echo no\necho way"));
    sandbox.llm.push(crate::file_edit::edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("done"));
    let mut pty = start(&sandbox, &["--approve", "ask", "-w"], "» ");
    pty.type_keys("go\r");
    for (count, keys) in ["y\r", "n\r", "y\r"].iter().enumerate() {
        pty.expect_times(QUESTION, count + 1);
        pty.type_keys(keys);
    }
    pty.expect("done");
    let shown = screen(&pty).join("\n");
    for part in [
        "→ shell │ echo first … +2 lines\n",
        "→ shell │ echo no … +1 line\n",
        "→ edit  a.txt\n  -1 +1\n",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    for part in ["│ echo second", "│ echo way", "+two"] {
        assert_eq!(shown.matches(part).count(), 1, "{part:?} in {shown}");
    }
}

/// A shell with job control, whose job the session is.
#[test]
fn a_question_is_shown_again_after_ctrl_z() {
    let sandbox = Sandbox::new().reply(shell("touch ran")).reply(answer("done"));
    let mut pty = sandbox.program("bash", &["--norc", "--noediting", "-i"]).on_pty(160);
    let call = format!("{} --approve shell go\r", env!("CARGO_BIN_EXE_nagent-repl"));
    pty.type_keys(&call);
    pty.expect(QUESTION);
    pty.type_keys("\x1a");
    pty.expect("Stopped");
    pty.type_keys("fg\r");
    pty.expect_times(QUESTION, 2);
    pty.type_keys("y\r");
    pty.expect("done");
    assert!(sandbox.work().join("ran").exists());
    assert_eq!(pty.printed().matches("│ touch ran").count(), 3, "{}", pty.printed());
}

#[test]
fn an_answer_is_shown_whole_where_that_is_wanted() {
    let reply = answer(&format!("first {}", "word ".repeat(200)));
    let sandbox = Sandbox::new().answer(Answer::StallBody(reply.as_str().into()));
    sandbox.llm.push(answer("second"));
    let mut pty = start(&sandbox, &["--no-stream"], "» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    std::thread::sleep(std::time::Duration::from_millis(100));
    pty.type_keys("\x03");
    pty.expect("(interrupted)");
    pty.expect_times("\x1b[?2004h", 2);
    assert!(!pty.printed().contains("first word"), "{}", pty.printed());
    prompt(&mut pty, "» ", "again");
    assert!(screen(&pty).contains(&"second".to_owned()), "{:?}", screen(&pty));
}

/// The process of the run of a session.
fn run_of(sandbox: &Sandbox) -> Pid {
    let processes = sandbox.processes();
    let mut runs = processes.iter().filter(|line| line.contains("--lines"));
    // The supervisor of a command has its words, too; which comes first is chance, as numbers of processes begin again at 1.
    let pid = runs.find_map(|line| {
        let pid = line.split(' ').next()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name.trim_end() == "nagent").then(|| pid.parse().ok())?
    });
    Pid::from_raw(pid.expect("a run")).unwrap()
}

#[test]
fn a_run_is_stopped_in_each_state_and_the_session_goes_on() {
    let sandbox = Sandbox::new();
    let mut pty = start(&sandbox, &["--conversation", "c"], "» ");
    let modes = pty.modes();
    let mut stops = 0;
    let mut stop = |pty: &mut Pty, state: &str| {
        stops += 1;
        pty.type_keys("go\r");
        match state {
            "model" => sandbox.llm.wait_for_requests(1),
            "question" => pty.expect(QUESTION),
            file => wait_until(file, || sandbox.work().join(file).exists()),
        }
        let prompts = pty.printed().matches("\x1b[?2004h").count();
        let clock = Instant::now();
        match state {
            "killed" => kill_process(run_of(&sandbox), Signal::KILL).unwrap(),
            "twice" => pty.type_keys("\x03\x03"),
            _ => pty.type_keys("\x03"),
        }
        pty.expect_times("\x1b[?2004h", prompts + 1);
        assert!(clock.elapsed().as_secs_f64() < 5.0 * slowness(), "{state}: {:?}", clock.elapsed());
        wait_until("the modes are back", || pty.modes() == modes);
    };
    sandbox.llm.push(Answer::StallHead);
    stop(&mut pty, "model");
    sandbox.llm.push(shell("touch shell; sleep 30"));
    stop(&mut pty, "shell");
    sandbox.llm.push("<nagent-conversation name=\"kid\">part</nagent-conversation>".to_owned());
    sandbox.llm.push(shell("touch child; sleep 30"));
    stop(&mut pty, "child");
    sandbox.llm.push(shell("trap '' INT; touch twice; sleep 30"));
    stop(&mut pty, "twice");
    sandbox.llm.push(shell("touch killed; sleep 30"));
    stop(&mut pty, "killed");
    prompt(&mut pty, "» ", "/approve shell");
    sandbox.llm.push(shell("touch asked"));
    stop(&mut pty, "question");
    // The run alone is ended, or the session alone is interrupted.
    for (count, signal) in [Signal::TERM, Signal::KILL, Signal::INT].into_iter().enumerate() {
        sandbox.llm.push(shell("touch asked"));
        let prompts = pty.printed().matches("\x1b[?2004h").count();
        pty.type_keys("go\r");
        pty.expect_times(QUESTION, count + 2);
        let whom = if signal == Signal::INT { pty.pid() } else { run_of(&sandbox) };
        kill_process(whom, signal).unwrap();
        pty.expect_times("\x1b[?2004h", prompts + 1);
        wait_until("the modes are back", || pty.modes() == modes);
    }
    sandbox.llm.push(answer("still here"));
    prompt(&mut pty, "» ", "go on");
    let shown = screen(&pty).join("\n");
    assert_eq!(shown.matches("(interrupted)").count(), 6, "{shown}");
    assert!(shown.contains("nagent-repl: interrupted by SIGTERM"), "{shown}");
    assert_eq!(
        shown.matches("nagent exited unexpectedly (signal: 9 (SIGKILL))").count(),
        2,
        "{shown}"
    );
    assert!(shown.contains("still here"), "{shown}");
    assert!(!sandbox.work().join("asked").exists());
    assert!(sandbox.conversation().matches("exit=\"130\"").count() >= 5);
    pty.type_keys("\x04");
    assert!(pty.wait().success());
    wait_until("nothing is left", || sandbox.processes().is_empty());
}

#[test]
fn the_terminal_is_as_it_was_whatever_ends_the_session() {
    for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
        for state in ["line", "model", "shell", "question"] {
            let sandbox = Sandbox::new().answer(match state {
                "model" => Answer::StallHead,
                _ => shell("touch started; sleep 30").into(),
            });
            let approve = if state == "question" { "shell" } else { "none" };
            let pty = sandbox.repl(&["--conversation", "c", "--approve", approve]).on_pty(80);
            let mut pty = pty;
            let is_cooked = |pty: &Pty| pty.modes().contains("ICANON");
            wait_until("a line is edited", || pty.printed().contains("» ") && !is_cooked(&pty));
            pty.type_keys(if state == "line" { "go" } else { "go\r" });
            match state {
                "line" => {}
                "model" => sandbox.llm.wait_for_requests(1),
                "question" => pty.expect(QUESTION),
                _ => wait_until("it runs", || sandbox.work().join("started").exists()),
            }
            pty.signal(signal);
            let status = pty.wait();
            let code = match signal {
                Signal::TERM => Some(143),
                Signal::HUP => Some(129),
                _ => None,
            };
            assert_eq!(status.code().filter(|code| *code < 137 || *code == 143), code);
            // Nothing can catch SIGKILL.
            if signal != Signal::KILL {
                wait_until("the modes are back", || {
                    is_cooked(&pty) && pty.modes().contains("ISIG")
                });
            }
            wait_until("nothing is left", || sandbox.processes().is_empty());
            if state != "line" {
                wait_until("it is recorded", || sandbox.conversation().contains("exit=\"1"));
            }
            assert_eq!(sandbox.work().join("started").exists(), state == "shell");
        }
    }
}
