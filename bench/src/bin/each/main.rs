//! How long `nagent-each` takes over many inputs, beside the sum of its requests over the number that are under way at once, and
//! beside `xargs -P`.
//!
//! `nagent-bench-each [--bin DIR] [--count N] [--jobs N] [--ms N]`: executables in DIR (default: target/release), 1,000 inputs, 8 at
//! once, a model that takes 200 ms. Fails where nagent-each takes over 1.3 times that sum.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIMIT: f64 = 1.3;

/// The requests of all, in microseconds from the request to its reply.
static SPENT: AtomicU64 = AtomicU64::new(0);
static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut bin, mut count, mut jobs, mut ms) = (PathBuf::from("target/release"), 1_000, 8, 200);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        let number = || value.parse().expect("a number");
        match flag.as_str() {
            "--bin" => bin = value.into(),
            "--count" => count = number(),
            "--jobs" => jobs = number(),
            "--ms" => ms = number(),
            _ => panic!("unknown flag {flag}; see the head of the source"),
        }
    }
    let bin = bin.canonicalize().expect("the folder of the executables");
    let root = std::env::temp_dir().join(format!("nagent-bench-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a temporary folder");
    let port = serve(Duration::from_millis(ms));
    let config = format!(
        r#"{{"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:{port}/v1"}}"#
    );
    std::fs::write(root.join("config.json"), config).expect("room for a file");
    let inputs: String = (0..count).map(|number| format!("input {number}\n")).collect();
    std::fs::write(root.join("inputs"), inputs).expect("room for a file");
    // Once, so that both find the list of tools.
    run(&root, &format!("{}/nagent -nq warm", bin.display()), 1);

    println!("{count} inputs, {jobs} at once, a model that takes {ms} ms\n");
    println!("| | s | requests' sum over {jobs}, s | times |\n|---|--:|--:|--:|");
    let dir = bin.display();
    let each = format!("{dir}/nagent-each --lines=inputs -j {jobs} 'Sum up {{}}'");
    let times = row("nagent-each", &root, &each, count, jobs);
    let xargs = format!("xargs -a inputs -P {jobs} -I{{}} {dir}/nagent -nq 'Sum up {{}}'");
    row("xargs -P nagent -nq", &root, &xargs, count, jobs);
    std::fs::remove_dir_all(&root).expect("the folder is ours");
    println!("\nlimit: {LIMIT} times");
    if times <= LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row(name: &str, root: &Path, command: &str, count: u64, jobs: u64) -> f64 {
    let took = run(root, command, count).as_secs_f64();
    let least = SPENT.load(Ordering::SeqCst) as f64 / 1e6 / jobs as f64;
    println!("| `{name}` | {took:.1} | {least:.1} | {:.2} |", took / least);
    took / least
}

fn run(root: &Path, command: &str, count: u64) -> Duration {
    SPENT.store(0, Ordering::SeqCst);
    REQUESTS.store(0, Ordering::SeqCst);
    let start = Instant::now();
    let status = Command::new("sh")
        .args(["-c", command])
        .current_dir(root)
        .env("NAGENT_ROOT", root)
        .env("OPENAI_API_KEY", "none")
        .stdout(Stdio::null())
        .status()
        .expect("sh starts");
    let took = start.elapsed();
    assert!(status.success(), "{command}");
    assert_eq!(REQUESTS.load(Ordering::SeqCst), count, "requests of {command}");
    took
}

/// A model on loopback that takes its time; its port.
fn serve(time: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(&stream, time)));
        }
    });
    port
}

/// Answers the one request of a connection.
fn answer(stream: &TcpStream, time: Duration) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while {
        line.clear();
        reader.read_line(&mut line)? > 2
    } {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let start = Instant::now();
    std::thread::sleep(time);
    let text = "<nagent-response>word</nagent-response>";
    let body = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let mut out = stream;
    write!(out, "{head}content-length: {}\r\n\r\n{body}", body.len())?;
    let spent = u64::try_from(start.elapsed().as_micros()).unwrap_or(0);
    SPENT.fetch_add(spent, Ordering::SeqCst);
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    Ok(())
}
