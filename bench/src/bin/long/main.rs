//! Long work: how long a turn takes in conversations from 10 KB to 10 MB, and how long compacting 10 MB takes, without its
//! request.
//!
//! `nagent-bench-long [--bin DIR]`: executables in DIR (default: target/release). A recording stands for the model, so that
//! no request is built or sent. A turn is the difference between runs with 1 and with 101 of them, each a `nagent-list` of an
//! empty folder. Prints the median of calls beside its limit.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Calls, of which the median counts.
const CALLS: usize = 7;
/// Turns of a long run, without the first.
const TURNS: usize = 100;
/// More parts than a checkpoint of 10 MB is written of.
const PARTS: usize = 200;
const CHECKPOINT: &str =
    "Intent\\na\\nConstraints\\nb\\nDecisions\\nc\\nFiles\\nd\\nOpen questions\\ne\\nNext step\\nf";

fn main() {
    let mut args = std::env::args().skip(1);
    let mut bin = PathBuf::from("target/release");
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--bin" => bin = args.next().unwrap_or_default().into(),
            _ => panic!("unknown flag {flag}; see the head of the source"),
        }
    }
    let bin = bin.canonicalize().expect("the folder of the executables");
    let folder = std::env::temp_dir().join(format!("nagent-bench-long-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("root/conversations")).expect("a temporary folder");
    std::fs::create_dir_all(folder.join("empty")).expect("a folder in it");
    std::fs::write(folder.join("one.jsonl"), recording(1)).expect("room for a file");
    std::fs::write(folder.join("many.jsonl"), recording(TURNS + 1)).expect("room for a file");
    // For each part of the conversation, and for what joins them.
    let line =
        |turn| format!("{{\"conversation\":\"0\",\"turn\":{turn},\"reply\":\"{CHECKPOINT}\"}}\n");
    let lines: String = (1..=PARTS).map(line).collect();
    std::fs::write(folder.join("checkpoint.jsonl"), lines).expect("room for a file");
    // A window that takes the whole: one request writes the checkpoint.
    let config = "{\"context_window_tokens\": 2800000}\n";
    std::fs::write(folder.join("root/config.json"), config).expect("room for a file");
    println!("median of {CALLS} calls\n\n| what | ms | limit |\n|---|--:|---|");
    let mut first = None;
    for (size, name) in [(10 << 10, "10 KB"), (1 << 20, "1 MB"), (10 << 20, "10 MB")] {
        let text = conversation(size);
        let one = time(&folder, &text, || run(&bin, &folder, "one.jsonl", &["go on"]));
        let many = time(&folder, &text, || run(&bin, &folder, "many.jsonl", &["go on"]));
        let turn = (ms(many) - ms(one)) / TURNS as f64;
        let base = *first.get_or_insert(turn);
        println!("| a turn in {name} | {turn:.2} | {:.2} times that in 10 KB; flat |", turn / base);
    }
    let text = conversation(10 << 20);
    let status = time(&folder, &text, || run(&bin, &folder, "checkpoint.jsonl", &["--status"]));
    let whole = time(&folder, &text, || run(&bin, &folder, "checkpoint.jsonl", &["--compact"]));
    println!("| `nagent --status` in 10 MB | {:.1} | |", ms(status));
    println!("| `nagent --compact` of 10 MB, from start to exit | {:.1} | 300 |", ms(whole));
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

/// A recording with so many turns; all but the last list a folder.
fn recording(turns: usize) -> String {
    let mut text = String::new();
    for turn in 1..=turns {
        let reply = if turn == turns {
            "<nagent-response>done</nagent-response>"
        } else {
            "<nagent-list path='empty'/>"
        };
        let _ = writeln!(
            text,
            "{{\"conversation\":\"0\",\"turn\":{turn},\"reply\":\"{reply}\",\"usage\":{{\"input\":9,\"output\":9}}}}"
        );
    }
    text
}

/// A conversation of about so many bytes, as runs write it: turns with results of 3 and of 12 KB.
fn conversation(bytes: usize) -> String {
    let rules = "Lines of rules, as many as the first context has.\n".repeat(90);
    let mut text = format!(
        "<initial_context fence=\"abc123def456\">\n{rules}</initial_context abc123def456>\n"
    );
    let mut turn = 0;
    while text.len() < bytes {
        turn += 1;
        let output =
            "a line that a command has printed\n".repeat(if turn % 8 == 0 { 360 } else { 90 });
        if turn % 10 == 1 {
            let _ = write!(
                text,
                "\n<user-prompt at=\"2026-11-21T09:30:00Z\" cwd=\"/home/you/project\">\nQuestion {turn}\n</user-prompt>\n"
            );
        }
        let _ = write!(
            text,
            "\n<agent-response>\n<nagent-shell>make {turn}</nagent-shell>\n</agent-response>\n\n\
             <nagent-turn-status at=\"2026-11-21T09:30:00Z\" turn=\"{turn}\" tokens_in=\"{}\" tokens_out=\"52\" \
             tokens_cached=\"0\" />\n\n\
             <nagent-shell-result status=\"ok\" exit_code=\"0\">\n{output}</nagent-shell-result>\n",
            text.len() / 4
        );
    }
    text
}

fn run(bin: &Path, folder: &Path, recording: &str, words: &[&str]) -> Command {
    let mut command = Command::new(bin.join("nagent"));
    command.args(["-c", "c", "--provider", "replay", "--max-turns", "1000", "--model"]);
    command.arg(folder.join(recording)).args(words).current_dir(folder);
    command.env("NAGENT_ROOT", folder.join("root")).env("HOME", folder);
    command
}

/// The median time of a command, each time in a conversation with this text.
fn time(folder: &Path, text: &str, command: impl Fn() -> Command) -> Duration {
    let path = folder.join("root/conversations/c");
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            std::fs::write(&path, text).expect("room for a file");
            let start = Instant::now();
            let output = command().stdin(Stdio::null()).output().expect("the command starts");
            let took = start.elapsed();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{:?}: {error}", command());
            took
        })
        .collect();
    times.sort();
    times[CALLS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
