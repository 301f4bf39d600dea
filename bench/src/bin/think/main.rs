//! How long scripts take that need no model: a memory.js from start to exit, beside `node -e`; calls, computing, large files.
//!
//! `nagent-bench-think [--bin DIR]`: executables in DIR (default: target/release). Prints the median of calls beside its
//! limit, and fails where one is passed by half.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Calls, of which the median counts.
const CALLS: usize = 15;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut bin = PathBuf::from("target/release");
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--bin" => bin = args.next().unwrap_or_default().into(),
            _ => panic!("unknown flag {flag}; see the head of the source"),
        }
    }
    let world = std::env::temp_dir().join(format!("nagent-bench-think-{}", std::process::id()));
    let folder = world.join("thoughts/word");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(folder.join("memory.js"), "'word'").expect("room for a file");
    std::fs::write(world.join("word.md"), "Print a word.").expect("room for a file");
    std::fs::write(world.join("small"), "x".repeat(1024)).expect("room for a file");
    std::fs::write(world.join("large"), "x".repeat(50 << 20)).expect("room for a file");
    let js = |code: &str| {
        let mut command = Command::new(bin.join("nagent-js"));
        command.args(["-e", code]).current_dir(&world);
        command
    };
    let think = || {
        let mut command = Command::new(bin.join("nagent-think"));
        command.arg("word.md").current_dir(&world).env("THINKINGSCRIPT_HOME", &world);
        command
    };
    let node = || {
        let mut command = Command::new("node");
        command.args(["-e", "process.stdout.write('word')"]);
        command
    };
    println!("median of {CALLS} calls\n\n| what | ms | limit |\n|---|--:|--:|");
    let fib = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } fib(27)";
    let rows = [
        row("a memory.js that prints a word, from start to exit", time(think), 12.0),
        row("nagent-js -e 1", time(|| js("1")), 12.0),
        row("1,000 fs.readFile of 1 KiB", time(|| js("for (let i = 0; i < 1000; i++) fs.readFile('small')")), 60.0),
        row("50 MiB through fs.readFile", time(|| js("fs.readFile('large').length")), 500.0),
    ];
    print_plain("fib(27)", time(|| js(fib)));
    if Command::new("node").arg("-v").stdout(Stdio::null()).status().is_ok() {
        print_plain("node -e, the same word", time(node));
        print_plain("node -e, fib(27)", time(|| {
            let mut command = Command::new("node");
            command.args(["-e", fib]);
            command
        }));
    }
    for name in ["nagent", "nagent-js"] {
        let size = std::fs::metadata(bin.join(name)).map_or(0, |file| file.len());
        println!("\n{name}: {:.1} MB", size as f64 / 1e6);
    }
    std::fs::remove_dir_all(Path::new(&world)).expect("the folder is ours");
    if rows.into_iter().all(|is_fine| is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a row. False: the limit is passed by half.
fn row(what: &str, took: Duration, limit: f64) -> bool {
    let ms = took.as_secs_f64() * 1000.0;
    println!("| {what} | {ms:.1} | {limit:.0} |");
    ms <= limit * 1.5
}

fn print_plain(what: &str, took: Duration) {
    println!("| {what} | {:.1} | |", took.as_secs_f64() * 1000.0);
}

/// The median time of a command whose output is not looked at.
fn time(command: impl Fn() -> Command) -> Duration {
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let start = Instant::now();
            let mut command = command();
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
            assert!(status.expect("the command starts").success(), "{command:?}");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[CALLS / 2]
}
