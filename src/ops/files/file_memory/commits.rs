//! Summaries of commits: those in the cache, and one request for the others. A summary is cached by its commit and path, so
//! that every conversation and every clone has it from then on. Failures are not cached.

use std::path::Path;

use crate::ops::files::summaries::Writers;
use conversation::exit::Exit;
use conversation::model::{RequestMessage, Role, Usage};
use conversation::problem::Problem;
use history::summaries::{
    CommitToSummarize, SYSTEM, build_request, is_worth_summary, parse_answer, summary_key,
};
use history::text::Summaries;
use history::{FileCommit, History, git};
use segments::summary_cache::{Summary, read_summary, write_summary};
use segments::summary_plan::RequestSizes;
use sys::fs;

/// The result of a request.
#[derive(Debug, Default)]
pub(super) struct CommitSummaries {
    pub(super) summaries: Summaries,
    pub(super) notes: Vec<String>,
    pub(super) requests: u64,
    pub(super) usage: Usage,
}

/// Reads the cached summaries of the latest commits, and lists the commits that need one.
pub(super) fn read_cached<'a>(
    folder: &Path,
    commits: &'a [FileCommit],
    limit: usize,
) -> (Summaries, Vec<&'a FileCommit>) {
    let mut summaries = Summaries::new();
    let mut missing = Vec::new();
    // A file may have thousands of commits: skip the lookups if the folder is missing.
    let has_folder = fs::exists(folder);
    let read = |commit| has_folder.then(|| read_summary(folder, &summary_key(commit))).flatten();
    for commit in commits.iter().take(limit) {
        match read(commit) {
            Some(cached) => drop(summaries.insert(commit.id.clone(), cached.text)),
            None if is_worth_summary(commit) => missing.push(commit),
            None => {}
        }
    }
    (summaries, missing)
}

/// Asks the model for summaries of these commits, newest first, and caches the answer.
pub(super) fn request_summaries(
    writers: &Writers<'_>,
    commits: &[CommitToSummarize<'_>],
) -> CommitSummaries {
    let mut result = CommitSummaries::default();
    if let Err(problem) = result.request(writers, commits) {
        result.notes.push(failure_note(&problem));
    }
    result
}

/// The note when there are no summaries of commits.
pub(super) fn failure_note(problem: &Problem) -> String {
    format!("summaries of commits failed, so their subjects are shown: {problem}")
}

impl CommitSummaries {
    fn request(
        &mut self,
        writers: &Writers<'_>,
        commits: &[CommitToSummarize<'_>],
    ) -> Result<(), Problem> {
        let sizes = RequestSizes::for_window(writers.window())?;
        let room = usize::try_from(sizes.whole).unwrap_or(usize::MAX);
        let Some(request) = build_request(commits, room) else { return Ok(()) };
        // Nothing is paid for before it is clear that the answer can be stored.
        let folder = writers.settings.root.summaries_folder();
        fs::create_private_folder(&folder)?;
        let mut model = writers.connect()?;
        self.requests += 1;
        let message = RequestMessage { role: Role::User, parts: vec![&request.message] };
        let (reply, author) = model(SYSTEM, &[message])?;
        self.usage = reply.usage;
        self.summaries = parse_answer(&reply.text, &request.commits);
        if self.summaries.is_empty() {
            return Err(Problem::new(
                Exit::Provider,
                "the model's answer could not be read; the next start asks again",
            ));
        }
        let all = request.commits.len() + request.left_out;
        let missing = all - self.summaries.len();
        if missing > 0 {
            self.notes.push(format!(
                "{missing} of {all} commits got no summary; the next start asks for them"
            ));
        }
        for CommitToSummarize { commit, .. } in commits {
            let Some(summary) = self.summaries.get(&commit.id) else { continue };
            let new = Summary { text: summary.clone(), by: Some(author.clone()) };
            if let Err(error) = write_summary(&folder, &summary_key(commit), &new) {
                self.notes.push(format!("cannot cache summaries of commits: {error:#}"));
                break;
            }
        }
        Ok(())
    }
}

/// Reads the messages and changes of these commits.
///
/// # Errors
/// A signal came, or the repository cannot be read.
pub(super) fn read_texts<'a>(
    writers: &Writers<'_>,
    history: &History,
    missing: &[&'a FileCommit],
) -> Result<Vec<CommitToSummarize<'a>>, Problem> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = missing.iter().map(|commit| (*commit).clone()).collect();
    let mut keep_waiting = || writers.interrupts.pending().is_none();
    let texts = git::read_commit_texts(&history.toplevel, wanted, &mut keep_waiting);
    if let Some(signal) = writers.interrupts.pending() {
        return Err(Problem::interrupted(signal));
    }
    let texts = texts.map_err(Problem::failed)?;
    // A commit that cannot be read keeps its subject.
    let pairs = missing.iter().zip(texts);
    Ok(pairs.filter_map(|(commit, text)| Some(CommitToSummarize { commit, text: text? })).collect())
}
