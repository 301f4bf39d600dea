//! The shell action: output, exit codes, timeouts, descendants, what its environment holds.

use crate::actions::{act, ok};
use crate::blocks::Block;
use crate::sandbox::{Sandbox, answer, shell};

#[test]
fn shell_gives_output_in_the_order_it_came_and_the_exit_code() {
    let sandbox = Sandbox::new();
    let commands = "echo 1; echo 2 >&2; echo 3; echo 4 >&2; exit 7";
    let block = act(&sandbox, &shell(commands), "nagent-shell-result");
    assert_eq!(block.get("exit_code"), "7");
    let digits: String = block.body.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.contains("1234"), "{block:?}");
}

#[test]
fn shell_runs_in_the_runs_folder_each_time_without_a_terminal_in_its_own_session() {
    let sandbox = Sandbox::new();
    let commands = "cd /; echo moved";
    act(&sandbox, &shell(commands), "nagent-shell-result");
    let commands = "pwd; [ -t 0 ] || [ -t 1 ] || echo no terminal; (exec </dev/tty) 2>/dev/null || echo no tty";
    let block = act(&sandbox, &shell(commands), "nagent-shell-result");
    assert!(block.body.contains(sandbox.work().to_str().unwrap()), "{block:?}");
    assert!(block.body.contains("no terminal") && block.body.contains("no tty"), "{block:?}");
}

#[test]
fn shell_with_a_timeout_is_ended_with_all_descendants() {
    let sandbox = Sandbox::new();
    let tag =
        "<nagent-shell timeout=\"1\">echo before; setsid sleep 300 & sleep 301</nagent-shell>";
    let block = act(&sandbox, tag, "nagent-shell-result");
    assert_eq!(block.get("status"), "error");
    assert!(block.body.contains("before"), "what came is kept: {block:?}");
    assert!(format!("{block:?}").contains("time"), "{block:?}");
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
}

#[test]
fn descendants_end_with_the_tag_that_started_them() {
    let sandbox = Sandbox::new();
    let block =
        act(&sandbox, &shell("(setsid sleep 300 &) ; sleep 301 & echo off"), "nagent-shell-result");
    assert!(block.body.contains("off"));
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
}

#[test]
fn large_output_is_kept_whole_and_shown_by_head_and_tail() {
    let sandbox = Sandbox::new();
    let block = act(&sandbox, &shell("seq 1 100000"), "nagent-shell-result");
    let whole = std::fs::read_to_string(block.get("output")).unwrap();
    assert_eq!(whole.lines().count(), 100_000);
    assert_eq!(block.get("bytes"), whole.len().to_string());
    assert!(
        block.body.len() < 20_000 && block.body.contains("\n2\n") && block.body.contains("99999")
    );
    let read =
        format!("<nagent-read path=\"{}\" offset=\"50000\" limit=\"1\"/>", block.get("output"));
    assert!(ok(&sandbox, &read, "nagent-read-result").body.contains("50000"));
}

#[test]
fn output_is_cut_at_ends_of_lines_and_reads_on_where_the_note_says() {
    let sandbox = Sandbox::new();
    let block = act(&sandbox, &shell("seq 1 100000"), "nagent-shell-result");
    let lines: Vec<&str> = block.body.lines().collect();
    let note = lines.iter().position(|line| line.starts_with("[…")).unwrap();
    let (before, after) = (lines[note - 1], lines[note + 1]);
    let words: Vec<&str> = lines[note].split([' ', '"']).collect();
    let (first, last): (u32, u32) = (words[2].parse().unwrap(), words[4].parse().unwrap());
    assert_eq!((before, after), (&*(first - 1).to_string(), &*(last + 1).to_string()));
    assert!(lines[note].ends_with(&format!("from offset=\"{first}\" …]")), "{}", lines[note]);
    let output = block.get("output");
    let read = format!("<nagent-read path=\"{output}\" offset=\"{first}\" limit=\"2\"/>");
    let read = ok(&sandbox, &read, "nagent-read-result").body;
    assert_eq!(read.trim_end(), format!("{first}\n{}", first + 1));
}

#[test]
fn a_command_that_fails_without_a_word_is_explained() {
    let sandbox = Sandbox::new().file("a.txt", "x\n");
    let body = |commands: &str| act(&sandbox, &shell(commands), "nagent-shell-result").body;
    let note = "[no output (exit code 1 from grep or rg means no match)]";
    assert_eq!(body("grep nothing a.txt"), note);
    assert_eq!(body("cat a.txt; grep nothing a.txt"), "x");
    assert_eq!(body("exit 2") + &body("true"), "");
}

#[test]
fn the_shell_holds_no_credential_but_those_let_through() {
    let sandbox = Sandbox::new().env("GITHUB_TOKEN", "gh-secret").env("EDITOR", "vi");
    let names = "env | cut -d= -f1";
    let block = act(&sandbox, &shell(names), "nagent-shell-result");
    assert!(!block.body.contains("OPENAI_API_KEY") && block.body.contains("EDITOR"), "{block:?}");
    let sandbox = sandbox.config_also(serde_json::json!({"pass_env": ["OPENAI_API_KEY"]}));
    let block = act(&sandbox, &shell(names), "nagent-shell-result");
    assert!(block.body.contains("OPENAI_API_KEY"), "{block:?}");
}

#[test]
fn a_sandbox_that_there_is_none_of_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--sandbox", "loose", "task"]).assert_exit(2).stderr_has(&["loose", "read-only"]);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--sandbox", "off", "task"]).assert_exit(0);
}

#[test]
fn a_command_inherits_no_descriptor_that_nagent_was_started_with() {
    let sandbox =
        Sandbox::new().reply(shell("ls /proc/self/fd | tr '\\n' ' '")).reply(answer("done"));
    let command = format!("exec 9</dev/null; exec '{}' task", crate::sandbox::NAGENT);
    let run = sandbox.program("/bin/sh", &["-c", &command]).run();
    run.assert_exit(0);
    // ls holds 3 for the folder that it lists.
    assert_eq!(sandbox.block("nagent-shell-result").body.trim(), "0 1 2 3");
}

#[test]
fn an_output_that_was_kept_before_and_changed_since_is_kept_anew() {
    for changed in ["", "something else"] {
        let sandbox = Sandbox::new();
        let kept = || {
            let block = act(&sandbox, &shell("seq 1 100000"), "nagent-shell-result");
            std::path::PathBuf::from(block.get("output"))
        };
        let path = kept();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, changed).unwrap();
        assert_eq!(kept(), path);
        assert!(std::fs::read(&path).unwrap() == whole, "{changed:?}");
    }
}

#[test]
fn processes_left_in_the_background_are_counted() {
    let sandbox = Sandbox::new();
    let last = |commands: &str| {
        let block = act(&sandbox, &shell(commands), "nagent-shell-result");
        assert_eq!(block.get("status"), "ok", "{block:?}");
        block.body.lines().last().unwrap_or_default().to_owned()
    };
    let one = "[1 background process was killed when the command ended]";
    assert_eq!(last("sleep 300 >/dev/null 2>&1 & sleep 0.3; echo on"), one);
    assert_eq!(last("(setsid sleep 300 &); sleep 0.3; echo on"), one);
    let many = "[9 background processes were killed when the command ended]";
    assert_eq!(last("for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; sleep 0.5"), many);
    // Ones that were about to start their program when the command ended.
    let all: Vec<String> = (0..10).map(|_| last("sleep 300 & echo on")).collect();
    assert!(all.iter().all(|line| line == one), "{all:?}");
    // What has ended by itself was not left.
    assert_eq!(last("true & sleep 0.2; echo on"), "on");
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
}

#[test]
fn processes_left_in_the_background_of_a_sandbox_are_counted_and_end() {
    let sandbox = Sandbox::outside_temp()
        .reply(shell("sleep 300 >/dev/null 2>&1 & sleep 0.2; echo on"))
        .reply(shell(
            "true & wait; kill -TERM $PPID; for fd in /proc/$PPID/fd/*; do echo x > $fd; done; (exit 7)",
        ))
        .reply(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0);
    let results = sandbox.blocks_of("nagent-shell-result");
    assert_eq!(results[0].body, "on\n[1 background process was killed when the command ended]");
    // The process that counts them cannot be ended or written to.
    assert_eq!(results[1].get("exit_code"), "7");
    assert!(!results[1].body.contains("killed when the command ended"), "{results:?}");
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
}

fn keep(name: &str, commands: &str) -> String {
    format!("<nagent-shell keep=\"{name}\">{commands}</nagent-shell>")
}

/// The results of a run whose replies are these.
fn run_replies(replies: &[String]) -> Vec<Block> {
    let sandbox = Sandbox::new().replies(replies.iter().cloned()).reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new(), "all ends with the run");
    sandbox.blocks_of("nagent-shell-result")
}

#[test]
fn a_kept_command_runs_until_the_run_ends_with_its_output_in_a_file() {
    let server =
        keep("server", "echo ready; (setsid sleep 300 &); while :; do echo tick; sleep 0.1; done");
    let look = shell("sleep 0.5; grep -c tick ~/.nagent/outputs/server-*.txt");
    let found = run_replies(&[server, look]);
    assert_eq!((found[0].get("status"), found[0].get("keep")), ("ok", "server"));
    assert!(found[0].body.starts_with("ready\n") && found[0].get("output").contains("/server-"));
    let ends = format!("kill {} ends it", found[0].get("pid"));
    assert!(found[0].body.ends_with(&format!(
        "[running until the run ends; {ends}; its output (up to 64 MiB) goes to the output file]"
    )));
    let ticks: u32 = found[1].body.lines().next().unwrap().parse().unwrap();
    assert!(ticks > 3, "{:?}", found[1]);
}

#[test]
fn a_kept_command_that_dies_is_reported() {
    let dies = keep("dies", "echo 'port taken'; exit 3");
    let later = keep("later", "sleep 0.9; touch ended; exit 4");
    let wait = "while [ ! -e ended ]; do sleep 0.1; done; sleep 0.5; echo on";
    let found = run_replies(&[dies, later, shell(wait), shell("echo on")]);
    assert_eq!(found[0].get("status"), "error");
    assert!(found[0].body.starts_with("port taken\n[dies has exited: exit code 3; output: /"));
    assert_eq!(found[1].get("status"), "ok");
    assert!(found[2].body.starts_with("on\n[later has exited: exit code 4; "), "{:?}", found[2]);
    assert_eq!(found[3].body, "on", "once");
    // Whatever the next action is; and with what it had left running itself.
    let sandbox = Sandbox::new();
    sandbox.llm.choose(move |request| match request.last() {
        last if last.contains("<nagent-list-result") => answer("done").into(),
        last if last.contains("<nagent-shell-result") => {
            std::thread::sleep(std::time::Duration::from_millis(500));
            "<nagent-list path=\".\"/>".into()
        }
        _ => keep("later", "sleep 300 & sleep 0.7").into(),
    });
    sandbox.run(&["task"]).assert_exit(0);
    let note = "later has exited: exit code 0; output: ";
    let listed = sandbox.block("nagent-list-result").body;
    assert!(listed.contains(note), "{listed}");
    assert!(
        listed.ends_with("; 1 background process was killed when the command ended]"),
        "{listed}"
    );
}

#[test]
fn a_kept_command_that_floods_its_file_is_bounded_and_runs_on() {
    let flood =
        keep("flood", "head -c 80000000 /dev/zero | tr '\\0' x; echo end; touch full; sleep 300");
    let look =
        shell("until [ -e full ]; do sleep 0.05; done; stat -c %s ~/.nagent/outputs/flood-*.txt");
    let found = run_replies(&[flood, look]);
    assert_eq!(found[1].body, (64 << 20).to_string());
}

#[test]
fn names_of_kept_commands() {
    let name = |name: &str| keep(name, "sleep 300");
    let many: Vec<String> = (0..9).map(|n| name(&format!("n{n}"))).collect();
    let again = [keep("n1", "echo new; sleep 300")];
    let wrong = [
        name("a/b"),
        name(&"x".repeat(300)),
        "<nagent-shell keep=\"x\" timeout=\"3\">ls</nagent-shell>".into(),
    ];
    let replies = [many.as_slice(), &again, &wrong[..2]].concat().concat();
    let found = run_replies(&[replies]);
    let status: Vec<&str> = found.iter().map(|block| block.get("status")).collect();
    assert_eq!(status[..8], ["ok"; 8]);
    assert!(
        found[8].body.contains("8 commands are already running in the background"),
        "{:?}",
        found[8]
    );
    assert_eq!(
        (status[9], found[9].body.lines().next()),
        ("ok", Some("new")),
        "it replaces the first n1"
    );
    assert!(found[9].body.contains("[the previous n1 was stopped]"), "{:?}", found[9]);
    assert!(found[10].body.contains("keep: "), "{:?}", found[10]);
    assert_eq!(status[10..], ["error"; 2]);
    assert!(found[11].body.contains("over 100 characters"));
}
