//! `--summarize`: a summary of the conversation on stdout. A look: no lock, nothing appended, no root made.

use super::Call;
use crate::cmd::progress_line::{Line, Unit};
use crate::cmd::summaries::{self, Writers};
use crate::out::Report;
use crate::problem::Problem;
use crate::segments::conversation_summary::ConversationSummarizer;
use crate::sys::conversation_file::ConversationFile;

/// The summary, and what it cost.
pub(super) fn report(call: &Call<'_>) -> Result<Report, Problem> {
    let folder = call.env.folder.clone().map_err(Problem::usage)?;
    let journal = ConversationFile::read_only(&call.settings.root.value, &call.name)?;
    let writers = Writers {
        tool: "nagent",
        settings: &call.settings,
        env: call.env,
        folder: &folder,
        interrupts: call.interrupts,
    };
    let voice = || writers.voice();
    let tell = |note: &str| writers.tell(&format!("note: {note}"));
    let summarizer =
        ConversationSummarizer::new(summaries::rules(&writers, &voice, &tell, summaries::JOBS));
    let mut line = Line::new("nagent");
    let mut progress = |done, all| {
        if !call.quiet {
            line.at(done, all, Unit::Count("parts"));
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
