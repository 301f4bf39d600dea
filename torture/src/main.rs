//! What cannot run everywhere, or takes minutes: `make torture`.
//!
//! Each part is a file. It needs what its head says (root, strace, loop devices, namespaces, bwrap), and fails where that is
//! missing: a case that cannot run is a failed case. A part writes its figures into a table with what was to be reached;
//! the run fails when one was not. Arguments name the parts to run; none: all. It shares the helpers of `tests/it`.
#![expect(clippy::disallowed_methods, reason = "tests make the world that the executables run in")]
#![expect(clippy::unwrap_used, reason = "in a test, an unwrap is an assertion")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![allow(clippy::pedantic, reason = "probes of a kernel read better as they are called")]
#![allow(dead_code, unused_imports, reason = "each part takes what it needs of the common ground")]

#[path = "../../tests/it/answers.rs"]
mod answers;
#[path = "../../tests/it/blocks.rs"]
mod blocks;
#[path = "../../tests/it/durability.rs"]
mod durability;
#[path = "../../tests/it/fake_llm.rs"]
mod fake_llm;
#[path = "../../tests/it/injected.rs"]
mod injected;
#[path = "../../tests/it/process_under_test.rs"]
mod process_under_test;
#[path = "../../tests/it/sandbox.rs"]
mod sandbox;
#[path = "../../tests/it/server_faults.rs"]
mod server_faults;
#[path = "../../tests/it/soak.rs"]
mod soak;
#[path = "../../tests/it/wire.rs"]
mod wire;

mod figures; // the table
mod ground; // worlds that are put back
mod inside; // a mount namespace of its own

mod commands_in_sandbox; // what the sandbox lets through, and what not
mod crowd; // many writers on one conversation
mod disks; // full, read-only and limited disks
mod engine; // what the process of a script can still do
mod faults; // a fault at every system call
mod http; // faults of servers, by class
mod injections; // orders in documents, obeyed in the sandbox
mod kills; // kills at random instants
mod long; // a long run with a provider that fails
mod power; // power cuts
mod probes; // ways out of the sandbox
mod processes; // what ends with a run
mod put; // a program that replaces a file
mod races; // names that change places during writes
mod repositories; // repositories that are too much
mod scripts; // fuzz targets and mutants
mod states; // every state that a power cut may leave

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use figures::Figures;

/// A part: its name, what it does, and how.
type Part = (&'static str, &'static str, fn(&mut Figures));

/// All parts, in the order in which they run.
const PARTS: &[Part] = &[
    ("faults", "a fault at every system call of the operations that write", faults::run),
    ("kills", "kills at random instants of runs", kills::run),
    ("states", "every state that a power cut may leave, out of recorded calls", states::run),
    ("power", "power cuts on a file system of its own", power::run),
    ("disks", "full, read-only and limited disks", disks::run),
    ("crowd", "many writers at once", crowd::run),
    ("soak", "a long run with a provider that fails", long::run),
    (
        "processes",
        "time limits, kills, forks, output without end, shells by the thousand",
        processes::run,
    ),
    ("processes-plain-user", "kills, reads and typing as a plain user", processes::plain_user),
    ("sandbox", "what works in the sandbox, and what it leaves behind", commands_in_sandbox::run),
    (
        "probes",
        "ways out of the sandbox, without them and within, as root and as nobody",
        probes::run,
    ),
    ("js", "what the process of a script can still do, as root and as nobody", engine::run),
    ("injections", "what documents order, with the sandbox on", injections::run),
    ("races", "names that change places while they are written through", races::run),
    ("repositories", "repositories that are too much, or no files", repositories::run),
    ("http", "faults of servers through the executable, by class", http::run),
    ("fuzz", "every parser on made-up bytes", scripts::fuzz),
    ("mutants", "the safety code broken, one place at a time", scripts::mutants),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((word, words)) = words.split_first()
        && word == "--probe"
    {
        return probes::inside(words);
    }
    if let Some((word, words)) = words.split_first()
        && word == engine::FLAG
    {
        return engine::inside(words);
    }
    if let Some((word, words)) = words.split_first()
        && word == put::FLAG
    {
        return put::inside(words);
    }
    if crowd::member().is_some() {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for name in &wanted {
        if !PARTS.iter().any(|(known, ..)| known == name) {
            let known: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
            println!("there is no part {name}; there are: {}", known.join(", "));
            return ExitCode::from(2);
        }
    }
    let mut figures = Figures::default();
    for (name, about, run) in PARTS.iter().copied() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("{name}: {about}");
        let start = Instant::now();
        figures.part = name;
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(&mut figures))) {
            let why = cause.downcast_ref::<String>().map(String::as_str);
            let why = why.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            figures.miss(format!("it stopped: {why}"));
        }
        println!("{name}: {:.1} s\n", start.elapsed().as_secs_f64());
    }
    if inside::is_inside() {
        return if figures.has_misses() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    println!("{figures}");
    if figures.reached() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
