//! Large files: how fast they are split and patched, and how well they are cut.
//!
//! - `nagent-bench-files speed --bin DIR [--rounds N] [--megabytes N,N]` prints Markdown tables: the tools in DIR beside
//!   `cat`, `sha256sum`, `diff -u` and a bare parse, on the same files in the same run.
//! - `nagent-bench-files quality [--target N] DIR…` cuts every text file below the folders that is larger than the target,
//!   in memory, and prints a table by type. It fails when a file does not come out byte for byte, or when a definition
//!   that fits was cut.
//! - `nagent-bench-files parse TYPE FILE` is the bare parse.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

mod quality;
mod speed;
#[path = "../../stats.rs"]
mod stats;
#[path = "../../usage.rs"]
mod usage;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == "speed" => speed::run(rest),
        Some((first, rest)) if first == "quality" => quality::run(rest),
        Some((first, rest)) if first == "parse" => speed::parse(rest),
        Some((first, rest)) if first == "generate" => speed::generate(rest),
        _ => Err("one of speed, quality, parse is needed".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagent-bench-files: {error}");
            ExitCode::FAILURE
        }
    }
}
