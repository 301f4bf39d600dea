//! What is shown of a command while it runs: its last lines on a terminal, renewed in place; its lines elsewhere; the last
//! one in `nagent-status`. And what is left of it, whatever it printed.

use crate::file_edit::{edit, write};
use crate::pty::Pty;
use crate::repl::prompt;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};
use crate::steering::STATUS;

/// Commands that print, wait until a file of this name is there, and print more.
fn until(name: &str, before: &str, after: &str) -> String {
    shell(&format!("{before}\nuntil test -e {name}; do sleep 0.02; done\n{after}"))
}

fn is_spinner(line: &str) -> bool {
    line.ends_with(" s · Ctrl-C stops it")
}

/// Waits until the screen ends in these rows and the line that turns.
#[track_caller]
fn expect_rows(pty: &Pty, rows: &[&str]) {
    wait_until(&format!("{rows:?}"), || {
        let screen = pty.screen();
        let (last, above) = screen.split_last().unwrap_or((const { &String::new() }, &[]));
        is_spinner(last)
            && above.ends_with(&rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>())
    });
}

#[track_caller]
fn expect_end(pty: &mut Pty, rows: &[&str]) {
    assert!(pty.wait().success());
    let mut screen = pty.screen();
    assert!(screen.pop().unwrap().contains("tokens in"), "{screen:?}");
    let times = regex::Regex::new(r"[0-9.]+ s\b").unwrap();
    let screen: Vec<_> = screen.iter().map(|line| times.replace_all(line, "0.0 s")).collect();
    assert_eq!(screen, rows);
}

#[test]
fn what_is_typed_during_a_run_stays_out_of_what_it_shows_and_is_left_for_the_shell() {
    let sandbox = Sandbox::new().reply(until("go", "echo first", "")).reply(answer("done"));
    let program = sandbox.program("bash", &["--norc", "--noediting", "-i"]);
    let mut pty = program.env("PS1", "> ").on_pty(80);
    pty.expect("> ");
    let before = pty.modes();
    let call = format!("{NAGENT} task\r");
    pty.type_keys(&call);
    expect_rows(&pty, &["  first"]);
    // Ctrl-Z and fg: the shell has set its own modes.
    pty.type_keys("\x1a");
    pty.expect("Stopped");
    wait_until("the shell shows what is typed", || pty.modes() == before);
    pty.type_keys("fg\r");
    wait_until("nagent does not", || pty.modes() != before);
    pty.type_keys("echo typed > ahead; exit\r");
    let printed = pty.printed().len();
    wait_until("it is drawn again", || pty.printed()[printed..].matches("first").count() > 1);
    assert!(!pty.printed().contains("ahead"), "{}", pty.printed());
    sandbox.write("go", "");
    pty.wait();
    assert!(pty.printed().contains("done"), "{}", pty.printed());
    assert_eq!(sandbox.read("ahead"), "typed\n");
    assert_eq!(pty.modes(), before);
}

#[test]
fn the_last_lines_are_renewed_in_place_and_fold_to_the_last_ten() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(until("go", "seq 20; printf '\\033[1mhalf'", "echo; echo end"));
    sandbox.llm.push(answer("done"));
    let mut pty = sandbox.cmd(&["task"]).on_pty(80);
    let head = ["→ shell │ seq 20; printf '\\033[1mhalf'"];
    let head =
        [head[0], "        │ until test -e go; do sleep 0.02; done", "        │ echo; echo end"];
    let rows = ["  … 18 earlier lines", "  19", "  20", "  half"];
    expect_rows(&pty, &[&head[..], &rows].concat());
    // In a window that became narrower, or was narrow from the start, nothing is left behind.
    pty.resize(20);
    let before = pty.printed().len();
    wait_until("it is drawn again", || pty.printed()[before..].matches("half").count() > 1);
    pty.resize(80);
    sandbox.write("go", "");
    let end = [
        "  … 11 earlier lines",
        "  12",
        "  13",
        "  14",
        "  15",
        "  16",
        "  17",
        "  18",
        "  19",
        "  20",
    ];
    let end = [&head[..], &end, &["  half", "  end", "  exit 0, 0.0 s, 60 B", "", "done"]].concat();
    assert!(pty.wait().success());
    let screen = pty.screen().join("\n");
    assert!(!screen.contains("Ctrl-C") && screen.contains(&end[11..13].join("\n")), "{screen}");
}

#[test]
fn a_narrow_window_shows_what_fits() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(until(
        "go",
        "printf 'a line of more than twenty columns\\r\\n世世世世世世世世世世世\\n'",
        "",
    ));
    sandbox.llm.push(answer("done"));
    let mut pty = sandbox.cmd(&["task"]).on_pty(20);
    wait_until("two rows", || {
        let screen = pty.screen();
        screen.ends_with(&[
            "  a line of more t…".to_owned(),
            "  世世世世世世世世…".to_owned(),
            screen.last().cloned().unwrap_or_default(),
        ])
    });
    sandbox.write("go", "");
    assert!(pty.wait().success());
}

#[test]
fn progress_that_overwrites_its_line_is_one_line_and_costs_little() {
    let sandbox = Sandbox::new();
    let bar = "python3 -c 'import sys,time\nfor n in range(20000):\n sys.stdout.write(\"\\r%5d #\" % n)\n if n % 100 == 0: sys.stdout.flush(); time.sleep(0.01)'";
    sandbox.llm.push(
        shell(&format!("{bar}; echo"))
            + &shell("printf '\\xff\\0\\033]0;t\\007\\033[31mred\\033[0m\\tx\\b\\033['"),
    );
    sandbox.llm.push(answer("done"));
    let mut pty = sandbox.cmd(&["task"]).on_pty(80);
    wait_until("a row", || pty.screen().iter().any(|line| line.ends_with(" #")));
    assert!(pty.wait().success());
    let printed = pty.printed();
    assert!(printed.matches("Ctrl-C stops it").count() < 60, "{}", printed.len());
    let screen = pty.screen();
    assert!(screen.contains(&"  19999 #".to_owned()), "{screen:?}");
    assert!(screen.contains(&"  \u{fffd}red    x".to_owned()), "{screen:?}");
}

#[test]
fn a_run_in_the_background_leaves_the_terminal_alone() {
    let sandbox = Sandbox::new().reply(shell("echo out; sleep 1.2")).reply(answer("done"));
    let script = format!("set -m; {NAGENT} task & wait");
    let mut pty = sandbox.program("bash", &["-c", &script]).on_pty(80);
    assert!(pty.wait().success());
    assert!(
        !pty.printed().contains("Ctrl-C") && !pty.printed().contains("\u{1b}[K"),
        "{:?}",
        pty.printed()
    );
    assert!(pty.screen().contains(&"  out".to_owned()));
}

#[test]
fn without_a_terminal_lines_come_as_they_are_printed_and_once() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(until("go", "echo first; seq 30", "echo last"));
    sandbox.llm.push(answer("done"));
    let running = sandbox.cmd(&["--progress", "task"]).spawn();
    wait_until("a line", || running.stderr_so_far().contains("  | 30\n"));
    sandbox.write("go", "");
    let run = running.wait().assert_exit(0);
    let lines: Vec<&str> = run.stderr.lines().skip(3).collect();
    assert_eq!(lines[..2], ["  … 21 earlier lines", "  | 21"]);
    assert_eq!(lines[11], "  | last", "{lines:?}");
    assert_eq!(run.stderr.matches("\n  30\n").count(), 0, "{}", run.stderr);
    // Also where the result has a part of it only.
    let bar = "seq 3; for i in $(seq 9000); do printf 'part %s\\r' $i; done; echo; echo finished; sleep 0.2";
    let sandbox = Sandbox::new().reply(shell(bar)).reply(answer("done"));
    let run = sandbox.run(&["--progress", "task"]).assert_exit(0);
    let twice = run.stderr.lines().filter(|line| line.ends_with(" finished")).count();
    assert_eq!(twice, 1, "{}", run.stderr);
    // As much as a command prints, so many lines are shown of it.
    let sandbox = Sandbox::new().reply(shell("yes | head -c 100000000")).reply(answer("done"));
    let run = sandbox.run(&["--progress", "task"]).assert_exit(0);
    assert!(run.stderr.lines().count() < 3000, "{}", run.stderr.lines().count());
}

#[test]
fn the_status_of_a_run_has_the_line_of_now() {
    let sandbox = Sandbox::new().reply(shell("echo before")).reply(until(
        "go",
        "printf '10%%\\r20%%'",
        "true",
    ));
    sandbox.llm.push(answer("done"));
    let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
    let status = || sandbox.program(STATUS, &[] as &[&str]).run().stdout;
    wait_until("the line", || status().contains("  | 20%\n"));
    assert!(!status().contains("before"));
    sandbox.write("go", "");
    running.wait().assert_exit(0);
}

#[test]
fn a_credential_in_a_running_command_is_masked() {
    let secret = CANARY;
    let (half, rest) = secret.split_at(secret.len() / 2);
    let commands = format!("a='key {half}'\nprintf \"$a\"; sleep 0.3; echo '{rest}'; sleep 0.3");
    let sandbox = Sandbox::new().reply(shell(&commands)).reply(answer("done"));
    let run = sandbox.run(&["--lines", "task"]).assert_exit(0);
    let shown: Vec<&str> =
        run.stdout.lines().filter(|it| it.contains(r#""event":"output""#)).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].contains(r#"["key"]"#) && !shown.concat().contains(half), "{shown:?}");
}

#[test]
fn a_session_shows_a_running_command_too() {
    let sandbox = Sandbox::new().reply(until("go", "echo 1; echo 2", "true")).reply(answer("done"));
    let mut pty = sandbox.repl(&["task"]).on_pty(80);
    wait_until("the prompt or the run", || !pty.screen().is_empty());
    expect_rows(&pty, &["  1", "  2"]);
    sandbox.write("go", "");
    pty.expect("done");
    // What is renewed is not removed first.
    let steps = "for i in $(seq 9); do echo step $i; sleep 0.1; done";
    sandbox.llm.push(shell(steps));
    sandbox.llm.push(answer("at the end"));
    let before = pty.printed().len();
    prompt(&mut pty, "» ", "go");
    let erased = pty.printed()[before..].matches("\x1b[K\x1b[A\x1b[K").count();
    assert!(erased < 5, "{erased} times");
    pty.type_keys("exit\r");
    pty.wait();
}

#[test]
fn the_last_lines_of_a_childs_command_are_shown_too() {
    let child = "<nagent-conversation name=\"kid\">count</nagent-conversation>".to_owned();
    let sandbox = Sandbox::new().reply(child).reply(until("go", "seq 5", "true"));
    let sandbox = sandbox.reply(answer("counted")).reply(answer("done"));
    let mut pty = sandbox.cmd(&["task"]).on_pty(80);
    wait_until("its last lines", || {
        let screen = pty.screen();
        let rows = ["  [kid] 3", "  [kid] 4", "  [kid] 5"];
        screen.windows(3).any(|it| it.iter().zip(rows).all(|(row, expect)| row == expect))
    });
    sandbox.write("go", "");
    assert!(pty.wait().success());
}

#[test]
fn a_result_says_what_a_person_wants_to_know() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let lines: String = (1..=150).map(|n| format!("{n}\n")).collect();
    let read = "<nagent-read path=\"a.txt\"/>";
    let reply = write("b.txt", &lines)
        + &edit("a.txt", "one", "two")
        + read
        + &shell("false")
        + &shell("true");
    sandbox.llm.push(reply);
    sandbox.llm.push(answer("done"));
    let mut pty = sandbox.cmd(&["-w", "task"]).on_pty(80);
    let new = ["→ write  b.txt (492 B)", "--- /dev/null", "+++ b/b.txt", "@@ -0,0 +1,150 @@"];
    let ten = [
        "+1",
        "+2",
        "+3",
        "+4",
        "+5",
        "+6",
        "+7",
        "+8",
        "+9",
        "+10",
        "… 140 more lines (-v shows all)",
        "  +150",
    ];
    let rest = [
        "→ edit  a.txt",
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1 +1 @@",
        "-one",
        "+two",
        "  -1 +1",
        "→ read  a.txt",
        "→ shell │ false",
        "  exit 1, 0.0 s, 0 B",
        "→ shell │ true",
        "",
        "done",
    ];
    expect_end(&mut pty, &[&new[..], &ten, &rest].concat());
}

#[test]
fn the_diff_of_a_child_is_shown_once() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.choose(|request| {
        let user = request.user();
        match () {
            () if user.contains("part") && user.contains("edit-result") => answer("ended").into(),
            () if user.contains("part") => edit("a.txt", "one", "two").into(),
            () if user.contains("-result") => answer("all done").into(),
            () => "<nagent-conversation file=\"a.txt\">part</nagent-conversation>".into(),
        }
    });
    let run = sandbox.cmd(&["-c", "c", "task"]).on_terminal(80).run().assert_exit(0);
    assert_eq!(run.stdout.matches("+two").count(), 1, "{}", run.stdout);
    assert!(sandbox.everything_at_home().contains("+two"), "the model reads it");
}
