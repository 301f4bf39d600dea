//! What cannot run everywhere, or takes minutes: `make torture`.
//!
//! Each part is a file. It needs what its head says (root, strace, loop devices, namespaces, bwrap), and fails where that is
//! missing: a case that cannot run is a failed case. A part writes its figures into a table with what was to be reached;
//! the run fails when one was not. Arguments name the parts to run; none: all. It stands on the ground of the tests.
#![expect(clippy::disallowed_methods, reason = "tests make the world that the executables run in")]
#![expect(clippy::unwrap_used, reason = "in a test, an unwrap is an assertion")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![allow(dead_code, unused_imports, reason = "each part takes what it needs of the common ground")]

#[path = "../it/answers.rs"]
mod answers;
#[path = "../it/blocks.rs"]
mod blocks;
#[path = "../it/fake_llm.rs"]
mod fake_llm;
#[path = "../it/process_under_test.rs"]
mod process_under_test;
#[path = "../it/sandbox.rs"]
mod sandbox;
#[path = "../it/wire.rs"]
mod wire;

mod figures; // the table
mod probes; // ways out of the walls

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use figures::Figures;

/// A part: its name, what it does, and how.
type Part = (&'static str, &'static str, fn(&mut Figures));

/// All parts, in the order in which they run.
const PARTS: &[Part] =
    &[("probes", "ways out of the walls, without them and within, as root and as nobody", probes::run)];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((word, words)) = words.split_first()
        && word == "--probe"
    {
        return probes::inside(words);
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
    println!("{figures}");
    if figures.reached() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
