//! Checks the text of a conversation file: how each block counts, what cannot be read, and lines that look like tags.
//!
//! For people who edit the file: a provider's cache holds the beginning of a request, so an edit makes everything from its
//! block on be sent and paid for again.

use conversation::format::file::{BLOCKS, Parsed, Piece, Trouble};
use conversation::format::nearest::nearest;
use conversation::protocol::tags::find_tag;

/// A block or note of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintedBlock {
    /// Its first line, from 1.
    pub line: usize,
    /// The block's name, or `note`.
    pub block: &'static str,
    /// The role in which the model gets it.
    pub counts_as: &'static str,
    /// Its bytes in the file.
    pub bytes: usize,
    /// The bytes that no cache holds after an edit here: from its start to the end of the file.
    pub resent: usize,
}

/// A problem, or something that is probably one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and what to do about it.
    pub message: String,
    /// Whether no run can read the file until it is fixed.
    pub is_error: bool,
}

/// The consequence of a first block that is missing.
pub const NO_CONTEXT: &str = "there is no <initial_context>: the next run sends the rules again, as a user message, and no \
    provider's cache helps; put the block back at the top";

/// Lists how the blocks of a parsed conversation count, and the problems, in the order of lines.
pub fn lint_blocks(text: &str, parsed: &Parsed) -> (Vec<LintedBlock>, Vec<Finding>) {
    let mut blocks: Vec<LintedBlock> = Vec::new();
    let mut findings = Vec::new();
    let (mut line, mut at) = (1, 0);
    let mut has_context = false;
    findings.extend(find_misread_lines(text, &parsed.pieces));
    for piece in &parsed.pieces {
        line += text[at..piece.span.start].matches('\n').count();
        at = piece.span.start;
        let counts_as = match piece.name() {
            Some("initial_context") if !has_context => {
                has_context = true;
                "system prompt"
            }
            Some("agent-response") => "reply of the model",
            Some(_) => "user message",
            None => "your words",
        };
        let bytes = piece.span.len();
        let block = piece.name().unwrap_or("note");
        blocks.push(LintedBlock { line, block, counts_as, bytes, resent: text.len() - at });
    }
    if !has_context && !parsed.pieces.is_empty() {
        let message = NO_CONTEXT.to_owned();
        findings.push(Finding { line: 1, message, is_error: false });
    }
    match &parsed.trouble {
        Some(Trouble::Damaged { line, message, .. }) => {
            findings.push(Finding { line: *line, message: message.clone(), is_error: true });
        }
        Some(Trouble::Torn { line, .. }) => findings.push(Finding {
            line: *line,
            message: "the last block has no end, as after a crash: the next run moves it aside"
                .to_owned(),
            is_error: false,
        }),
        None => {}
    }
    findings.sort_by_key(|finding| finding.line);
    (blocks, findings)
}

/// Lines that count as the user's words, and look like a tag of a block.
pub fn find_misread_lines(text: &str, pieces: &[Piece]) -> Vec<Finding> {
    let notes = pieces.iter().filter(|piece| piece.name().is_none());
    let find = |note: &Piece| {
        let line = 1 + text[..note.span.start].matches('\n').count();
        find_stray_tags(note.body_text(text), line)
    };
    notes.flat_map(find).collect()
}

/// Lines of a note that look like a tag of a block: indented, or misspelled.
fn find_stray_tags(note: &str, first_line: usize) -> Vec<Finding> {
    let look = |(at, line): (usize, &str)| {
        let name = tag_name(line.trim_start())?;
        if find_tag(name).is_some() {
            return None;
        }
        let near = nearest(name, BLOCKS.iter().copied())?;
        let why = if near == name {
            "is not at the start of its line"
        } else {
            "is not spelled as a tag of nagent"
        };
        let message = format!(
            "<{name}> {why}, so this line counts as your words; write <{near}> at the start of a line if it is meant as the tag"
        );
        Some(Finding { line: first_line + at, message, is_error: false })
    };
    note.lines().enumerate().filter_map(look).collect()
}

/// `user-prompt` of `</user-prompt>` or `<user-prompt at=…`.
fn tag_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('<')?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))?;
    (end > 3 && matches!(rest.as_bytes().get(end), Some(b'>' | b' ' | b'/'))).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::parse;

    fn check(text: &str, blocks: &str, findings: &[(usize, &str)]) {
        let (found, wrong) = lint_blocks(text, &parse(text));
        let found: Vec<String> = found
            .iter()
            .map(|block| {
                format!("{} {} {} {}", block.line, block.block, block.counts_as, block.resent)
            })
            .collect();
        assert_eq!(found.join("; "), blocks);
        assert_eq!(wrong.len(), findings.len(), "{wrong:?}");
        for (finding, (line, part)) in wrong.iter().zip(findings) {
            assert!(finding.line == *line && finding.message.contains(part), "{finding:?}");
        }
    }

    #[test]
    fn what_counts_as_what() {
        check(
            "<initial_context>\nx\n</initial_context>\n\n<user-prompt>\na\n</user-prompt>\n\nmine\n",
            "1 initial_context system prompt 77; 5 user-prompt user message 37; 9 note your words 5",
            &[],
        );
    }

    #[test]
    fn what_looks_wrong() {
        check(
            "  <user-prompt>\n  a\n  </user-prompt>\n",
            "1 note your words 37",
            &[(1, "not at the start"), (1, "no <initial_context>"), (3, "not at the start")],
        );
        let cut = "<initial_context>\nx\n</initial_context>\n<user-prompt>\na\n</user-promt>\n\n<user-prompt>\nb\n</user-prompt>\n";
        check(cut, "1 initial_context system prompt 101", &[(4, "line 6")]);
        check(
            "<initial_context>\nx\n</initial_context>\n<user-promt>\n",
            "1 initial_context system prompt 52; 4 note your words 13",
            &[(4, "<user-prompt>")],
        );
        check(
            "<initial_context>\nx\n</initial_context>\n<user-prompt>\nx",
            "1 initial_context system prompt 54",
            &[(4, "crash")],
        );
    }
}
