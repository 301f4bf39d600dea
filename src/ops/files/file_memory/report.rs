//! `nagent-file-edit --file F --history`: all that a repository knows of a file, with the cached summaries. Asks no model.

use std::path::Path;

use super::commits;
use crate::ops::setup::settings::Settings;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::harmless::{escape_line, quote_name};
use conversation::problem::Problem;
use history::git;
use history::text::{self, Extent};
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;

/// Reports all that the repository knows of a file, as text and as JSON.
pub fn report_history(
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
    file: &Path,
) -> Result<Report, Problem> {
    let file = env.absolute_path(file)?;
    let file = fs::real_path(&file).unwrap_or(file);
    let root = &settings.root;
    let mut keep_waiting = || interrupts.pending().is_none();
    let lookup =
        git::read_history(&file, &root.history_folder(), git::REPORT_TIME, &mut keep_waiting);
    if let Some(signal) = interrupts.pending() {
        let message = format!("interrupted by {} while reading the history", signal.name());
        return Err(Problem::new(Exit::Signal(signal), message));
    }
    let Some(history) = lookup.history.filter(|history| !history.commits.is_empty()) else {
        let why = lookup.notes.join("; ");
        let message = format!("{} has no history: {why}", quote_name(&file));
        return Err(Problem::failed(message));
    };
    let (summaries, _) =
        commits::read_cached(&root.summaries_folder(), &history.commits, usize::MAX);
    let block = text::format_history(&history, &summaries, Extent::Whole);
    // A person does not need the marks of a block.
    let body = block.strip_prefix("{file-history}\n").unwrap_or(&block);
    let mut printed = body.strip_suffix("{/file-history}").unwrap_or(body).to_owned();
    for note in lookup.notes.iter().chain(&history.notes) {
        printed.push_str(&format!("\nnote: {}", escape_line(note, 500)));
    }
    Ok(Report::done(printed.clone())
        .with("file", file.display().to_string())
        .with("head", history.head.as_str())
        .with("history", printed))
}
