//! The toolkit's own time, measured: nagent beside `curl` and a bare loop, against a scripted model on loopback.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml -- --nagent PATH` prints Markdown tables. Further:
//! `--rounds N` (10; half as many for the long runs), `--quick`, `--dir DIR` (where the conversations lie),
//! `--shell SH` (the shell of nagent and of the bare loop; bash where there is one, else sh).
//!
//! The clients run in turns, round by round, so that what the host does to one it does to all; ratios are
//! medians over rounds. A figure that could not be taken is said in its place.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

mod clients;
mod floor;
mod process;
mod server;
mod stats;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use clients::{Bench, script};
use process::Sample;
use stats::{mean, ratio, short, spread};

struct Options {
    nagent: PathBuf,
    rounds: usize,
    few: usize,
    dir: PathBuf,
    shell: Option<String>,
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut found = Options {
        nagent: PathBuf::new(),
        rounds: 10,
        few: 5,
        dir: std::env::temp_dir(),
        shell: None,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--nagent" => found.nagent = value()?.into(),
            "--dir" => found.dir = value()?.into(),
            "--shell" => found.shell = Some(value()?.clone()),
            "--rounds" => {
                found.rounds =
                    value()?.parse().map_err(|_| "--rounds takes a number".to_owned())?;
                found.few = found.rounds.div_ceil(2);
            }
            "--quick" => (found.rounds, found.few) = (3, 2),
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if found.nagent.as_os_str().is_empty() {
        return Err("--nagent PATH is needed: the executable to measure".to_owned());
    }
    Ok(found)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == "floor" => {
            floor::run(rest).map_err(|error| error.to_string())
        }
        _ => options(&args).and_then(|options| measure(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagent-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), String> {
    let folder = options.dir.join(format!("nagent-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let done = Bench::new(&options.nagent, &folder, options.shell.as_deref())
        .map(|bench| report(&bench, options));
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn report(bench: &Bench, options: &Options) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "Scripted model on loopback, thinking for 0 ms, on the same {cores} cores as its client. Milliseconds:"
    );
    println!(
        "median (least–most). One append of 300 bytes with fdatasync in the folder of the conversations takes"
    );
    println!(
        "{} ms; nagent and the bare loop sync as often (two a turn). The CPU time of commands counts for the bare loop",
        spread(&bench.sync_cost())
    );
    println!(
        "alone: nagent's belong to a supervisor that outlives it. Private memory counts what no other process maps."
    );
    println!(
        "Shell of nagent and of the bare loop: {}.\n",
        options.shell.as_deref().unwrap_or("nagent's own choice, bash where there is one")
    );
    for line in HEAD {
        println!("{line}");
    }
    for (turns, rounds) in [(0, options.rounds), (20, options.rounds), (200, options.few)] {
        let title = format!("{turns} turns");
        let runs = rounds_of(bench, turns, rounds, None);
        rows(&title, &runs);
        if turns == 200 {
            growth(&runs);
        }
    }
    match bench.make_conversation("big", 10 << 20) {
        Err(error) => println!("\nConversation of 10 MB: not taken: {error}"),
        Ok(size) => {
            println!("\nWith a conversation of {} MB before the run:\n", short(size as f64 / 1e6));
            for line in HEAD {
                println!("{line}");
            }
            for turns in [0, 20] {
                rows(&format!("{turns} turns"), &rounds_of(bench, turns, options.few, Some("big")));
            }
        }
    }
    deltas(bench, options.few);
}

const HEAD: [&str; 2] = [
    "| run | client | exec → first request | reply → next request | last reply → exit | CPU | peak MB | private MB | bytes first → last | start ÷ curl | turn ÷ bare loop |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
];

/// The runs of all clients, in rounds.
#[derive(Default)]
struct Runs {
    nagent: Vec<Sample>,
    floor: Vec<Sample>,
    curl: Vec<Sample>,
    complaints: Vec<String>,
}

fn rounds_of(bench: &Bench, turns: usize, rounds: usize, from: Option<&str>) -> Runs {
    let (replies, one) = (script(turns, 1), script(0, 1));
    let body = bench.folder.join("body.json");
    let mut runs = Runs::default();
    for round in 0..rounds {
        let name = format!("run-{turns}-{round}-{}", from.unwrap_or("new"));
        let taken = from
            .map_or(Ok(()), |from| bench.copy(from, &name))
            .and_then(|()| bench.nagent(&replies, &name, &["go on"]))
            .and_then(|nagent| {
                let floor = bench.floor(&replies, &nagent)?;
                std::fs::write(&body, &nagent.first_body).map_err(|error| error.to_string())?;
                Ok((bench.curl(&one, &body)?, floor, nagent))
            });
        let _ = std::fs::remove_file(bench.conversation(&name));
        match taken {
            Ok((curl, floor, nagent)) => {
                runs.curl.push(curl);
                runs.floor.push(floor);
                runs.nagent.push(nagent);
            }
            Err(error) => runs.complaints.push(format!("round {round}: {error}")),
        }
    }
    runs
}

fn rows(title: &str, runs: &Runs) {
    let each =
        |runs: &[Sample], figure: fn(&Sample) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
    let start = |runs: &[Sample]| each(runs, |run| run.start);
    let turn = |runs: &[Sample]| {
        runs.iter()
            .filter(|run| !run.gaps.is_empty())
            .map(|run| mean(&run.gaps))
            .collect::<Vec<_>>()
    };
    for (client, samples) in
        [("nagent", &runs.nagent), ("bare loop", &runs.floor), ("curl", &runs.curl)]
    {
        let Some(last) = samples.last() else {
            println!("| {title} | {client} | not taken | | | | | | | | |");
            continue;
        };
        let memory = |figure: fn(&Sample) -> Option<f64>| {
            let seen: Vec<f64> = samples.iter().filter_map(figure).collect();
            if seen.is_empty() { "not seen".to_owned() } else { spread(&seen) }
        };
        println!(
            "| {title} | {client} | {} | {} | {} | {} | {} | {} | {} → {} | {} | {} |",
            spread(&start(samples)),
            spread(&turn(samples)),
            spread(&each(samples, |run| run.exit)),
            spread(&each(samples, |run| run.cpu)),
            memory(|run| run.peak),
            memory(|run| run.private),
            last.first_bytes,
            last.last_bytes,
            ratio(&start(samples), &start(&runs.curl)),
            ratio(&turn(samples), &turn(&runs.floor)),
        );
    }
    for complaint in &runs.complaints {
        println!("| {title} | | {complaint} | | | | | | | |");
    }
}

/// How a turn's time grows within a run of 200.
fn growth(runs: &Runs) {
    println!();
    for (client, samples) in [("nagent", &runs.nagent), ("bare loop", &runs.floor)] {
        let part = |range: std::ops::Range<usize>| {
            samples
                .iter()
                .filter_map(|run| run.gaps.get(range.clone()).map(mean))
                .collect::<Vec<_>>()
        };
        // The gap at index n is turn n + 1: the first one is the first turn's.
        let (early, late) = (part(1..11), part(189..199));
        println!(
            "Growth, {client}: turns 2–11 {}, turns 190–199 {}, {}.",
            spread(&early),
            spread(&late),
            ratio(&late, &early)
        );
    }
}

/// What a streamed delta costs: a reply of the same text in one piece and in 5,000.
fn deltas(bench: &Bench, rounds: usize) {
    const MANY: usize = 5000;
    println!();
    let (one, many) = (script(0, 2), script(0, MANY));
    let body = bench.folder.join("body.json");
    let (mut nagent, mut curl) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let cost = |few: Sample, lots: Sample| (lots.wall - few.wall) * 1000.0 / (MANY - 2) as f64;
        let name = |kind: &str| format!("delta-{kind}-{round}");
        let taken = bench.nagent(&one, &name("one"), &["go on"]).and_then(|few| {
            std::fs::write(&body, &few.first_body).map_err(|error| error.to_string())?;
            nagent.push(cost(few, bench.nagent(&many, &name("many"), &["go on"])?));
            curl.push(cost(bench.curl(&one, &body)?, bench.curl(&many, &body)?));
            Ok(())
        });
        if let Err(error) = taken {
            println!("Streamed deltas: not taken: {error}");
            return;
        }
    }
    println!(
        "One streamed delta, in µs (a reply of 25 KB in 5,000 pieces less the same in 2): nagent {}, curl {}.",
        spread(&nagent),
        spread(&curl)
    );
}
