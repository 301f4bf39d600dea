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
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut commands = vec![vec![own.to_string_lossy().into_owned(), "look".to_owned()]];
    let (mut commits, mut rounds) = (vec![1000, 50_000], 7);
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match *option {
            "--commits" => commits = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--rounds" => rounds = number(value)?,
            "--command" => commands.push(command(value)?),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    for commits in commits {
        table(commits, rounds, &commands)?;
    }
    Ok(())
}

/// A program by its true path, since it is started in other folders, and its first words.
fn command(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let program = words.first_mut().ok_or("--command needs a program")?;
    let path = Path::new(program).canonicalize().map_err(|error| format!("{program}: {error}"))?;
    *program = path.to_string_lossy().into_owned();
    Ok(words)
}

fn table(commits: u64, rounds: u64, commands: &[Vec<String>]) -> Result<(), String> {
    let base = std::env::temp_dir().join(format!("nagent-bench-history-{}", std::process::id()));
    let made = measure(&base, commits, rounds, commands);
    let _ = std::fs::remove_dir_all(&base);
    made
}

fn measure(base: &Path, commits: u64, rounds: u64, commands: &[Vec<String>]) -> Result<(), String> {
    let folder = base.join("work");
    repository::make(&folder, commits)?;
    let base = base.canonicalize().map_err(|error| error.to_string())?;
    let folder = base.join("work");
    println!("\n{commits} commits, {rounds} rounds; milliseconds, median and range\n");
    println!(
        "| file | looked at by | git log --follow | first look | by git | later look | process start | one commit later |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for file in repository::FILES {
        let mut log: Vec<f64> = Vec::new();
        let mut columns: Vec<[Vec<f64>; 4]> = vec![Default::default(); commands.len()];
        for round in 0..rounds {
            let root = |at: usize| base.join(format!("root-{round}-{at}"));
            let look = |at: usize| {
                let mut look = Command::new(&commands[at][0]);
                look.args(&commands[at][1..]).arg("--file").arg(folder.join(file));
                look.arg("--root").arg(root(at)).env("HOME", &base).current_dir(&folder);
                look
            };
            let mut by_git = git(&folder);
            by_git.args(["log", "--follow", "--format=%H", "--", file]);
            log.push(time(by_git)?);
            for (at, columns) in columns.iter_mut().enumerate() {
                columns[0].push(time(look(at))?);
                columns[1].push(time(look(at))?);
                let mut start = Command::new(&commands[at][0]);
                start.arg("--version");
                columns[2].push(time_of_any(start)?);
            }
            one_more(&folder, round, file)?;
            for (at, columns) in columns.iter_mut().enumerate() {
                columns[3].push(time(look(at))?);
                std::fs::remove_dir_all(root(at)).map_err(|error| error.to_string())?;
            }
        }
        for (command, columns) in commands.iter().zip(&columns) {
            let name = Path::new(&command[0]).file_name().unwrap_or_default().to_string_lossy();
            println!(
                "| {file} | {name} | {} | {} | {} | {} | {} | {} |",
                spread(&log),
                spread(&columns[0]),
                ratio(&columns[0], &log),
                spread(&columns[1]),
                spread(&columns[2]),
                spread(&columns[3])
            );
        }
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
