//! Splits a large file into segments, for `nagent-file-split`, and has them summarised if requested.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use serde_json::Value;

use super::refuse_hidden_link;
use super::summaries::{self, Writers};
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::{ModelArgs, parse_bytes};
use crate::ops::setup::settings::Settings;
use crate::out::{self, Report};
use code::language::{Language, NAMES};
use conversation::format::numbers::format_bytes;
use conversation::problem::Problem;
use segments::file_summary::summarize_segments;
use segments::split::{self, Split, SplitHooks, SplitRequest};
use segments::summary_queue::SummaryQueue;
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::names::expand_home;

/// Cut a large file into segments, at the boundaries of its structure
///
/// Joined in order, the segments are the file, byte for byte. An index.json beside them says where each comes from.
/// Edit segments in place; nagent-file-patch puts them back.
#[derive(Debug, Clone, clap::Parser)]
pub struct SplitArgs {
    /// The file to split
    #[arg(value_name = "FILE", required_unless_present_any = ["file", "refresh"], value_hint = ValueHint::FilePath)]
    path: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE", conflicts_with = "path", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Write the segments to this folder, which is new, empty, or of an earlier split of the file [default: a new one in $TMPDIR or /tmp, for you alone]
    #[arg(long, value_name = "DIR", conflicts_with = "refresh")]
    output: Option<PathBuf>,
    /// Make segments of this many bytes at most, as in 32K; at least 16
    #[arg(long, value_name = "N", default_value_t = split::TARGET, conflicts_with = "refresh",
        value_parser = |text: &str| parse_bytes(text, split::LEAST_TARGET, u64::MAX))]
    target_bytes: u64,
    /// Cut as this type [default: by name and content]
    #[arg(long, value_name = "TYPE", visible_alias = "type", conflicts_with = "refresh", value_parser = parse_language)]
    split: Option<Language>,
    /// Cut at every natural boundary, not only where a segment is full
    #[arg(long, conflicts_with = "refresh")]
    natural: bool,
    /// Split the file of this index.json (or of the one in this folder) again, as it says, in its folder
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["file", "path"])]
    refresh: Option<PathBuf>,
    /// Ask a model for a summary of each segment and of the whole, into the index
    #[arg(long)]
    summarize: bool,
    /// Ask for at most N summaries at the same time
    #[arg(long, value_name = "N", default_value_t = 4, requires = "summarize",
        value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
    #[command(flatten)]
    model: ModelArgs,
}

/// Finds the type of a word of `--split`.
fn parse_language(word: &str) -> Result<Language, String> {
    Language::from_name(word).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(_, names, _)| names[0]).collect();
        format!("unknown type; one of {}", names.join(", "))
    })
}

/// Splits the file, or splits the file of an index again, and reports the index.
pub fn split_file(tool: &'static str, args: &SplitArgs) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let home = env.home_folder();
    let expand = |path: &PathBuf| expand_home(path, home.as_deref());
    let spinner = Spinner::new(true);
    spinner.start("split");
    let mut hooks = SplitHooks {
        stop: &|| interrupts.pending().is_some(),
        progress: &mut |done, of| {
            spinner.set_note(format!(", {} of {}", format_bytes(done), format_bytes(of)));
        },
    };
    let result = match (&args.refresh, args.path.as_ref().or(args.file.as_ref())) {
        (Some(index), _) => split::refresh(&expand(index), &mut hooks),
        (None, file) => {
            let source = file.map(expand).unwrap_or_default();
            refuse_hidden_link(&source, &env)?;
            let temp = || {
                let temp = env.get_os("TMPDIR").unwrap_or("/tmp".as_ref());
                Path::new(temp).join(split::default_folder_name(&source))
            };
            let output = args.output.as_ref().map_or_else(temp, expand);
            let request = SplitRequest {
                private: args.output.is_none(),
                language: args.split,
                target: args.target_bytes,
                natural: args.natural,
                ..SplitRequest::new(&source, &output)
            };
            split::split(&request, &mut hooks)
        }
    };
    spinner.stop();
    let mut split = result.map_err(|problem| match interrupts.pending() {
        Some(signal) => Problem::interrupted(signal),
        None => problem,
    })?;
    out::print_notes(tool, &split.notes);
    if !args.summarize {
        return Ok(report(&split));
    }
    // The split is kept also when the summaries fail; those that succeed are in the index.
    let settings = match Settings::resolve(&args.model, &env) {
        Ok(settings) => settings,
        Err(problem) => return Ok(report(&split).then(problem.into())),
    };
    let (settings, env, interrupts, spinner) = (&settings, &env, &interrupts, &spinner);
    let writers = Writers { tool, settings, env, interrupts, spinner };
    out::print_notes(tool, &settings.notes);
    let queue = SummaryQueue::new(writers.rules(usize::from(args.jobs)));
    let progress = |done, all| spinner.set_note(format!(", {done} of {all} segments"));
    let result = spinner.during("model", || summarize_segments(&queue, &mut split, &progress));
    let report = report(&split).then_try(|| result.map(|_| Report::done("")));
    Ok(summaries::with_totals(report, &queue.totals()))
}

/// The path of the index; in JSON also its content.
fn report(split: &Split) -> Report {
    let mut report = Report::keyed("index_path", split.index_path.display().to_string());
    if let Ok(Value::Object(index)) = serde_json::to_value(&split.index) {
        report.json.extend(index);
    }
    report
}
