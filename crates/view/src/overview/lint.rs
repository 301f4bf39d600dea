//! Probable mistakes in the text of a conversation file, which people edit: lines that look like tags.

use conversation::format::file::{BLOCKS, Piece};
use conversation::format::nearest::nearest;
use conversation::protocol::tags::find_tag;

/// Finds by line a first block that is missing, and lines that count as the user's words and look like a tag of a block.
pub fn find_misreadings(text: &str, pieces: &[Piece]) -> Vec<(usize, String)> {
    let is_context =
        |piece: &Piece| matches!(piece.name(), Some("initial_context" | "context-update"));
    let mut findings = Vec::new();
    if !pieces.is_empty() && !pieces.iter().any(is_context) {
        let message = "there is no <initial_context>: the next run sends the rules again, as a user message, and no \
            provider's cache helps; put the block back at the top";
        findings.push((1, message.to_owned()));
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
fn find_stray_tags(note: &str, first_line: usize) -> Vec<(usize, String)> {
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
        Some((first_line + at, message))
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
        let wrong = find_misreadings(text, &parse(text).pieces);
        assert_eq!(wrong.len(), findings.len(), "{wrong:?}");
        for ((at, message), (line, part)) in wrong.iter().zip(findings) {
            assert!(at == line && message.contains(part), "{at}: {message}");
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
        check(&format!("{context}<user-promt>\n"), &[(4, "<user-prompt>")]);
    }
}
