//! One summary out of many: neighbours are joined, as many as a request takes, level by level, until one is left.
//!
//! It asks through [`super::asking`], and does not know what the summaries are of. How many go into one request is
//! [`super::summary_plan`]'s to say.

use super::asking::{Asking, Came, Failure, Request, Summary, Work};
use super::summary_plan::{self as plan, Kind, Limit};
use crate::exit::Exit;
use crate::sys::fs;

/// A part's summary with its first and its last line.
pub(super) type Part = (u64, u64, Summary);

/// What the parts are of.
pub(super) struct Whole<'a> {
    /// The kind of request that joins.
    pub(super) kind: Kind,
    /// What it is: a file, a conversation.
    pub(super) what: &'static str,
    /// What the model is told that it is called.
    pub(super) name: &'a str,
    /// Its lines.
    pub(super) lines: u64,
    /// The bytes of summaries that go into one request.
    pub(super) most: u64,
}

/// Joins the parts; the last summary keeps to `limit`. There is one part at least.
pub(super) fn join(
    asking: &Asking<'_>,
    whole: &Whole<'_>,
    mut parts: Vec<Part>,
    limit: Limit,
) -> Result<Summary, Failure> {
    let Whole { kind, what, name, lines, most } = *whole;
    loop {
        let paragraph = |part: &Part| plan::paragraph(part.0, part.1, &part.2.text, most / 8);
        let lengths: Vec<u64> = parts.iter().map(|part| paragraph(part).len() as u64).collect();
        let groups = plan::group(&lengths, most);
        let is_last = groups.len() <= 1;
        let limit = if is_last { limit } else { Limit::DEFAULT };
        let make = |at: usize| {
            let group = groups[at].clone();
            let text: String = parts[group.clone()].iter().map(paragraph).collect();
            let (first, last) = (parts[group.start].0, parts[group.end - 1].1);
            Ok(Work::Ask(Request {
                kind,
                limit,
                place: format!("{what}: {name}\nSummaries of lines {first} to {last} of {lines}"),
                subject: format!("the joined summary of lines {first} to {last} of {name}"),
                source_sha256: fs::hash(text.as_bytes()),
                text,
            }))
        };
        let Came { summaries, failure } = asking.run(groups.len(), &mut |_, _| (), &make);
        if is_last {
            return one(summaries, failure);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        parts = groups
            .iter()
            .zip(summaries)
            .filter_map(|(group, summary)| {
                Some((parts[group.start].0, parts[group.end - 1].1, summary?))
            })
            .collect();
    }
}

/// The only summary of one.
pub(super) fn one(
    summaries: Vec<Option<Summary>>,
    failure: Option<Failure>,
) -> Result<Summary, Failure> {
    match (summaries.into_iter().flatten().next(), failure) {
        (_, Some(failure)) => Err(failure),
        (Some(summary), None) => Ok(summary),
        (None, None) => Err(Failure::new(Exit::Failed, "a summary was not asked for")),
    }
}
