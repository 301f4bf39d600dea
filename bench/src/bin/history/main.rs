//! A file's history beside `git log --follow`, on the same repository and file in one run.
//!
//! - `nagent-bench-history speed [--commits N,N] [--rounds N] [--command CMD]` makes repositories with `git fast-import`
//!   and prints a Markdown table for each. A look is this program itself, as `look`, and each CMD beside it: a program
//!   and its first words, to which `--file FILE --root ROOT` is added.
//! - `nagent-bench-history look --file FILE --root ROOT` looks once, and prints the figures.
//! - `nagent-bench-history make DIR COMMITS` makes a repository, to look at by hand.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

mod repository;
mod speed;
#[path = "../../stats.rs"]
mod stats;
#[path = "../../usage.rs"]
mod usage;

use std::path::Path;
use std::process::ExitCode;

use history::git;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["speed", rest @ ..] => speed::run(rest),
        ["look", "--file", file, "--root", root] => look(Path::new(file), Path::new(root)),
        ["make", folder, commits] => commits
            .parse()
            .map_err(|_| format!("{commits} is no number"))
            .and_then(|commits| repository::make(Path::new(folder), commits)),
        _ => Err("one of speed, look, make is needed".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nagent-bench-history: {error}");
            ExitCode::FAILURE
        }
    }
}

fn look(file: &Path, root: &Path) -> Result<(), String> {
    let cache = root.join("history");
    let look = git::read_history(file, &cache, git::REPORT_TIME, &mut || true);
    let Some(history) = look.history else { return Err(look.notes.join("; ")) };
    if !history.notes.is_empty() {
        return Err(history.notes.join("; "));
    }
    println!(
        "{} commits, {} people, {} co-changed files; {} commits read",
        history.commits.len(),
        history.people.len(),
        history.co_changed.len(),
        look.commits_read
    );
    if std::env::var_os("SHOW").is_some() {
        for commit in &history.commits {
            println!("{} {:?} {:?}", commit.id, commit.kind, commit.change);
        }
        for other in history.co_changed.iter().take(20) {
            println!("{} {}", String::from_utf8_lossy(&other.path), other.together);
        }
    }
    Ok(())
}
