//! `nagent --compact`: makes a conversation shorter now, or says what that would do; and writes a run's checkpoints.

use super::call::Call;
use crate::drive::compaction::{self, Payer, WriteCheckpoint};
use crate::drive::describe_compaction;
use crate::ops::files::summaries::{self, Writers};
use crate::ops::screen::spinner::Spinner;
use crate::out::Report;
use conversation::compact::plan::Plan;
use conversation::compact::token_estimate::TokenEstimate;
use conversation::limits::UNKNOWN_WINDOW;
use conversation::problem::Problem;
use segments::conversation_summary::write_checkpoint;
use segments::summary_queue::{SummaryQueue, SummaryRules};

/// The model that writes checkpoints: that of the run.
pub(crate) fn checkpoint_writer<'a>(
    call: &'a Call<'_>,
    model: &str,
    shows_progress: bool,
) -> WriteCheckpoint<'a> {
    let settings = call.settings.for_summaries(Some(model));
    Box::new(move |name, text, words, tokens_per_byte| {
        let spinner = Spinner::new(shows_progress);
        let Call { tool, env, interrupts, .. } = call;
        let writers = Writers { tool, settings: &settings, env, interrupts, spinner: &spinner };
        // Not from the cache, which may have a checkpoint that was rejected before.
        let rules = SummaryRules { again: true, ..writers.rules(summaries::JOBS) };
        let queue = SummaryQueue::new(rules);
        let written = spinner.during("compacting the conversation", || {
            write_checkpoint(&queue, name, text, words, tokens_per_byte)
        });
        (written, queue.totals().usage)
    })
}

/// The smallest window that is assumed for a conversation, in tokens.
const SMALL: u64 = 8000;

/// Compacts the conversation of a call.
pub(crate) fn compact_now(call: &Call<'_>) -> Result<Report, Problem> {
    let model = call.settings.config.model.clone().unwrap_or_default();
    let window = find_window(call, &model).unwrap_or(UNKNOWN_WINDOW);
    let mut journal = call.open_conversation(&call.name)?;
    let tokens = TokenEstimate::from_pieces(journal.pieces()).tokens_of_all(journal.text().len());
    // As if the window were full: who asks for it does not wait for that.
    let size = window.min(tokens.max(SMALL));
    let write = checkpoint_writer(call, &model, call.shows_progress);
    let outputs = call.root().outputs_folder();
    let price = call.settings.price(&model);
    let payer = Payer { model: &model, price: price.as_ref() };
    let (result, usage) = compaction::compact_now(&mut journal, &outputs, size, &write, &payer);
    let report = match result {
        Err(problem) => {
            let why = format!("{} was not compacted (unchanged): {problem}", call.name);
            Report::failed(problem.exit, format!("conversation {why}"))
        }
        Ok(None) => {
            let text = format!(
                "nothing to compact: about {tokens} tokens, and older turns would not get shorter"
            );
            report(call, text, None, tokens)
        }
        Ok(Some(done)) => {
            let archive = call.root().conversation(&done.archive).display().to_string();
            let text = describe_compaction(&done);
            report(call, text, Some(&done.plan), done.tokens).with("archived_path", archive)
        }
    };
    // Report the cost on failure, too.
    Ok(report.with_usage(&usage).with("cost", payer.cost(&usage)))
}

/// The window of the model: from the settings, else from the server's list, if there is one.
fn find_window(call: &Call<'_>, model: &str) -> Option<u64> {
    let listed = || {
        let mut client = call.settings.connect_client(&call.env, true).ok()?;
        client.find_window(model, &call.interrupts)
    };
    call.settings.window(model).or_else(listed)
}

fn report(call: &Call<'_>, text: String, plan: Option<&Plan>, tokens: u64) -> Report {
    let turns = plan.and_then(|plan| plan.condensed.turns);
    Report::wrapped(&text)
        .with("conversation_path", call.root().conversation(&call.name).display().to_string())
        .with("compacted", plan.is_some())
        .with("long_results", plan.map_or(0, |plan| plan.condensed.pointers))
        .with("checkpoint_turns", turns.map(|(first, last)| vec![first, last]))
        .with("tokens_before", plan.map_or(tokens, |plan| plan.before))
        .with("tokens_after", tokens)
}
