//! Times of a first look, a later look and a look after one more commit, beside `git log --follow` and a process start.
//! Rounds go through all of them in turn, so that what the host does to one it does to the others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::repository::{self, git};
use crate::stats::{ratio, spread};
use crate::usage;

/// Measures, and prints a table for each number of commits.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (mut commits, mut rounds, mut command) = (vec![1000, 50_000], 7, None);
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match *option {
            "--commits" => commits = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--rounds" => rounds = number(value)?,
            "--command" => command = Some(value.split_whitespace().map(str::to_owned).collect()),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    let command: Vec<String> = match command {
        Some(command) => command,
        None => {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            vec![own.to_string_lossy().into_owned(), "look".to_owned()]
        }
    };
    for commits in commits {
        table(commits, rounds, &command)?;
    }
    Ok(())
}

fn table(commits: u64, rounds: u64, command: &[String]) -> Result<(), String> {
    let base = std::env::temp_dir().join(format!("nagent-bench-history-{}", std::process::id()));
    let made = measure(&base, commits, rounds, command);
    let _ = std::fs::remove_dir_all(&base);
    made
}

fn measure(base: &Path, commits: u64, rounds: u64, command: &[String]) -> Result<(), String> {
    let folder = base.join("work");
    repository::make(&folder, commits)?;
    let base = base.canonicalize().map_err(|error| error.to_string())?;
    let folder = base.join("work");
    println!("\n{commits} commits, {rounds} rounds; milliseconds, median and range\n");
    println!(
        "| file | git log --follow | first look | by git | later look | process start | one commit later |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for file in repository::FILES {
        let mut columns: [Vec<f64>; 5] = Default::default();
        for round in 0..rounds {
            let root = base.join(format!("root-{round}"));
            let look = |root: &Path| {
                let mut look = Command::new(&command[0]);
                look.args(&command[1..]).arg("--file").arg(folder.join(file));
                look.arg("--root").arg(root).env("HOME", &base);
                look
            };
            let mut log = git(&folder);
            log.args(["log", "--follow", "--format=%H", "--", file]);
            columns[0].push(time(log)?);
            columns[1].push(time(look(&root))?);
            columns[2].push(time(look(&root))?);
            let mut start = Command::new(&command[0]);
            start.arg("--version");
            columns[3].push(time_of_any(start)?);
            one_more(&folder, round, file)?;
            columns[4].push(time(look(&root))?);
            std::fs::remove_dir_all(&root).map_err(|error| error.to_string())?;
        }
        println!(
            "| {file} | {} | {} | {} | {} | {} | {} |",
            spread(&columns[0]),
            spread(&columns[1]),
            ratio(&columns[1], &columns[0]),
            spread(&columns[2]),
            spread(&columns[3]),
            spread(&columns[4])
        );
    }
    Ok(())
}

/// Adds a commit that changes the file.
fn one_more(folder: &Path, round: u64, file: &str) -> Result<(), String> {
    let path: PathBuf = folder.join(file);
    let mut text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    text.push_str(&format!("one more {round}\n"));
    std::fs::write(&path, text).map_err(|error| error.to_string())?;
    let mut commit = git(folder);
    commit.args(["-c", "user.name=A", "-c", "user.email=a@x", "-c", "gc.auto=0"]);
    commit.args(["commit", "--quiet", "-am", "One more"]);
    time(commit).map(|_| ())
}

/// How long a command takes from start to end, in milliseconds; its output is not read.
fn time(command: Command) -> Result<f64, String> {
    let name = format!("{command:?}");
    let (code, time) = timed(command)?;
    if code == 0 { Ok(time) } else { Err(format!("{name}: exit {code}")) }
}

fn time_of_any(command: Command) -> Result<f64, String> {
    timed(command).map(|(_, time)| time)
}

fn timed(mut command: Command) -> Result<(i32, f64), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let ended = usage::wait(child.id())?;
    Ok((ended.code, begin.elapsed().as_secs_f64() * 1000.0))
}
