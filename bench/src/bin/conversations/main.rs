//! How long `nagent-conversations list` takes with many conversations, beside `ls -l` of their folder; `nagent-status` beside the
//! start of a process.
//!
//! `nagent-bench-conversations [--bin DIR] [--count N]`: executables in DIR (default: target/release), N conversations
//! (default: 10,000) of one to three turns. Prints the median of nine calls each, and their ratio.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CALLS: usize = 9;

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut bin, mut count) = (PathBuf::from("target/release"), 10_000);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        match flag.as_str() {
            "--bin" => bin = value.into(),
            "--count" => count = value.parse().expect("--count takes a number"),
            _ => panic!("unknown flag {flag}; see the head of the source"),
        }
    }
    let root = std::env::temp_dir().join(format!("nagent-bench-{}", std::process::id()));
    let folder = root.join("conversations");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for number in 0..count {
        let text = conversation(number);
        std::fs::write(folder.join(format!("c{number:05}")), text).expect("room for a file");
    }
    let list = |verb: &[&str]| {
        let mut command = Command::new(bin.join("nagent-conversations"));
        command.args(verb).env("NAGENT_ROOT", &root);
        command
    };
    let ls = time(|| {
        let mut command = Command::new("ls");
        command.arg("-l").arg(&folder).env("LC_ALL", "C");
        command
    });
    println!("{count} conversations, median of {CALLS} calls\n");
    println!("| call | ms | times ls -l |\n|---|--:|--:|");
    print_row("ls -l", ls, ls);
    for verb in [&["list"] as &[&str], &["list", "--json"], &["usage"], &["prune", "--dry-run"]] {
        let took = time(|| list(verb));
        print_row(&format!("nagent-conversations {}", verb.join(" ")), took, ls);
    }
    status_rows(&bin, &folder, &root);
    std::fs::remove_dir_all(Path::new(&root)).expect("the folder is ours");
}

/// What it takes to look at ten runs, beside the start of a process that does nothing.
fn status_rows(bin: &Path, folder: &Path, root: &Path) {
    let start = time(|| Command::new("/bin/true"));
    println!("\n| call | ms | times /bin/true |\n|---|--:|--:|");
    print_row("/bin/true", start, start);
    let print_status = |what: &str, args: &[&str]| {
        let took = time(|| {
            let mut command = Command::new(bin.join("nagent-status"));
            command.args(args).env("NAGENT_ROOT", root);
            command
        });
        print_row(what, took, start);
    };
    // What any of the executables takes to start.
    print_status("nagent-status --version", &["--version"]);
    print_status("nagent-status", &[]);
    for number in 0..10 {
        let note =
            format!(r#"{{"n":1,"host":"other","pid":{number},"turn":1,"action":"model","end":1}}"#);
        std::fs::write(folder.join(format!("c{number:05}.run")), note).expect("room for a file");
    }
    print_status("nagent-status, ten runs", &[]);
}

fn print_row(call: &str, took: Duration, ls: Duration) {
    let ratio = took.as_secs_f64() / ls.as_secs_f64();
    println!("| `{call}` | {:.1} | {ratio:.1} |", took.as_secs_f64() * 1000.0);
}

/// The median time of a command whose output is not looked at.
fn time(command: impl Fn() -> Command) -> Duration {
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let start = Instant::now();
            let status = command().stdout(Stdio::null()).status().expect("the command starts");
            assert!(status.success(), "{:?}", command());
            start.elapsed()
        })
        .collect();
    times.sort();
    times[CALLS / 2]
}

/// A conversation as runs write it: the first context, and one to three prompts with their answers.
fn conversation(number: usize) -> String {
    let rules = "Lines of rules, as many as the first context has.\n".repeat(90);
    let mut text = format!(
        "<initial_context fence=\"abc123def456\">\n{rules}</initial_context abc123def456>\n"
    );
    for turn in 1..=1 + number % 3 {
        let _ = write!(
            text,
            "\n<user-prompt at=\"2026-11-21T09:30:00Z\" cwd=\"/home/you/project\">\nQuestion {number}\n</user-prompt>\n\n\
             <agent-response>\n<nagent-response>It is db{turn}.</nagent-response>\n</agent-response>\n\n\
             <nagent-turn-status at=\"2026-11-21T09:30:0{turn}Z\" turn=\"{turn}\" tokens_in=\"2140\" tokens_out=\"52\" \
             tokens_cached=\"0\" cost=\"0.012260\" />\n"
        );
    }
    text
}
