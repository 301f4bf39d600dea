//! How long a streamed answer takes to the screen: from the server's write to the bytes on a terminal.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin nagent-bench-stream -- --nagent PATH` prints a Markdown table.
//! The terminal is a pty whose other end this program reads; the server is a thread of it, so that both sides of a figure
//! are read from one clock.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

#[path = "../../streamed.rs"]
mod streamed;

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use streamed::{open_terminal, read_request, send_answer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a run showed: when each read of the terminal ended and how many bytes had come by then, and when the pieces were sent.
struct Shown {
    reads: Vec<(Instant, usize)>,
    text: Vec<u8>,
    sent: Vec<Instant>,
    ended: Instant,
}

fn run(
    nagent: &Path,
    home: &Path,
    pieces: Vec<String>,
    pause: Duration,
    on_terminal: bool,
) -> Result<Shown> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1", listener.local_addr()?);
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = || {
            let (stream, _) = listener.accept()?;
            read_request(&stream)?;
            send_answer(&stream, &pieces, pause)
        };
        drop(send.send(answer().map_err(|error| error.to_string())));
    });
    let mut command = Command::new(nagent);
    command
        .args(["--provider", "openai", "--model", "m", "--base-url", &address, "--new", "task"])
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("OPENAI_API_KEY", "sk-bench")
        .current_dir(home)
        .stdin(Stdio::null());
    let mut source: Box<dyn Read>;
    let mut child;
    if on_terminal {
        let (master, slave) = open_terminal()?;
        child = command.stdout(slave.try_clone()?).stderr(slave).spawn()?;
        // Its copies of the other end would keep the terminal open.
        drop(command);
        source = Box::new(master);
    } else {
        child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        source = Box::new(child.stdout.take().ok_or("no stdout")?);
    }
    let (mut reads, mut text, mut chunk) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    // A terminal whose other side is gone gives an error.
    while let Ok(count @ 1..) = source.read(&mut chunk) {
        text.extend_from_slice(&chunk[..count]);
        reads.push((Instant::now(), text.len()));
    }
    let ended = Instant::now();
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("nagent failed: {}", String::from_utf8_lossy(&text)).into());
    }
    let sent = receive.recv()??;
    Ok(Shown { reads, text, sent, ended })
}

/// How long each piece took to the screen, in milliseconds.
fn delays(shown: &Shown, pieces: &[String]) -> Vec<f64> {
    let mut from = 0;
    let mut found = Vec::new();
    for (piece, sent) in pieces.iter().zip(&shown.sent) {
        let word =
            piece.trim_start_matches("<nagent-response>").trim_end_matches("</nagent-response>");
        let Some(at) =
            shown.text[from..].windows(word.len()).position(|part| part == word.as_bytes())
        else {
            continue;
        };
        from += at + word.len();
        let read = shown.reads.iter().find(|(_, bytes)| *bytes >= from);
        found.extend(read.map(|(time, _)| time.duration_since(*sent).as_secs_f64() * 1e3));
    }
    found
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagent-bench-stream: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [flag, nagent] = args.as_slice() else { return Err("--nagent PATH is needed".into()) };
    if flag != "--nagent" {
        return Err(format!("unknown argument {flag}").into());
    }
    let nagent = PathBuf::from(nagent).canonicalize()?;
    let home = std::env::temp_dir().join(format!("nagent-bench-stream-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let result = print_figures(&nagent, &home);
    std::fs::remove_dir_all(&home)?;
    result
}

fn print_figures(nagent: &Path, home: &Path) -> Result<()> {
    println!("| figure | value |\n|---|--:|");
    let mut pieces: Vec<String> = (0..1000).map(|n| format!("piece {n:05} of it. ")).collect();
    pieces[0].insert_str(0, "<nagent-response>");
    pieces[999].push_str("end</nagent-response>");
    let shown = run(nagent, home, pieces.clone(), Duration::from_millis(1), true)?;
    let mut all = delays(&shown, &pieces);
    if all.len() < 990 {
        return Err(format!("only {} of 1000 pieces were seen", all.len()).into());
    }
    let first = all[0];
    all.sort_by(f64::total_cmp);
    println!("| first streamed byte, from the server's write to the terminal | {first:.2} ms |");
    println!("| a piece of 20 bytes, 1000 a second: median | {:.2} ms |", all[all.len() / 2]);
    println!("| the slowest of 1000 | {:.2} ms |", all[all.len() - 1]);
    let line = "The quick brown fox jumps over the lazy dog, and then it rests. ".repeat(16);
    let mut large: Vec<String> = vec![line; 10_000];
    large[0].insert_str(0, "<nagent-response>");
    let last = large.len() - 1;
    large[last].push_str("</nagent-response>");
    let bytes: usize = large.iter().map(String::len).sum();
    for (where_, on_terminal) in [("a terminal", true), ("a pipe", false)] {
        let shown = run(nagent, home, large.clone(), Duration::ZERO, on_terminal)?;
        let took = shown.ended.duration_since(shown.sent[0]).as_secs_f64();
        let mb = bytes as f64 / 1e6;
        println!(
            "| an answer of {mb:.1} MB to {where_}, from its first byte to the end of the run | {took:.3} s |"
        );
    }
    Ok(())
}
