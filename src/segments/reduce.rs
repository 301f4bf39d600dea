//! Reduces many summaries to one: neighbours are joined, as many as a request takes, level by level, until one is left.

use super::summary_plan::{self as plan, SummaryKind, WordLimit};
use super::summary_queue::{Summary, SummaryQueue, SummaryRequest, SummaryTask};
use crate::problem::Problem;
use crate::sys::fs;

/// The summary of some lines.
#[derive(Debug, Clone)]
pub(super) struct SummarizedPart {
    pub(super) first_line: u64,
    pub(super) last_line: u64,
    pub(super) summary: Summary,
}

/// What the parts are of.
pub(super) struct SummarizedWhole<'a> {
    /// The kind of request that joins.
    pub(super) kind: SummaryKind,
    /// What it is: a file, a conversation.
    pub(super) what: &'static str,
    /// Its name for the model.
    pub(super) name: &'a str,
    pub(super) lines: u64,
    /// Maximum size of the summaries in one request, in bytes.
    pub(super) max_bytes: u64,
}

/// Joins the parts, of which there is at least one; `limit` is for the last summary.
pub(super) fn reduce_parts(
    queue: &SummaryQueue<'_>,
    whole: &SummarizedWhole<'_>,
    mut parts: Vec<SummarizedPart>,
    limit: WordLimit,
) -> Result<Summary, Problem> {
    let SummarizedWhole { kind, what, name, lines, max_bytes } = *whole;
    loop {
        let paragraph = |part: &SummarizedPart| {
            plan::paragraph(part.first_line, part.last_line, &part.summary.text, max_bytes / 8)
        };
        let lengths: Vec<u64> = parts.iter().map(|part| paragraph(part).len() as u64).collect();
        let groups = plan::group_neighbours(&lengths, max_bytes);
        let is_last = groups.len() <= 1;
        let limit = if is_last { limit } else { WordLimit::DEFAULT };
        let lines_of = |at: usize| {
            let group = &groups[at];
            (parts[group.start].first_line, parts[group.end - 1].last_line)
        };
        let make = |at: usize| {
            let text: String = parts[groups[at].clone()].iter().map(paragraph).collect();
            let (first, last) = lines_of(at);
            Ok(SummaryTask::Ask(SummaryRequest {
                kind,
                limit,
                place: format!("{what}: {name}\nSummaries of lines {first} to {last} of {lines}"),
                subject: format!("the joined summary of lines {first} to {last} of {name}"),
                source_sha256: fs::sha256(text.as_bytes()),
                text,
            }))
        };
        let result = queue.run_tasks(groups.len(), &mut |_, _| (), &make);
        if is_last {
            return result.into_single();
        }
        let summaries = result.into_all()?.into_iter().enumerate();
        parts = summaries
            .map(|(at, summary)| {
                let (first_line, last_line) = lines_of(at);
                SummarizedPart { first_line, last_line, summary }
            })
            .collect();
    }
}
