//! How long scripts take: a memory.js from start to exit, beside `node -e`; calls, large files, computing beside the engine alone;
//! a run with a model beside `nagent`'s; memory and size.
//!
//! `nagent-bench-think [--bin DIR]`: executables in DIR (default: target/release). Prints the median of calls beside its
//! limit, and fails where one is passed by half.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Calls, of which the median counts.
const CALLS: usize = 15;

const FIB: &str = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut bin = PathBuf::from("target/release");
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--bin" => bin = args.next().unwrap_or_default().into(),
            _ => panic!("unknown flag {flag}; see the head of the source"),
        }
    }
    let bin = bin.canonicalize().expect("the folder of the executables");
    let world = World::make(bin);
    println!("median of {CALLS} calls\n\n| what | figure | limit |\n|---|--:|--:|");
    let rows = measure(&world);
    if Command::new("node").arg("-v").stdout(Stdio::null()).status().is_ok() {
        for (what, code) in [
            ("node -e, a word, ms", "process.stdout.write('word')".to_owned()),
            ("node -e, fib(27), ms", format!("{FIB} fib(27)")),
        ] {
            let mut node = Command::new("node");
            node.args(["-e", &code]);
            println!("| {what} | {:.1} | |", ms(time(&mut [node])[0]));
        }
    }
    std::fs::remove_dir_all(&world.folder).expect("the folder is ours");
    if rows.into_iter().all(|is_fine| is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints all rows that have a limit. False: one is passed by half.
fn measure(world: &World) -> Vec<bool> {
    let alone = |what, command, limit| row(what, ms(time(&mut [command])[0]), limit);
    let [agent, plain] = time(&mut [
        world.command("nagent-think", &["--fresh", "word.md"]),
        world.command("nagent", &["-n", "-q", "Print a word."]),
    ])[..] else {
        unreachable!("two commands have two times")
    };
    let size = |name: &str| std::fs::metadata(world.bin.join(name)).map_or(0, |file| file.len());
    let own = world.js(&format!("{FIB} const start = Date.now(); fib(30); Date.now() - start"));
    vec![
        alone(
            "a memory.js that prints a word, from start to exit, ms",
            world.command("nagent-think", &["word.md"]),
            12.0,
        ),
        alone("nagent-js -e 1, ms", world.js("1"), 12.0),
        alone(
            "1,000 fs.readFile of 1 KiB, ms",
            world.js("for (let i = 0; i < 1000; i++) fs.readFile('small')"),
            60.0,
        ),
        alone("50 MiB through fs.readFile, ms", world.js("fs.readFile('large').length"), 500.0),
        alone("fib(27), with its process, ms", world.js(&format!("{FIB} fib(27)")), f64::INFINITY),
        row("fib(30), times the bare engine's", median_of_texts(own) / bare_engine(), 1.1),
        row("a run with a model's reply, ms over nagent's", ms(agent) - ms(plain), 3.0),
        row("memory of an engine that waits, MB", world.engine_memory() / 1e6, 12.0),
        row("nagent-js, MB", size("nagent-js") as f64 / 1e6, 5.0),
        row("nagent, MB", size("nagent") as f64 / 1e6, f64::INFINITY),
    ]
}

/// Files and scripts to be run.
struct World {
    bin: PathBuf,
    folder: PathBuf,
}

impl World {
    fn make(bin: PathBuf) -> Self {
        let folder =
            std::env::temp_dir().join(format!("nagent-bench-think-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room for a folder");
            std::fs::write(path, text).expect("room for a file");
        };
        write("home/thoughts/word/memory.js", "'word'");
        write("work/word.md", "Print a word.");
        write("work/small", &"x".repeat(1024));
        write("work/large", &"x".repeat(50 << 20));
        // A model that answers at once.
        let command = "[\"echo\", \"<nagent-response>word</nagent-response>\"]";
        write(
            "root/config.json",
            &format!("{{\"provider\": \"command\", \"command\": {command}}}"),
        );
        Self { bin, folder }
    }

    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.args(words).current_dir(self.folder.join("work"));
        command.env("THINKINGSCRIPT_HOME", self.folder.join("home"));
        command.env("NAGENT_ROOT", self.folder.join("root"));
        command
    }

    fn js(&self, code: &str) -> Command {
        self.command("nagent-js", &["-e", code])
    }

    /// What the process of a script that waits has in memory, in bytes.
    fn engine_memory(&self) -> f64 {
        let mut script = self.js("process.sleep(60000)");
        let mut running = script.stdin(Stdio::null()).spawn().expect("nagent-js starts");
        // Until it has its rights taken away, and rests.
        std::thread::sleep(Duration::from_millis(500));
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let child = read(format!("/proc/{0}/task/{0}/children", running.id()));
        let status = read(format!("/proc/{}/status", child.trim()));
        let kib = status.split_once("VmRSS:").and_then(|(_, rest)| rest.split_whitespace().next());
        running.kill().and_then(|()| running.wait()).expect("it is ours");
        kib.and_then(|kib| kib.parse::<f64>().ok()).expect("the engine runs") * 1024.0
    }
}

/// The same in the engine alone, in milliseconds.
fn bare_engine() -> f64 {
    let runtime = rquickjs::Runtime::new().expect("memory");
    let context = rquickjs::Context::full(&runtime).expect("memory");
    let mut times: Vec<f64> = (0..CALLS)
        .map(|_| {
            let start = Instant::now();
            let code = format!("{FIB} fib(30)");
            context.with(|ctx| ctx.eval::<i32, _>(code)).expect("a number");
            ms(start.elapsed())
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[CALLS / 2]
}

/// The median of the numbers that a command prints.
fn median_of_texts(mut command: Command) -> f64 {
    let mut numbers: Vec<f64> = (0..CALLS)
        .map(|_| {
            let output = command.stdin(Stdio::null()).output().expect("the command starts");
            String::from_utf8_lossy(&output.stdout).parse().expect("a number")
        })
        .collect();
    numbers.sort_by(f64::total_cmp);
    numbers[CALLS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Prints a row. False: the limit is passed by half.
fn row(what: &str, figure: f64, limit: f64) -> bool {
    let shown = if limit.is_finite() { limit.to_string() } else { String::new() };
    println!("| {what} | {figure:.1} | {shown} |");
    figure <= limit * 1.5
}

/// The median times of commands whose output is not looked at, called in turn.
fn time(commands: &mut [Command]) -> Vec<Duration> {
    let mut times = vec![Vec::new(); commands.len()];
    for _ in 0..CALLS {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let start = Instant::now();
            assert!(command.status().expect("the command starts").success(), "{command:?}");
            times.push(start.elapsed());
        }
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[CALLS / 2]
    };
    times.into_iter().map(median).collect()
}
