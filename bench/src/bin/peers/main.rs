//! nagent beside curl and other programs that talk to models: start, time of a turn, exit, CPU, memory, bytes, against one
//! scripted model on loopback.
//!
//! `nagent-bench-peers --nagent PATH [--rounds N]` prints a Markdown table. Of aichat, llm, codex and pi those are measured
//! that are on the PATH; the others are named. Each has a home of its own below a temporary folder and is set up as its
//! documentation says for a server of one's own, so that nothing leaves the machine; a turn is `true`, run by its own tool.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

mod client;
#[path = "../../process.rs"]
mod process;
#[path = "../../server.rs"]
mod server;
#[path = "../../stats.rs"]
mod stats;
#[path = "../../usage.rs"]
mod usage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use client::{CLIENTS, Client};
use process::Sample;
use server::Server;
use stats::{mean, ratio, short, spread};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut nagent, mut rounds) = (PathBuf::new(), 5);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        match (flag.as_str(), value.parse()) {
            ("--nagent", _) => nagent = value.into(),
            ("--rounds", Ok(number)) => rounds = number,
            _ => {
                eprintln!("nagent-bench-peers: give --nagent PATH and, if you like, --rounds N");
                return ExitCode::FAILURE;
            }
        }
    }
    let folder = std::env::temp_dir().join(format!("nagent-bench-peers-{}", std::process::id()));
    let done = measure(&nagent, rounds, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagent-bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The runs of a client: without a turn, of 20 and of 200; and why there are none.
#[derive(Default)]
struct Runs {
    version: String,
    none: Vec<Sample>,
    some: Vec<Sample>,
    many: Vec<Sample>,
    complaint: Option<String>,
}

fn measure(nagent: &Path, rounds: usize, folder: &Path) -> Result<(), String> {
    let say = |error: std::io::Error| format!("{}: {error}", folder.display());
    let nagent = nagent.canonicalize().map_err(|error| format!("{}: {error}", nagent.display()))?;
    let server = Server::start().map_err(say)?;
    let mut missing = Vec::new();
    let mut found: Vec<(&Client, Runs)> = Vec::new();
    for client in &CLIENTS {
        let home = folder.join(client.name);
        std::fs::create_dir_all(home.join("work")).map_err(say)?;
        (client.set_up)(&home, server.port).map_err(say)?;
        match client.version(&nagent, &home) {
            Some(version) => found.push((client, Runs { version, ..Runs::default() })),
            None => missing.push(client.name),
        }
    }
    for round in 0..=rounds {
        for (client, runs) in &mut found {
            // The first round fills caches, and is not counted.
            let take = |turns: usize| {
                let home = folder.join(client.name);
                server.script(&client.script(turns));
                let command =
                    client.command(&nagent, &home, server.port, &format!("{round}-{turns}"));
                process::run(&server, command, turns + 1)
            };
            let taken = take(0).and_then(|none| {
                let loops = client.turn.is_some();
                let some = loops.then(|| take(20)).transpose()?;
                // One in three: they take long.
                let many = (loops && round % 3 == 1).then(|| take(200)).transpose()?;
                if round > 0 {
                    runs.none.push(none);
                    runs.some.extend(some);
                    runs.many.extend(many);
                }
                Ok(())
            });
            if let Err(error) = taken {
                runs.complaint = Some(error);
            }
        }
    }
    print_table(&found, &missing);
    Ok(())
}

fn print_table(found: &[(&Client, Runs)], missing: &[&str]) {
    println!(
        "Scripted model on loopback, thinking for 0 ms. Milliseconds: median (least–most). Memory is that of the"
    );
    println!("process that is started, at the last request of 20 turns.\n");
    println!(
        "| client | exec → first request | turn, of 20 | turn, of 200 | last reply → exit | CPU, 20 turns | peak MB | private MB | bytes first → last, 20 turns | turn ÷ nagent's |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let turns = |runs: &[Sample]| runs.iter().map(|run| mean(&run.gaps)).collect::<Vec<_>>();
    let ours = found.iter().find(|(client, _)| client.name == "nagent");
    let ours = ours.map(|(_, runs)| turns(&runs.some)).unwrap_or_default();
    for (client, runs) in found {
        let name = format!("{} {}", client.name, runs.version);
        if let (Some(complaint), true) = (&runs.complaint, runs.none.is_empty()) {
            println!("| {name} | not taken: {complaint} | | | | | | | |");
            continue;
        }
        // What does not loop has its one request.
        let whole = if runs.some.is_empty() { &runs.none } else { &runs.some };
        let of = |runs: &[Sample], figure: fn(&Sample) -> f64| {
            spread(&runs.iter().map(figure).collect::<Vec<_>>())
        };
        let memory = |figure: fn(&Sample) -> Option<f64>| {
            let seen: Vec<f64> = whole.iter().filter_map(figure).collect();
            if seen.is_empty() { "–".to_owned() } else { short(stats::median(&seen)) }
        };
        let last = whole.last();
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} → {} | {} |",
            of(&runs.none, |run| run.start),
            spread(&turns(&runs.some)),
            spread(&turns(&runs.many)),
            of(&runs.none, |run| run.exit),
            of(whole, |run| run.cpu),
            memory(|run| run.peak),
            memory(|run| run.private),
            last.map_or(0, |run| run.first_bytes),
            last.map_or(0, |run| run.last_bytes),
            if runs.some.is_empty() { "–".to_owned() } else { ratio(&turns(&runs.some), &ours) },
        );
        if let Some(complaint) = &runs.complaint {
            println!("| | a run failed: {complaint} | | | | | | | |");
        }
    }
    if !missing.is_empty() {
        println!("\nNot installed, so not measured: {}.", missing.join(", "));
    }
}
