//! Summarises a file, by way of its segments where it is large, for `nagent-file-summarize`.

use serde_json::{Value, json};

use super::refuse_hidden_link;
use super::summaries::{self, Writers};
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::{InputArgs, ModelArgs};
use crate::ops::setup::settings::Settings;
use crate::out::{self, Report};
use conversation::problem::Problem;
use segments::file_summary::{self, FileSummary};
use segments::summary_queue::{SummaryQueue, SummaryRules};
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;

/// Print a summary of a file, by way of segments when it is large
///
/// Summaries are cached by the hash of the text, so that the same content is not paid for again.
#[derive(Debug, Clone, clap::Parser)]
pub struct FileSummaryArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Ask for at most N summaries at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
    /// Reject a summary of more than N words [default: no limit; about 300 are asked for]
    #[arg(long, value_name = "N", visible_alias = "max-words", alias = "max-word-count",
        value_parser = clap::value_parser!(u64).range(1..))]
    limit_word_count: Option<u64>,
    /// Ask again, and replace the cached summaries
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Prints the summary; the JSON has also its segments and its cost.
pub fn summarize_file(tool: &'static str, args: &FileSummaryArgs) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    refuse_hidden_link(args.input.path(), &env)?;
    let input = InputFile::open(args.input.path(), &interrupts)?;
    let path = env.absolute_path(input.path())?;
    let path = fs::real_path(&path).unwrap_or(path);
    let settings = Settings::resolve(&args.model, &env)?;
    let (settings, env, interrupts) = (&settings, &env, &interrupts);
    let spinner = &Spinner::new(true);
    let writers = Writers { tool, settings, env, interrupts, spinner };
    out::print_notes(tool, &settings.notes);
    let queue = SummaryQueue::new(SummaryRules {
        words: args.limit_word_count,
        again: args.again,
        ..writers.rules(usize::from(args.jobs))
    });
    let progress = |done, all| spinner.set_note(format!(", {done} of {all} segments"));
    let result = spinner.during("model", || file_summary::summarize_file(&queue, &path, &progress));
    let report = match result {
        Ok(done) => report(&done),
        Err(problem) => Report::from(problem),
    };
    let named = if input.is_copy() { args.input.path() } else { &path };
    let report = report.with("file", named.display().to_string());
    Ok(summaries::with_totals(report, &queue.totals()))
}

fn report(done: &FileSummary) -> Report {
    let (provider, model) = done.summary.by.clone().unzip();
    let report = Report::done(done.summary.text.clone())
        .with("mode", if done.index.is_some() { "split" } else { "inline" })
        .with("size_bytes", done.bytes)
        .with("summary", done.summary.text.clone())
        .with("provider", provider)
        .with("model", model);
    let Some(index) = &done.index else { return report };
    // Their files are gone.
    let mut segments = json!(index.segments);
    for segment in segments.as_array_mut().into_iter().flatten() {
        segment["path"] = Value::Null;
    }
    report.with("segment_count", index.segments.len()).with("segments", segments)
}
