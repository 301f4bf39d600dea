//! How fast nagent-repl is: its prompt, what lies between Enter and the request, a streamed answer, actions, doing nothing.
//!
//! `nagent-bench-repl [--bin DIR]`: executables in DIR (default: target/release). Prints what was measured beside its limit, and
//! fails where one is passed by half. The model is a thread of this program, the terminal a pty whose other end it reads.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

#[path = "../../stats.rs"]
#[allow(dead_code, reason = "not every program asks for all of it")]
mod stats;
#[path = "../../streamed.rs"]
mod streamed;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use stats::median;
use streamed::{open_terminal, read_request, send_answer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Calls, of which the median counts.
const CALLS: usize = 15;
/// What an editor prints before its prompt: paste comes in brackets.
const PROMPT: &str = "\x1b[?2004h";

/// A model that answers as it is bidden.
struct Server {
    address: String,
    /// When each request had come.
    requests: Receiver<Instant>,
    /// When the pieces of each answer were sent.
    sent: Receiver<Vec<Instant>>,
    answers: Sender<(Vec<String>, Duration)>,
}

impl Server {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}/v1", listener.local_addr()?);
        let (tell_request, requests) = channel();
        let (tell_sent, sent) = channel();
        let (answers, next) = channel::<(Vec<String>, Duration)>();
        std::thread::spawn(move || -> Option<()> {
            loop {
                let (stream, _) = listener.accept().ok()?;
                if read_request(&stream).is_err() {
                    continue;
                }
                tell_request.send(Instant::now()).ok()?;
                let (pieces, pause) = next.recv().ok()?;
                tell_sent.send(send_answer(&stream, &pieces, pause).ok()?).ok()?;
            }
        });
        Ok(Self { address, requests, sent, answers })
    }

    fn answer(&self, pieces: Vec<String>, pause: Duration) -> Result<()> {
        Ok(self.answers.send((pieces, pause))?)
    }
}

/// A program on a terminal, and what it has shown.
struct Terminal {
    master: File,
    child: Child,
    chunks: Receiver<(Instant, Vec<u8>)>,
    shown: Vec<u8>,
    /// Up to where it was searched.
    at: usize,
}

impl Terminal {
    fn start(mut command: Command) -> Result<Self> {
        let (master, slave) = open_terminal()?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        let child = command.spawn()?;
        let (tell, chunks) = channel();
        let mut source = master.try_clone()?;
        std::thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(count @ 1..) = source.read(&mut chunk) {
                if tell.send((Instant::now(), chunk[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { master, child, chunks, shown: Vec::new(), at: 0 })
    }

    fn type_keys(&mut self, keys: &str) -> Result<Instant> {
        let now = Instant::now();
        self.master.write_all(keys.as_bytes())?;
        Ok(now)
    }

    /// When a text was shown, behind what was found before.
    fn wait_for(&mut self, text: &str) -> Result<Instant> {
        let mut last = Instant::now();
        loop {
            if let Some(at) =
                self.shown[self.at..].windows(text.len()).position(|part| part == text.as_bytes())
            {
                self.at += at + text.len();
                return Ok(last);
            }
            self.at = self.at.max(self.shown.len().saturating_sub(text.len()));
            let Ok((time, chunk)) = self.chunks.recv_timeout(Duration::from_secs(30)) else {
                let end =
                    String::from_utf8_lossy(&self.shown[self.shown.len().saturating_sub(500)..])
                        .into_owned();
                return Err(format!("no {text:?} within 30 s, at the end of {end:?}").into());
            };
            last = time;
            self.shown.extend(chunk);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.type_keys("\x04");
        let _ = self.child.wait();
    }
}

/// Where everything is.
struct World {
    bin: PathBuf,
    home: PathBuf,
    server: Server,
}

impl World {
    fn command(&self, tool: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(tool));
        command
            .args(["--provider", "openai", "--model", "m", "--base-url", &self.server.address])
            .args(args)
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("TERM", "xterm"), ("OPENAI_API_KEY", "sk-bench")])
            .env("HOME", &self.home)
            .current_dir(&self.home);
        command
    }

    fn session(&self) -> Result<Terminal> {
        let mut terminal = Terminal::start(self.command("nagent-repl", &["--new"]))?;
        terminal.wait_for(PROMPT)?;
        Ok(terminal)
    }
}

fn reply(text: &str) -> Vec<String> {
    vec![format!("<nagent-response>{text}</nagent-response>")]
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let bin = match args.as_slice() {
        ["--rustyline"] => {
            let line = rustyline::DefaultEditor::new().and_then(|mut editor| editor.readline("> "));
            return if line.is_err() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        [] => "target/release",
        ["--bin", bin] => bin,
        _ => panic!("unknown arguments; see the head of the source"),
    };
    let home = std::env::temp_dir().join(format!("nagent-bench-repl-{}", std::process::id()));
    let figures = measure(Path::new(bin), &home);
    let _ = std::fs::remove_dir_all(&home);
    match figures {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("nagent-bench-repl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(bin: &Path, home: &Path) -> Result<bool> {
    std::fs::create_dir_all(home.join(".nagent"))?;
    std::fs::write(home.join("small"), "x\n")?;
    // The server of this bench lists no models, and is not to be asked for the window of a long conversation.
    let config = "{\"context_window_tokens\": 100000000}\n";
    std::fs::write(home.join(".nagent/config.json"), config)?;
    let world = World { bin: bin.canonicalize()?, home: home.to_owned(), server: Server::start()? };
    println!("| what | measured | limit |\n|---|--:|--:|");
    let rows = [
        start_rows(&world)?,
        request_rows(&world)?,
        stream_rows(&world)?,
        action_rows(&world)?,
        idle_rows(&world)?,
    ];
    let size = std::fs::metadata(world.bin.join("nagent-repl"))?.len();
    println!("\nnagent-repl, the executable of most tools: {:.1} MB", size as f64 / 1e6);
    Ok(rows.into_iter().all(|is_fine| is_fine))
}

/// Prints a row. False: the limit is passed by half.
fn row(what: &str, value: f64, unit: &str, limit: Option<f64>) -> bool {
    let shown = limit.map(|limit| format!("{limit:.1} {unit}")).unwrap_or_default();
    println!("| {what} | {value:.2} {unit} | {shown} |");
    limit.is_none_or(|limit| value <= limit * 1.5)
}

fn start_rows(world: &World) -> Result<bool> {
    let mut prompts = Vec::new();
    let mut beside = Vec::new();
    let mut status = Vec::new();
    for _ in 0..CALLS {
        let start = Instant::now();
        let mut terminal = Terminal::start(world.command("nagent-repl", &["--conversation", "c"]))?;
        prompts.push(milliseconds(start, terminal.wait_for(PROMPT)?));
        drop(terminal);
        let mut editor = Command::new(std::env::current_exe()?);
        editor.arg("--rustyline").env("TERM", "xterm");
        let start = Instant::now();
        let mut terminal = Terminal::start(editor)?;
        beside.push(milliseconds(start, terminal.wait_for(PROMPT)?));
        drop(terminal);
        let start = Instant::now();
        world.command("nagent", &["--status"]).stdout(Stdio::null()).status()?;
        status.push(milliseconds(start, Instant::now()));
    }
    let is_fine = row("start to prompt", median(&prompts), "ms", Some(10.0));
    row("the same of an empty rustyline", median(&beside), "ms", None);
    row("nagent --status", median(&status), "ms", None);
    Ok(is_fine)
}

fn request_rows(world: &World) -> Result<bool> {
    let (mut alone, mut session) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        world.server.answer(reply("ok"), Duration::ZERO)?;
        let start = Instant::now();
        let run = world
            .command("nagent", &["-n", "go"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        alone.push(milliseconds(start, world.server.requests.recv()?));
        world.server.sent.recv()?;
        let mut terminal = world.session()?;
        world.server.answer(reply("ok"), Duration::ZERO)?;
        let start = terminal.type_keys("go\r")?;
        session.push(milliseconds(start, world.server.requests.recv()?));
        world.server.sent.recv()?;
        terminal.wait_for(PROMPT)?;
        if !run.success() {
            return Err("nagent failed".into());
        }
    }
    row("nagent, from its start to the request", median(&alone), "ms", None);
    Ok(row("Enter to the request", median(&session), "ms", Some(median(&alone) + 3.0)))
}

fn stream_rows(world: &World) -> Result<bool> {
    let mut terminal = world.session()?;
    let mut pieces: Vec<String> = (0..1000).map(|n| format!("piece {n:05} of it. ")).collect();
    let words = pieces.clone();
    pieces[0].insert_str(0, "<nagent-response>");
    pieces[999].push_str("</nagent-response>");
    world.server.answer(pieces, Duration::from_millis(1))?;
    terminal.type_keys("go\r")?;
    let shown = words.iter().map(|word| terminal.wait_for(word)).collect::<Result<Vec<_>>>()?;
    let sent = world.server.sent.recv()?;
    world.server.requests.recv()?;
    terminal.wait_for(PROMPT)?;
    let delays: Vec<f64> =
        sent.iter().zip(&shown).map(|(sent, shown)| milliseconds(*sent, *shown)).collect();
    let worst = delays.iter().copied().fold(0.0, f64::max);
    let mut is_fine =
        row("a piece of 20 bytes, 1000 a second: median", median(&delays), "ms", Some(2.0));
    is_fine &= row("the slowest of 1000", worst, "ms", Some(10.0));
    let line = "The quick brown fox jumps over the lazy dog, and then it rests. ".repeat(16);
    let mut large: Vec<String> = vec![line; 10_000];
    large[0].insert_str(0, "<nagent-response>");
    large[9_999].push_str("</nagent-response>");
    world.server.answer(large, Duration::ZERO)?;
    terminal.type_keys("go\r")?;
    let end = terminal.wait_for(PROMPT)?;
    world.server.requests.recv()?;
    let took = milliseconds(world.server.sent.recv()?[0], end);
    Ok(is_fine
        & row("an answer of 10 MB, from its first byte to the prompt", took, "ms", Some(500.0)))
}

/// A thousand actions, in a session and with `--lines` alone.
fn action_rows(world: &World) -> Result<bool> {
    const TURNS: usize = 20;
    let answers = || -> Result<()> {
        for _ in 0..TURNS {
            world
                .server
                .answer(vec!["<nagent-read path='small'/>".repeat(1000 / TURNS)], Duration::ZERO)?;
        }
        world.server.answer(reply("done"), Duration::ZERO)
    };
    let (mut alone, mut session) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        answers()?;
        let start = Instant::now();
        world.command("nagent", &["--lines", "-n", "go"]).stdout(Stdio::null()).status()?;
        alone.push(milliseconds(start, Instant::now()));
        let mut terminal = world.session()?;
        answers()?;
        let start = terminal.type_keys("go\r")?;
        session.push(milliseconds(start, terminal.wait_for(PROMPT)?));
    }
    while world.server.requests.try_recv().is_ok() && world.server.sent.try_recv().is_ok() {}
    row("1,000 actions with nagent --lines", median(&alone), "ms", None);
    let added: Vec<f64> =
        session.iter().zip(&alone).map(|(session, alone)| session - alone).collect();
    Ok(row("what a session adds to that", median(&added), "ms", Some(100.0)))
}

fn idle_rows(world: &World) -> Result<bool> {
    let terminal = world.session()?;
    sleep(Duration::from_secs(1));
    let tasks = PathBuf::from(format!("/proc/{}/task", terminal.child.id()));
    let figure = |path: &Path, name: &str| -> Result<f64> {
        let text = std::fs::read_to_string(path.join("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
        Ok(line.trim_matches([':', ' ', '\t', 'k', 'B']).parse()?)
    };
    let wakeups = || -> Result<f64> {
        let tasks =
            std::fs::read_dir(&tasks)?.map(|task| figure(&task?.path(), "voluntary_ctxt_switches"));
        tasks.sum()
    };
    let before = wakeups()?;
    sleep(Duration::from_secs(10));
    let is_fine = row("wake-ups in 10 s of doing nothing", wakeups()? - before, "", Some(0.0));
    let memory = figure(&tasks.join(terminal.child.id().to_string()), "VmRSS")? / 1e3;
    Ok(is_fine & row("memory of a session that does nothing", memory, "MB", Some(12.0)))
}
