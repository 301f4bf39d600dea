//! `nagent --compact`: makes a conversation shorter now, or says what that would do; and writes a run's checkpoints.

use super::call::Call;
use crate::drive::compaction::{self, Payer, WriteCheckpoint};
use crate::drive::describe_compaction;
use crate::ops::files::summaries::{self, Writers};
use crate::ops::screen::spinner::Spinner;
use crate::out::Report;
use conversation::compact::plan::{Plan, plan_compaction};
use conversation::compact::token_estimate::TokenEstimate;
use conversation::format::numbers::format_count;
use conversation::limits::UNKNOWN_WINDOW;
use conversation::problem::Problem;
use segments::conversation_summary::write_checkpoint;
use segments::summary_plan::RequestSizes;
use segments::summary_queue::{SummaryQueue, SummaryRules};
use sys::conversation_file::ConversationFile;

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
        spinner.start("compacting the conversation");
        let written = write_checkpoint(&queue, name, text, words, tokens_per_byte);
        spinner.stop();
        (written, queue.totals().usage)
    })
}

/// Compacts the conversation of a call, or with `--dry-run` says what that would do.
pub(crate) fn compact_now(call: &Call<'_>) -> Result<Report, Problem> {
    let model = call.settings.config.model.clone().unwrap_or_default();
    let size = find_window(call, &model).unwrap_or(UNKNOWN_WINDOW);
    if call.which.dry_run {
        let journal = ConversationFile::read_only(call.root(), &call.name)?;
        let estimate = TokenEstimate::from_pieces(journal.pieces());
        let plan = plan_compaction(journal.text(), journal.pieces(), &estimate, size, true);
        let plan = plan.map_err(|why| Problem::failed(refusal(call, &why)))?;
        let tokens = estimate.tokens_of_all(journal.text().len());
        return Ok(report(call, describe_plan(plan.as_ref(), tokens, size), plan.as_ref(), tokens));
    }
    let mut journal = call.open_conversation()?;
    let tokens = TokenEstimate::from_pieces(journal.pieces()).tokens_of_all(journal.text().len());
    let write = checkpoint_writer(call, &model, call.shows_progress);
    let outputs = call.root().outputs_folder();
    let price = call.settings.price(&model);
    let payer = Payer { model: &model, price: price.as_ref() };
    let (result, usage) = compaction::compact_now(&mut journal, &outputs, size, &write, &payer);
    let report = match result {
        Err(problem) => Report::failed(problem.exit, refusal(call, &problem.message)),
        Ok(None) => report(call, describe_plan(None, tokens, size), None, tokens),
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

fn refusal(call: &Call<'_>, why: &str) -> String {
    format!("conversation {} was not compacted (unchanged): {why}", call.name)
}

fn describe_plan(plan: Option<&Plan>, tokens: u64, window: u64) -> String {
    let Some(plan) = plan else {
        if tokens == 0 {
            return "nothing to compact: the conversation is empty".to_owned();
        }
        return format!(
            "nothing to compact: about {tokens} tokens, and older turns would not get shorter (window: {window})"
        );
    };
    let pointers = match plan.condensed.pointers {
        0 => String::new(),
        count => format!("{} would become pointers to files; ", format_count(count, "long result")),
    };
    let turns = match plan.condensed.turns {
        Some((first, last)) => {
            // One request for each part that fits into the window, and one more that joins them.
            let whole = RequestSizes::for_window(Some(window)).map_or(1, |sizes| sizes.whole);
            let requests = match plan.summarized_bytes.div_ceil(whole) {
                0 | 1 => "one request".to_owned(),
                parts => format!("about {} requests", parts + 1),
            };
            format!(
                "turns {first} to {last} would become a checkpoint of at most {} words ({requests}); ",
                plan.words
            )
        }
        None => "no request is needed; ".to_owned(),
    };
    format!(
        "{pointers}{turns}{} stay; about {} tokens would become {} (window: {window})",
        format_count(plan.condensed.kept, "turn"),
        plan.before,
        plan.after
    )
}

fn report(call: &Call<'_>, text: String, plan: Option<&Plan>, tokens: u64) -> Report {
    let turns = plan.and_then(|plan| plan.condensed.turns);
    Report::done(format!("{text}\n"))
        .with("conversation_path", call.root().conversation(&call.name).display().to_string())
        .with("compacted", plan.is_some())
        .with("long_results", plan.map_or(0, |plan| plan.condensed.pointers))
        .with("checkpoint_turns", turns.map(|(first, last)| vec![first, last]))
        .with("tokens_before", plan.map_or(tokens, |plan| plan.before))
        .with(
            "tokens_after",
            if call.which.dry_run { plan.map_or(tokens, |plan| plan.after) } else { tokens },
        )
}
