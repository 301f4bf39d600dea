//! Summarizes a conversation: its requests, its results, and the open tasks.
//!
//! A short one is one request. A long one is cut into parts of whole blocks, whose summaries are joined. A conversation
//! only grows, so the next time the summaries of its earlier parts are cached. The first block and the figures of the
//! turns are left out. The text is untrusted: it is sent between marks made from its own hash.

use super::summary_cache::Summary;
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, TextPart, WordLimit};
use super::summary_queue::{PartedText, ShowProgress, SummaryQueue};
use conversation::format::file::{Piece, parse};
use conversation::format::numbers::whole;
use conversation::problem::Problem;
use edits::diff::lines::count_line_feeds;

const LEFT_OUT: [&str; 3] = ["initial_context", "context-update", "nagent-turn-status"];

/// Summarizes a conversation with this text and these blocks. `progress` gets the number of finished parts and of all.
pub fn summarize_conversation(
    queue: &SummaryQueue<'_>,
    name: &str,
    text: &str,
    pieces: &[Piece],
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let sizes = RequestSizes::for_window(queue.rules.window)?;
    let parts = cut_conversation(text, pieces, sizes.small);
    if parts.is_empty() {
        let message = format!("conversation {name} is empty, there is nothing to summarize");
        return Err(Problem::failed(message));
    }
    let kind = SummaryKind::Conversation;
    summarize_parts(queue, name, (kind, queue.limit()), sizes, &parts, progress)
}

/// Writes a checkpoint of about `words` words: the facts that a model needs to continue the conversation without these
/// blocks, which have `tokens_per_byte`. One request, unless they are too long for the window.
///
/// # Errors
/// The model cannot be reached, or its answer is not a checkpoint.
pub fn write_checkpoint(
    queue: &SummaryQueue<'_>,
    name: &str,
    text: &str,
    words: u64,
    tokens_per_byte: f64,
) -> Result<String, Problem> {
    let sizes = RequestSizes::for_window(queue.rules.window)?;
    // The measured size of a token in this conversation is better than the general estimate of three bytes.
    let most = whole(sizes.whole as f64 / 3.0 / tokens_per_byte * 0.9);
    let parts = cut_conversation(text, &parse(text).pieces, sizes.whole.max(most));
    let limit = WordLimit { words, strict: false };
    let kind = (SummaryKind::Checkpoint, limit);
    Ok(summarize_parts(queue, name, kind, sizes, &parts, &|_, _| ())?.text)
}

fn summarize_parts(
    queue: &SummaryQueue<'_>,
    name: &str,
    (kind, limit): (SummaryKind, WordLimit),
    sizes: RequestSizes,
    parts: &[TextPart<'_>],
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let whole = PartedText {
        kind,
        limit,
        name,
        parts: parts.iter().map(|part| (part.first_line, part.last_line)).collect(),
        read: &|at| Ok(parts[at].text.to_string()),
        sizes,
    };
    queue.summarize_parts(&whole, progress).1
}

/// Groups neighbouring blocks, as many as fit into `max_bytes`; a larger block is cut.
fn cut_conversation<'t>(text: &'t str, pieces: &[Piece], max_bytes: u64) -> Vec<TextPart<'t>> {
    let mut parts: Vec<TextPart<'_>> = Vec::new();
    let (mut line, mut at) = (1, 0);
    for piece in pieces {
        line += count_line_feeds(&text.as_bytes()[at..piece.span.start]);
        at = piece.span.start;
        if piece.name().is_some_and(|name| LEFT_OUT.contains(&name)) {
            continue;
        }
        for part in plan::cut_text(&text[piece.span.clone()], line, max_bytes) {
            match parts.last_mut() {
                Some(before) if (before.text.len() + part.text.len() + 2) as u64 <= max_bytes => {
                    before.text.to_mut().push_str("\n\n");
                    before.text.to_mut().push_str(&part.text);
                    before.last_line = part.last_line;
                }
                _ => parts.push(part),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use conversation::format::file::parse;

    fn check(text: &str, most: u64) -> Vec<TextPart<'_>> {
        let parsed = parse(text);
        assert_eq!(parsed.trouble, None);
        let parts = cut_conversation(text, &parsed.pieces, most);
        let lines: Vec<&str> = text.split('\n').collect();
        let mut end = 0;
        for part in &parts {
            assert!(part.text.len() as u64 <= most, "{part:?}");
            assert!(part.first_line >= end && part.first_line <= part.last_line, "{parts:?}");
            end = part.last_line;
            // The line numbers are those of the text.
            let first = part.text.lines().next().unwrap_or_default();
            let at = usize::try_from(part.first_line).unwrap() - 1;
            assert!(lines[at].contains(first), "{first:?} in {:?}", lines[at]);
        }
        parts
    }

    #[test]
    fn whole_blocks_go_together_and_the_systems_are_left_out() {
        let text = "<initial_context fence=\"f\">\nrules\n</initial_context f>\n\n<user-prompt>\none\n</user-prompt>\n\n\
            <agent-response>\n<nagent-response>two</nagent-response>\n</agent-response>\n<nagent-turn-status turn=\"1\" />\n\n\
            <user-prompt>\nthree\n</user-prompt>\n";
        let all = check(text, 1000);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].first_line, all[0].last_line), (5, 16));
        assert!(
            all[0].text.starts_with("<user-prompt>\none")
                && all[0].text.ends_with("</user-prompt>")
        );
        assert!(!all[0].text.contains("rules") && !all[0].text.contains("turn-status"));
        let parts = check(text, 80);
        let lines: Vec<_> = parts.iter().map(|part| (part.first_line, part.last_line)).collect();
        assert_eq!(lines, [(5, 7), (9, 11), (14, 16)]);
        assert!(check("", 100).is_empty());
        assert!(check("<initial_context fence=\"f\">\nx\n</initial_context f>\n", 100).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_of_large_blocks(bodies in prop::collection::vec("[a-zü\n ]{0,90}", 0..6), most in 30u64..90) {
            let text: String = bodies.iter().map(|body| format!("<user-prompt>\n{body}\n</user-prompt>\n\n")).collect();
            let parts = check(&text, most);
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let all: String = parts.iter().map(|part| bare(&part.text)).collect();
            prop_assert_eq!(all, bare(&text));
        }
    }
}
