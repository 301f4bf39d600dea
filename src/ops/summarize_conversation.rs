//! Summarizes the conversation. It takes no lock, appends nothing and creates no files in the root but the cached summaries.

use super::call::Call;
use super::progress_line::{ProgressLine, Unit};
use super::summaries::{self, Writers};
use crate::out::Report;
use crate::problem::Problem;
use crate::segments::conversation_summary::ConversationSummarizer;
use crate::sys::conversation_file::ConversationFile;

/// The summary, and the tokens that it took.
pub fn summarize_conversation(call: &Call<'_>) -> Result<Report, Problem> {
    let folder = call.folder()?;
    let journal = ConversationFile::read_only(call.root(), &call.name)?;
    let writers = Writers {
        tool: call.tool,
        settings: &call.settings,
        env: &call.env,
        folder: &folder,
        interrupts: &call.interrupts,
    };
    let voice = || writers.connect();
    let tell = |note: &str| writers.print_line(&format!("note: {note}"));
    let summarizer =
        ConversationSummarizer::new(summaries::rules(&writers, &voice, &tell, summaries::JOBS));
    let mut line = ProgressLine::new(call.tool);
    let mut progress = |done, all| {
        if !call.quiet {
            line.show_progress(done, all, Unit::Count("parts"));
        }
    };
    let result = summarizer.summarize(&call.name, journal.text(), journal.pieces(), &mut progress);
    drop(line);
    let report = match result {
        Ok(summary) => {
            let (provider, model) = summary.by.unzip();
            Report::done(summary.text.clone())
                .with("summary", summary.text)
                .with("provider", provider)
                .with("model", model)
        }
        Err(failure) => Report::failed(failure.exit, failure.message),
    };
    let path = journal.path().display().to_string();
    Ok(summaries::with_totals(report.with("conversation_path", path), &summarizer.totals()))
}
