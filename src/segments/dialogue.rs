//! The summary of a conversation: what was asked, done and found out, and what is left to do.
//!
//! A short one is one request. A long one goes by pieces of whole blocks, whose summaries are joined; since a conversation
//! only grows, those of its earlier pieces are kept ones the next time. What the system put at its head, and the figures
//! of its turns, are left out. The text is data that anybody may have written: it stands between marks that come from its
//! own hash.

use super::asking::{Asking, Failure, Request, Rules, Summary, Totals, Work};
use super::levels::{self, Whole};
use super::summary_plan::{self as plan, Kind, Limit, Sizes};
use crate::exit::Exit;
use crate::format::conversation::Piece;
use crate::segments::content::Encoding;
use crate::sys::fs;

/// Blocks that say nothing of what happened.
const LEFT_OUT: [&str; 3] = ["initial_context", "context-update", "nagent-turn-status"];

/// What is one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    text: String,
    /// Its lines in the file, from 1.
    first: u64,
    last: u64,
}

/// Makes summaries of conversations.
pub struct Digest<'a> {
    asking: Asking<'a>,
}

impl<'a> Digest<'a> {
    /// One that has asked nothing yet.
    pub fn new(rules: Rules<'a>) -> Self {
        Self { asking: Asking::new(rules) }
    }

    /// What was spent so far, in vain too.
    pub fn totals(&self) -> Totals {
        self.asking.totals()
    }

    /// Sums up a conversation of this text and these pieces. `progress` gets the pieces that are done, and all.
    ///
    /// # Errors
    /// There is nothing to sum up; the model failed; a signal came. What came until then is kept.
    pub fn conversation(
        &self,
        name: &str,
        text: &str,
        pieces: &[Piece],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Summary, Failure> {
        let sizes = Sizes::fit(self.asking.rules.window, plan::SMALL)
            .map_err(|message| Failure::new(Exit::Provider, message))?;
        let units = units(text, pieces, sizes.small);
        if units.is_empty() {
            let message = format!("conversation {name} is empty, there is nothing to summarise");
            return Err(Failure::new(Exit::Failed, message));
        }
        let lines = text.lines().count() as u64;
        let limit = Limit::new(self.asking.rules.words);
        let is_whole = units.len() == 1;
        let make = |at: usize| {
            let Unit { text, first, last } = units[at].clone();
            Ok(Work::Ask(Request {
                kind: Kind::Dialogue,
                limit: if is_whole { limit } else { Limit::DEFAULT },
                place: format!("Conversation: {name}\nLines {first} to {last} of {lines}"),
                subject: format!("lines {first} to {last} of conversation {name}"),
                source_sha256: fs::hash(text.as_bytes()),
                text,
            }))
        };
        let came = self.asking.run(units.len(), progress, &make);
        if is_whole {
            return levels::one(came.summaries, came.failure);
        }
        if let Some(mut failure) = came.failure {
            let kept = came.summaries.iter().flatten().count();
            if kept > 0 {
                let all = units.len();
                failure.message.push_str(&format!(
                    "; {kept} of {all} summaries are kept, and the same command goes on from there"
                ));
            }
            return Err(failure);
        }
        let parts = units.iter().zip(came.summaries);
        let parts =
            parts.filter_map(|(unit, summary)| Some((unit.first, unit.last, summary?))).collect();
        let whole =
            Whole { kind: Kind::DialogueJoin, what: "Conversation", name, lines, most: sizes.join };
        levels::join(&self.asking, &whole, parts, limit)
    }
}

/// Neighbouring blocks, as many as go into `most` bytes; one that is larger is cut.
fn units(text: &str, pieces: &[Piece], most: u64) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let (mut line, mut at) = (1, 0);
    for piece in pieces {
        line += feeds(&text[at..piece.span.start]);
        at = piece.span.start;
        if piece.name().is_some_and(|name| LEFT_OUT.contains(&name)) {
            continue;
        }
        let block = &text[piece.span.clone()];
        let mut first = line;
        for part in plan::pieces(block.as_bytes(), most, Encoding::Utf8) {
            let part = &block[part];
            let last = first + feeds(part.trim_end_matches('\n'));
            match units.last_mut() {
                Some(unit) if (unit.text.len() + part.len() + 2) as u64 <= most => {
                    unit.text.push_str("\n\n");
                    unit.text.push_str(part);
                    unit.last = last;
                }
                _ => units.push(Unit { text: part.to_owned(), first, last }),
            }
            first += feeds(part);
        }
    }
    units
}

fn feeds(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::conversation::parse;

    fn check(text: &str, most: u64) -> Vec<Unit> {
        let parsed = parse(text);
        assert_eq!(parsed.trouble, None);
        let units = units(text, &parsed.pieces, most);
        let lines: Vec<&str> = text.split('\n').collect();
        let mut end = 0;
        for unit in &units {
            assert!(unit.text.len() as u64 <= most, "{unit:?}");
            assert!(unit.first >= end && unit.first <= unit.last, "{units:?}");
            end = unit.last;
            // The lines that are named are the text's.
            let first = unit.text.lines().next().unwrap_or_default();
            let at = usize::try_from(unit.first).unwrap() - 1;
            assert!(lines[at].contains(first), "{first:?} in {:?}", lines[at]);
        }
        units
    }

    #[test]
    fn whole_blocks_go_together_and_the_systems_are_left_out() {
        let text = "<initial_context fence=\"f\">\nrules\n</initial_context f>\n\n<user-prompt>\none\n</user-prompt>\n\n\
            <agent-response>\n<nagent-response>two</nagent-response>\n</agent-response>\n<nagent-turn-status turn=\"1\" />\n\n\
            <user-prompt>\nthree\n</user-prompt>\n";
        let all = check(text, 1000);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].first, all[0].last), (5, 16));
        assert!(
            all[0].text.starts_with("<user-prompt>\none")
                && all[0].text.ends_with("</user-prompt>")
        );
        assert!(!all[0].text.contains("rules") && !all[0].text.contains("turn-status"));
        let parts = check(text, 80);
        let lines: Vec<_> = parts.iter().map(|unit| (unit.first, unit.last)).collect();
        assert_eq!(lines, [(5, 7), (9, 11), (14, 16)]);
        assert!(check("", 100).is_empty());
        assert!(check("<initial_context fence=\"f\">\nx\n</initial_context f>\n", 100).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_of_large_blocks(bodies in prop::collection::vec("[a-zü\n ]{0,90}", 0..6), most in 30u64..90) {
            let text: String = bodies.iter().map(|body| format!("<user-prompt>\n{body}\n</user-prompt>\n\n")).collect();
            let units = check(&text, most);
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let all: String = units.iter().map(|unit| bare(&unit.text)).collect();
            prop_assert_eq!(all, bare(&text));
        }
    }
}
