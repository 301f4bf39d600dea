//! Runs a part in a mount namespace of its own, as another process: needs root and `unshare`.
//!
//! The process is this executable again; its figures come back as lines of JSON.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::figures::Figures;

const VARIABLE: &str = "NAGENT_TORTURE_INSIDE";

/// What a part that runs inside tells.
#[derive(Default)]
pub(crate) struct Told(());

impl Told {
    pub(crate) fn exactly(&mut self, what: &str, got: usize, wanted: usize) {
        println!("{}", json!({"what": what, "got": got, "wanted": wanted}));
    }

    pub(crate) fn miss(&mut self, why: &str) {
        println!("{}", json!({"miss": why}));
    }
}

/// Whether this process is the one inside.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs the part inside, or hands the part's figures on.
pub(crate) fn run(part: &str, figures: &mut Figures, work: fn(&mut Told)) {
    if is_inside() {
        work(&mut Told::default());
        return;
    }
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .arg(part);
    let child = command.env(VARIABLE, "1").stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return figures.miss(format!("cannot start unshare: {error}")),
    };
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match serde_json::from_str::<Value>(&line) {
            Ok(Value::Object(told)) => match told.get("miss").and_then(Value::as_str) {
                Some(why) => figures.miss(why.to_owned()),
                None => {
                    let number = |key: &str| usize::try_from(told[key].as_u64().unwrap()).unwrap();
                    figures.exactly(
                        told["what"].as_str().unwrap(),
                        number("got"),
                        number("wanted"),
                    );
                }
            },
            _ => println!("  {line}"),
        }
    }
    let status = child.wait().unwrap();
    if !status.success() {
        figures.miss(format!("inside: {status}"));
    }
}

/// Runs a program of the system; what it said is the error.
pub(crate) fn system(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{words:?}: {said}")) }
}
