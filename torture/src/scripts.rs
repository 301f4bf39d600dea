//! The figures of what has a script of its own: fuzz targets and mutants. Needs g++; takes minutes, the mutants twenty.

use std::process::{Command, Stdio};

use crate::figures::Figures;
use crate::ground;

/// Every parser on made-up bytes. `SECONDS=600` goes on for longer.
pub(crate) fn fuzz(figures: &mut Figures) {
    let seconds = ground::number("SECONDS", 30).to_string();
    let (said, is_green) = run("fuzz/run", &[&seconds]);
    let rows = said.lines().skip_while(|line| !line.starts_with("target "));
    let rows: Vec<&str> = rows.skip(1).filter(|line| !line.trim().is_empty()).collect();
    figures.at_least("fuzz targets", rows.len(), 17);
    figures.exactly("of them stumbled", rows.iter().filter(|row| !row.ends_with("ok")).count(), 0);
    if !is_green {
        figures.miss(format!("fuzz/run failed:\n{said}"));
    }
}

/// The safety code broken, one place at a time.
pub(crate) fn mutants(figures: &mut Figures) {
    let (said, is_green) = run("mutants/run", &[]);
    let count = said.lines().rev().find_map(|line| line.strip_suffix(" killed"));
    let (killed, all) = count.and_then(|count| count.split_once(" of ")).unwrap_or(("0", "0"));
    let number = |word: &str| word.parse::<usize>().unwrap_or(0);
    figures.at_least("mutants", number(all), 25);
    figures.exactly("mutants that the tests did not see", number(all) - number(killed), 0);
    if !is_green {
        let wrong = said.lines().filter(|line| !line.ends_with(": killed"));
        figures.miss(format!("mutants/run failed:\n{}", wrong.collect::<Vec<_>>().join("\n")));
    }
}

/// What a script of the project printed, and whether it went well.
fn run(script: &str, arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new(format!("{}/../{script}", env!("CARGO_MANIFEST_DIR")));
    let out = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let out = out.unwrap_or_else(|error| panic!("{script} cannot be started: {error}"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    println!("{said}");
    (said, out.status.success())
}
