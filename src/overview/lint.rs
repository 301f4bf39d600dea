//! Checks the text of a conversation file, which people edit: what cannot be read, and lines that look like tags.

use conversation::format::file::{BLOCKS, Parsed, Piece, Trouble};
use conversation::format::nearest::nearest;
use conversation::protocol::tags::find_tag;

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

/// Finds what a run cannot read of a conversation, and what is probably a mistake, in the order of lines.
pub fn lint_text(text: &str, parsed: &Parsed) -> Vec<Finding> {
    let mut findings = find_misreadings(text, &parsed.pieces);
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
    findings
}

/// Finds a first block that is missing, and lines that count as the user's words and look like a tag of a block.
pub fn find_misreadings(text: &str, pieces: &[Piece]) -> Vec<Finding> {
    let is_context =
        |piece: &Piece| matches!(piece.name(), Some("initial_context" | "context-update"));
    let mut findings = Vec::new();
    if !pieces.is_empty() && !pieces.iter().any(is_context) {
        let message = "there is no <initial_context>: the next run sends the rules again, as a user message, and no \
            provider's cache helps; put the block back at the top";
        findings.push(Finding { line: 1, message: message.to_owned(), is_error: false });
    }
    let notes = pieces.iter().filter(|piece| piece.name().is_none());
    let find = |note: &Piece| {
        let line = 1 + text[..note.span.start].matches('\n').count();
        find_stray_tags(note.body_text(text), line)
    };
    findings.extend(notes.flat_map(find));
    findings
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

    fn check(text: &str, findings: &[(usize, &str)]) {
        let wrong = lint_text(text, &parse(text));
        assert_eq!(wrong.len(), findings.len(), "{wrong:?}");
        for (finding, (line, part)) in wrong.iter().zip(findings) {
            assert!(finding.line == *line && finding.message.contains(part), "{finding:?}");
        }
    }

    #[test]
    fn what_looks_wrong() {
        let context = "<initial_context>\nx\n</initial_context>\n";
        check(&format!("{context}\n<user-prompt>\na\n</user-prompt>\n\nmine\n"), &[]);
        check(
            "  <user-prompt>\n  a\n  </user-prompt>\n",
            &[(1, "no <initial_context>"), (1, "not at the start"), (3, "not at the start")],
        );
        let cut = "<user-prompt>\na\n</user-promt>\n\n<user-prompt>\nb\n</user-prompt>\n";
        check(&format!("{context}{cut}"), &[(4, "line 6")]);
        check(&format!("{context}<user-promt>\n"), &[(4, "<user-prompt>")]);
        check(&format!("{context}<user-prompt>\nx"), &[(4, "crash")]);
    }
}
