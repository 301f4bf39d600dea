//! Summarizes the conversation. It takes no lock, appends nothing and creates no files in the root but the cached summaries.

use super::summaries::{self, Writers};
use crate::ops::run::call::Call;
use crate::ops::screen::spinner::Spinner;
use crate::out::Report;
use conversation::problem::Problem;
use segments::conversation_summary;
use segments::summary_queue::SummaryQueue;
use sys::conversation_file::ConversationFile;

/// The summary, and the tokens that it took.
pub fn summarize_conversation(call: &Call<'_>) -> Result<Report, Problem> {
    let journal = ConversationFile::read_only(call.root(), &call.name)?;
    let Call { tool, settings, env, interrupts, .. } = call;
    let spinner = &Spinner::new(call.shows_progress);
    let writers = Writers { tool, settings, env, interrupts, spinner };
    let queue = SummaryQueue::new(writers.rules(summaries::JOBS));
    let progress = |done, all| spinner.set_note(format!(", {done} of {all} parts"));
    let (name, text, pieces) = (&call.name, journal.text(), journal.pieces());
    let result = spinner.during("model", || {
        conversation_summary::summarize_conversation(&queue, name, text, pieces, &progress)
    });
    let report = match result {
        Ok(summary) => {
            let (provider, model) = summary.by.unzip();
            Report::done(summary.text.clone())
                .with("summary", summary.text)
                .with("provider", provider)
                .with("model", model)
        }
        Err(problem) => Report::from(problem),
    };
    let path = journal.path().display().to_string();
    Ok(summaries::with_totals(report.with("conversation_path", path), &queue.totals()))
}
