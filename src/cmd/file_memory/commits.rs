//! Summaries of commits: those that are kept, and one request for the rest. Each is kept under its commit and path, so that
//! every conversation, and every clone, has it from then on; a failure is never kept.

use std::path::Path;

use crate::cmd::summaries::Writers;
use crate::exit::Exit;
use crate::history::summaries::{self as plan, Commit, DIFF};
use crate::history::text::Summaries;
use crate::history::{History, Touch};
use crate::llm::{Message, Role, Usage};
use crate::problem::Problem;
use crate::segments::split;
use crate::segments::summary_cache::{self, CachedSummary};
use crate::segments::summary_plan::{self, RequestSizes};
use crate::sys::{clock, fs, git};

/// The longest message of a commit that is read, in bytes.
const WORDS: usize = 2_000;

/// What a request gave.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) summaries: Summaries,
    pub(super) notes: Vec<String>,
    pub(super) requests: u64,
    pub(super) usage: Usage,
}

/// The summaries that are kept of the latest commits, and those that have none and are worth one.
pub(super) fn kept<'a>(
    folder: &Path,
    touches: &'a [Touch],
    most: usize,
) -> (Summaries, Vec<&'a Touch>) {
    let mut summaries = Summaries::new();
    let mut missing = Vec::new();
    // Without a folder a file with thousands of commits is not looked for thousands of times.
    let has_any = fs::exists(folder);
    let read =
        |touch| has_any.then(|| summary_cache::read_summary(folder, &plan::key(touch))).flatten();
    for touch in touches.iter().take(most) {
        match read(touch) {
            Some(kept) => drop(summaries.insert(touch.id.clone(), kept.summary)),
            None if plan::is_worth_it(touch) => missing.push(touch),
            None => {}
        }
    }
    (summaries, missing)
}

/// Asks for the summaries of commits, the newest first, and keeps what comes.
pub(super) fn ask(writers: &Writers<'_>, history: &History, missing: &[&Touch]) -> Asked {
    let mut asked = Asked::default();
    if let Err(failure) = asked.fill(writers, history, missing) {
        asked.notes.push(format!(
            "no summaries of commits this time, their subjects stand in: {}",
            failure.message
        ));
    }
    asked
}

impl Asked {
    fn fill(
        &mut self,
        writers: &Writers<'_>,
        history: &History,
        missing: &[&Touch],
    ) -> Result<(), Problem> {
        let sizes = RequestSizes::for_window(writers.window(), split::TARGET)
            .map_err(|message| Problem::new(Exit::Provider, message))?;
        let mut commits = Vec::new();
        for touch in missing {
            if let Some(signal) = writers.interrupts.pending() {
                return Err(Problem::interrupted(signal));
            }
            // What cannot be read is not guessed at; its subject stands in.
            let Ok(diff) = git::patch(&history.toplevel, touch, DIFF - 80) else { continue };
            let words = git::message(&history.toplevel, &touch.id, WORDS).unwrap_or_default();
            commits.push(Commit { touch, words, diff });
        }
        let room = usize::try_from(sizes.join).unwrap_or(usize::MAX);
        let Some(plan) = plan::plan(&commits, room) else { return Ok(()) };
        // What comes is to be kept: a folder that cannot be made is found out before anything is paid for.
        let folder = writers.kept();
        fs::create_private_folder(&folder)?;
        let mut voice = writers.voice()?;
        self.requests += 1;
        let message = Message { role: Role::User, parts: vec![&plan.message] };
        let reply = (voice.send)(&plan.system, vec![message])?;
        self.usage = reply.usage;
        self.summaries = plan::read(&reply.text, &plan.asked);
        if self.summaries.is_empty() {
            return Err(Problem::new(
                Exit::Provider,
                "the model's answer has none that can be read; they are asked for again at the next start",
            ));
        }
        let unanswered = plan.asked.len() - self.summaries.len();
        if unanswered > 0 {
            self.notes.push(format!(
                "the model gave no summary of {unanswered} of {} commits; they are asked for at the next start",
                plan.asked.len()
            ));
        }
        if plan.left_out > 0 {
            self.notes.push(format!(
                "{} commits had no room in the request for summaries; they are asked for at the next start",
                plan.left_out
            ));
        }
        for commit in &commits {
            let Some(summary) = self.summaries.get(&commit.touch.id) else { continue };
            let new = CachedSummary {
                summary: summary.clone(),
                provider: voice.provider.clone(),
                model: voice.model.clone(),
                words: summary_plan::count_words(summary),
                created_at: clock::now(),
                source_sha256: fs::sha256(commit.diff.as_bytes()),
            };
            if let Err(error) =
                summary_cache::write_summary(&folder, &plan::key(commit.touch), &new)
            {
                self.notes.push(format!("summaries of commits are not kept: {error:#}"));
                break;
            }
        }
        Ok(())
    }
}
