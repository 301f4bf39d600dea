//! What a person sees of a run on a terminal: the answer while it arrives, whole commands, the end of their output, diffs,
//! what children do, and what takes long.

use std::io::Write;

use crate::answers::Answer;
use crate::file_edit::{edit, write};
use crate::process_under_test::Run;
use crate::sandbox::{Invocation, NAGENT, Sandbox, answer, shell, wait_until};
use crate::wire::Reply;

/// The lines that stay on the terminal, without colours.
fn lines_of(run: &Run) -> Vec<String> {
    let colours = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    let text = colours.replace_all(&run.stdout, "").replace("\r\n", "\n");
    text.lines().map(|line| line.rsplit("\r\u{1b}[K").next().unwrap().to_owned()).collect()
}

/// What a run leaves on a terminal of 80 columns, but for the line of figures at its end.
fn screen(command: Invocation<'_>) -> Vec<String> {
    let mut lines = lines_of(&command.on_terminal(80).run().assert_exit(0));
    assert!(lines.pop().unwrap().contains("tokens in"), "{lines:?}");
    lines
}

#[track_caller]
fn is_in_order(lines: &[String], words: &[&str]) {
    let mut left = lines.iter();
    for word in words {
        assert!(left.any(|line| line == word), "{word:?} in\n{}", lines.join("\n"));
    }
}

#[test]
fn every_line_of_a_command_is_seen_and_the_end_of_its_output() {
    let hidden = "cd . && echo listing the project files before anything else is done here; touch HIDDEN_TAIL_RAN; true";
    let sandbox = Sandbox::new();
    sandbox.llm.push(
        shell(hidden) + &shell("seq 14\ntouch SECOND_LINE_RAN\nprintf '\\033[2J世\\n'; exit 7"),
    );
    sandbox.llm.push(answer("done"));
    let lines = screen(sandbox.cmd(&["task"]));
    is_in_order(
        &lines,
        &[
            "→ shell │ cd . && echo listing the project files before anything else is done ",
            "        ┊ here; touch HIDDEN_TAIL_RAN; true",
            "  listing the project files before anything else is done here",
            "→ shell │ seq 14",
            "        │ touch SECOND_LINE_RAN",
            "        │ printf '\\033[2J世\\n'; exit 7",
            "  … 5 earlier lines",
            "  6",
            "  14",
            "  世",
            "done",
        ],
    );
    assert!(lines.iter().any(|line| line.starts_with("  exit 7, ")), "{lines:?}");
    assert!(!lines.contains(&"  5".to_owned()), "ten lines are shown: {lines:?}");
}

#[test]
fn an_answer_is_on_the_screen_before_it_is_complete_and_what_came_is_kept_and_counted() {
    let sandbox = Sandbox::new();
    let text = format!("first {}last", "word ".repeat(200));
    sandbox.llm.push(Answer::StallBody(answer(&text).as_str().into()));
    let args = ["-w", "--max-turns", "9", "task"];
    let mut running = sandbox.cmd(&args).on_terminal(80).spawn();
    wait_until("the first half is shown", || running.stdout_so_far().contains("first word"));
    running.take_stdin().write_all(b"\x03").unwrap();
    let run = running.wait().assert_exit(130);
    let hint = "interrupted by SIGINT; nagent -w --max-turns=9 \"go on\" continues it";
    assert!(run.stdout.replace("\r\n", " ").contains(hint), "{}", run.stdout);
    assert!(run.stdout.contains("[1 turn, about "), "it is counted: {}", run.stdout);
    let kept = sandbox.invalid().pop().unwrap();
    assert!(kept.starts_with("<nagent-response>first word"), "{kept}");
    let status = sandbox.block("nagent-turn-status");
    assert_eq!(status.get("estimated"), "true");
    assert!(status.get("tokens_out").parse::<u64>().unwrap() > 50, "{status:?}");
    let end = sandbox.blocks().pop().unwrap();
    assert_eq!(end.get("exit"), "130");
    assert!(
        end.body.contains("in the middle of your reply") && end.body.contains(".invalid/1.txt")
    );
    // The model learns with the next prompt where it is.
    sandbox.llm.push(answer("went on"));
    sandbox.run(&["--conversation", &conversation_name(&sandbox), "go on"]).assert_exit(0);
    assert!(sandbox.requests()[1].user().contains("what had arrived of it is in"));
}

fn conversation_name(sandbox: &Sandbox) -> String {
    sandbox.conversation_path().file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn an_answer_is_shown_once() {
    let sandbox = Sandbox::new().reply(answer(" one\n\ntwo\n") + &answer("three"));
    assert_eq!(screen(sandbox.cmd(&["task"])), [" one", "", "two", "three"]);
    // What is said beside an action is shown before the action, once.
    sandbox.llm.push(answer("I look") + &shell("true"));
    sandbox.llm.push(answer("done"));
    let lines = screen(sandbox.cmd(&["--conversation", "b", "task"]));
    assert_eq!(lines[..3], ["new conversation b", "I look", "→ shell │ true"]);
    assert_eq!(lines.iter().filter(|line| line.contains("I look")).count(), 1, "{lines:?}");
    // An answer that --check may reject is printed when it is accepted.
    sandbox.llm.push(answer("rejected"));
    sandbox.llm.push(answer("accepted"));
    let check = "test -e there || { touch there; exit 1; }";
    let lines = screen(sandbox.cmd(&["--conversation", "c", "--check", check, "task"]));
    assert!(!lines.contains(&"rejected".to_owned()), "{lines:?}");
    let check = |n| format!("→ check (try {n} of 5) │ test -e there || {{ touch there; exit 1; }}");
    is_in_order(&lines, &[&check(1), &check(2), "", "accepted"]);
}

#[test]
fn a_reply_that_turns_out_malformed_is_marked() {
    let sandbox = Sandbox::new().reply(answer("shown") + "word").reply(answer("right"));
    let lines = screen(sandbox.cmd(&["task"]));
    assert_eq!((lines[0].as_str(), lines[lines.len() - 1].as_str()), ("shown", "right"));
    assert!(lines[1].starts_with("note: reply 1 of 3 was not used: it does not"), "{lines:?}");
    assert!(!lines.concat().contains("your reply"), "the model's text is for the model: {lines:?}");
}

#[test]
fn writes_and_edits_are_shown_as_diffs() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    sandbox.llm.push(edit("a.txt", "two", "2") + &write("b.txt", "new\n"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.cmd(&["--write", ".", "task"]).on_terminal(80).run().assert_exit(0);
    for part in ["\u{1b}[31m-two\u{1b}[0m", "\u{1b}[32m+2\u{1b}[0m", "\u{1b}[32m+new\u{1b}[0m"] {
        assert!(run.stdout.contains(part), "{part:?} in {:?}", run.stdout);
    }
    is_in_order(
        &lines_of(&run),
        &[
            "→ edit  a.txt",
            "--- a/a.txt",
            "+++ b/a.txt",
            " one",
            "-two",
            "+2",
            "  -1 +1",
            "→ write  b.txt (4 B)",
            "--- /dev/null",
            "+++ b/b.txt",
            "+new",
            "  +1",
            "",
            "done",
        ],
    );
}

#[test]
fn a_refused_write_says_which_flag_allows_it() {
    let sandbox = Sandbox::outside_temp().reply(write("a.txt", "x")).reply(answer("done"));
    let path = sandbox.work().canonicalize().unwrap().join("a.txt").display().to_string();
    let lines = screen(sandbox.cmd(&["task"]));
    let text: String = lines.iter().map(|line| line.trim()).collect();
    assert!(text.contains("--write DIR allows a folder"), "{lines:?}");
    assert!(text.contains(&path.replace(' ', "")) || text.contains("a.txt"), "{lines:?}");
    assert!(!text.contains("nagent-conversation"), "no advice for the model: {lines:?}");
}

#[test]
fn a_refused_action_is_shown_with_its_reason() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let replies = [edit("a.txt", "none", "x") + &write("a.txt", "x"), answer("done")];
    sandbox.llm.choose(move |request| {
        replies[usize::from(request.user().contains("-result"))].as_str().into()
    });
    let reasons =
        ["  error, block 1: not in the file", "  error, nothing was written: the model had not"];
    let lines = screen(sandbox.cmd(&["-nw", "task"]));
    for reason in reasons {
        assert!(lines.iter().any(|line| line.starts_with(reason)), "{reason:?} in {lines:?}");
    }
    let advice = |lines: &[String]| lines.concat().contains("change parts of it");
    assert!(!advice(&lines), "{lines:?}");
    let whole: Vec<String> = screen(sandbox.cmd(&["-nvw", "task"]));
    let whole: Vec<String> = whole.iter().map(|line| line.trim_start().to_owned()).collect();
    assert!(advice(&whole), "-v shows what the model reads: {whole:?}");
}

#[test]
fn what_a_child_does_is_shown_under_its_name() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.choose(|request| {
        let user = request.user();
        match () {
            () if user.contains("part") && user.contains("edit-result") => {
                answer("child's answer").into()
            }
            () if user.contains("part") => {
                (shell("echo in child") + &edit("a.txt", "one", "two")).into()
            }
            () if user.contains("-result") => answer("all done").into(),
            () => "<nagent-conversation file=\"a.txt\">part\nmore</nagent-conversation>".into(),
        }
    });
    // A tool that is not one is noted by parent and child.
    std::fs::create_dir(sandbox.root().join("bin")).unwrap();
    sandbox.script(&sandbox.root().join("bin/bad").display().to_string(), "#!/bin/sh\n");
    let lines = screen(sandbox.cmd(&["--conversation", "c", "task"]));
    is_in_order(
        &lines,
        &[
            "→ conversation a.txt │ part",
            "                     │ more",
            "  [a.txt]",
            "  → shell │ echo in child",
            "    in child",
            "  → edit  a.txt",
            "  -one",
            "  +two",
            "  child's answer",
            "all done",
        ],
    );
    let notes = lines.join(" ").matches("bin/bad is not a tool").count();
    assert_eq!(notes, 1, "{lines:?}");
}

#[test]
fn what_takes_long_shows_a_spinner_that_goes_away() {
    let sandbox = Sandbox::new().reply(shell("sleep 1.3")).reply(answer("done"));
    let run = sandbox.cmd(&["task"]).env("NO_COLOR", "1").on_terminal(80).run().assert_exit(0);
    assert!(run.stdout.contains(" 1 s · Ctrl-C stops it"), "{:?}", run.stdout);
    assert!(
        !run.stdout.contains("\u{1b}[3") && !run.stdout.contains("\u{1b}[2m"),
        "{:?}",
        run.stdout
    );
    assert!(!lines_of(&run).iter().any(|line| line.contains("Ctrl-C")), "{:?}", run.stdout);
    // On a terminal that cannot write over a line there is none, and no code at all.
    let sandbox = Sandbox::new().reply(shell("echo out; sleep 0.8")).reply(answer("done"));
    let run = sandbox.cmd(&["task"]).env("TERM", "dumb").on_terminal(80).run().assert_exit(0);
    assert!(!run.stdout.contains('\u{1b}') && run.stdout.contains("  | out"), "{:?}", run.stdout);
}

/// The tools that ask a model without a loop, and what nagent asks beside it.
#[test]
fn every_wait_for_a_model_shows_a_spinner() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "some words\n".repeat(600));
    sandbox.write("b.txt", "other words\n".repeat(600));
    let is_slow = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let slow = std::sync::Arc::clone(&is_slow);
    sandbox.llm.choose(move |request| {
        if slow.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1500));
        }
        match () {
            () if request.text().contains("is the text of a conversation") => {
                "<nagent-response>changed nothing</nagent-response>".into()
            }
            () => answer("done").into(),
        }
    });
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    is_slow.store(true, std::sync::atomic::Ordering::SeqCst);
    for (program, args, name) in [
        (crate::sandbox::LLM_TEXT, &["a.txt"] as &[&str], "model"),
        (crate::sandbox::LLM_UPLOAD, &["a.txt", "--prompt", "x"], "model"),
        (crate::summarize::SUMMARIZE, &["a.txt", "--again"], "model"),
        (NAGENT, &["-c", "c", "--summarize"], "model"),
        (NAGENT, &["-c", "c", "--edit-conversation", "x"], "edit"),
        (crate::file_edit::FILE_EDIT, &["b.txt", "x"], "summaries"),
    ] {
        let run = sandbox.program(program, args).on_terminal(80).run();
        assert!(run.stdout.contains(&format!(" {name} 0 s")), "{args:?}: {:?}", run.stdout);
        let lines = lines_of(&run);
        assert!(!lines.iter().any(|line| line.contains(&format!("{name} 0 s"))), "{lines:?}");
    }
}

#[test]
fn a_blank_that_is_none_for_a_shell_is_shown() {
    let sandbox = Sandbox::new().reply(shell("true\u{a0}x || echo a\u{a0}b")).reply(answer("done"));
    let lines = screen(sandbox.cmd(&["task"]));
    assert_eq!(lines[0], "→ shell │ true\\u{a0}x || echo a\\u{a0}b");
    assert!(lines.contains(&"  a\u{a0}b".to_owned()) || lines.contains(&"  a b".to_owned()));
}

#[test]
fn what_each_of_several_children_came_to_is_told_apart() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        let user = request.user();
        match () {
            () if user.contains("part") => answer("ended").into(),
            () if user.contains("-result") => answer("all done").into(),
            () => "<nagent-conversation name=\"one\">part 1</nagent-conversation>\
                <nagent-conversation name=\"two\">part 2</nagent-conversation>"
                .into(),
        }
    });
    let lines = screen(sandbox.cmd(&["-c", "c", "task"]));
    for name in ["one", "two"] {
        let end = format!("  {name}: exit 0, ");
        assert!(lines.iter().any(|line| line.starts_with(&end)), "{end} in {lines:?}");
    }
}

#[test]
fn quiet_verbose_and_progress() {
    let replies = || [shell("seq 14"), answer("done")];
    let sandbox = Sandbox::new().replies(replies());
    let run = sandbox.cmd(&["-q", "task"]).on_terminal(80).run().assert_exit(0);
    assert_eq!(lines_of(&run), ["done"]);
    let sandbox = Sandbox::new().replies(replies());
    let lines = screen(sandbox.cmd(&["-v", "task"]));
    is_in_order(&lines, &["  1", "  2", "  3", "  4", "  14"]);
    let sandbox = Sandbox::new().replies([shell("seq 60000"), answer("done")]);
    let run = sandbox.run(&["-v", "--progress", "task"]).assert_exit(0).stdout_is("done\n");
    let lines: Vec<String> = run.stderr.lines().map(str::to_owned).collect();
    is_in_order(&lines, &["→ shell │ seq 60000", "  1", "  30000", "  60000"]);
    let numbers = lines.iter().filter_map(|line| line.trim_start().parse::<u32>().ok());
    assert!(numbers.eq(1..=60000), "no line is cut");
    let sandbox = Sandbox::new().replies(replies());
    let run = sandbox.run(&["--progress", "task"]).assert_exit(0).stdout_is("done\n");
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('\r'), "{:?}", run.stderr);
    let lines: Vec<String> = run.stderr.lines().map(str::to_owned).collect();
    is_in_order(&lines, &["→ shell │ seq 14", "  … 4 earlier lines", "  | 5", "  | 14"]);
    assert!(lines.last().unwrap().starts_with("[2 turns, "), "{lines:?}");
    let sandbox = Sandbox::new().replies([shell("echo why; sleep 0.5; false"), answer("done")]);
    let run = sandbox.run(&["--progress", "task"]).assert_exit(0);
    assert_eq!(run.stderr.matches("why\n").count(), 1, "{}", run.stderr);
    for flags in [["-q", "-v"], ["-q", "--progress"]] {
        Sandbox::new().run(&[&flags[..], &["task"]].concat()).assert_exit(2);
    }
}

#[test]
fn a_conversation_that_goes_on_is_named() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let first = screen(sandbox.cmd(&["--conversation", "c", "task"]));
    assert_eq!(first, ["new conversation c", "one"]);
    let lines = screen(sandbox.cmd(&["--conversation", "c", "task"]));
    assert!(lines[0].starts_with("continues c: 1 prompt, about "), "{lines:?}");
    assert!(lines[0].contains(" tokens"), "{lines:?}");
}

#[test]
fn any_terminal_and_any_output_will_do() {
    let wide = "echo '世界世界世界世界世界世界世界世界世界'";
    for (columns, row) in [(20, "┊ 世界世界世界世"), (1, "│ echo '世")] {
        let sandbox = Sandbox::new().reply(shell(wide)).reply(answer("done"));
        let run = sandbox.cmd(&["task"]).on_terminal(columns).run().assert_exit(0);
        let lines = lines_of(&run);
        assert!(lines.iter().any(|line| line.starts_with(row)), "{columns}: {lines:?}");
    }
    // Resized while a command runs, and in the middle of an answer.
    let long = format!("until test -e resized; do sleep 0.01; done; echo {}", "y".repeat(50));
    let sandbox = Sandbox::new().reply(shell(&long)).reply(answer(&"word ".repeat(30)));
    let resize = format!(
        "{NAGENT} task & until grep -q '<nagent-shell>' ~/.nagent/conversations/latest-*; do sleep 0.01; done; \
         stty cols 30 < /dev/tty; touch resized; wait"
    );
    let run = sandbox.program("sh", &["-c", &resize]).on_terminal(80).run().assert_exit(0);
    let lines = lines_of(&run);
    is_in_order(&lines, &[&format!("  {}", "y".repeat(28)), &format!("  {}", "y".repeat(22))]);
    assert_eq!(lines.iter().filter(|line| *line == "word word word word word word").count(), 5);
    let evil = "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033]52;c;eA==\\007\\033[2J'";
    let sandbox = Sandbox::new().reply(shell(evil)).reply(answer("done"));
    let run = sandbox.cmd(&["task"]).on_terminal(80).run().assert_exit(0);
    assert!(run.stdout.len() < 5_000, "{} bytes", run.stdout.len());
    assert!(!run.stdout.contains("\u{1b}]") && !run.stdout.contains("\u{1b}[2J"));
}

/// As little memory for 40 MB as for nothing, whether it is one line or many, and what is shown ends.
#[test]
fn an_output_of_any_length_takes_no_memory() {
    let look = format!("{}grep VmHWM /proc/$n/status", crate::process_ends::FIND_NAGENT);
    let memory = |commands: &str| {
        let sandbox = Sandbox::new().reply(shell(commands)).reply(shell(&look)).reply(answer("x"));
        let run = sandbox.cmd(&["task"]).on_terminal(20).run().assert_exit(0);
        assert!(run.stdout.len() < 5_000, "{} bytes", run.stdout.len());
        let results = sandbox.blocks_of("nagent-shell-result");
        let bytes: u64 = results[0].get("bytes").parse().unwrap();
        let words: Vec<&str> = results[1].body.split_whitespace().collect();
        assert_eq!((words[0], words[2]), ("VmHWM:", "kB"), "{words:?}");
        (bytes, words[1].parse::<u64>().unwrap())
    };
    let (_, little) = memory("true");
    for commands in ["head -c 40000000 /dev/zero | tr '\\0' x", "yes | head -c 40000000"] {
        let (bytes, much) = memory(commands);
        assert_eq!(bytes, 40_000_000);
        assert!(much < little + 15_000, "{much} KB after {commands}, {little} KB without");
    }
}

#[test]
fn the_wait_goes_on_visibly_behind_a_note_of_the_model() {
    let long = "a line of a long file\n".repeat(40);
    let reply =
        format!("<nagent-response>now the file</nagent-response>\n<nagent-write path=\"a\">{long}");
    let sandbox = Sandbox::new().answer(Answer::StallBody(Reply::new(reply)));
    let mut pty = sandbox.cmd(&["task"]).on_pty(80);
    pty.expect("now the file");
    pty.expect(" model 0 s");
    pty.type_keys("\x03");
    assert!(!pty.wait().success());
}

#[test]
fn a_server_that_fails_again_and_again_is_one_line_and_a_count() {
    let sandbox = Sandbox::new();
    for call in [sandbox.cmd(&["task"]), sandbox.repl::<&str>(&[])] {
        for _ in 0..2 {
            sandbox.llm.push(Answer::raw(500, "text/plain", "out of order"));
        }
        sandbox.llm.push(answer("done"));
        let mut pty = call.on_pty(80);
        pty.type_keys("task\r");
        pty.expect("done");
        let shown = pty.printed();
        assert_eq!(shown.matches("trying again").count(), 1, "{shown}");
        assert!(shown.contains("model (try 3)"), "{shown}");
    }
}
