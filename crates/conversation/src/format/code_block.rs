//! The first code block of a Markdown text: the lines between two fences of backticks or tildes. Pure.

/// The text within the first fenced block, with its last line feed, without the indentation of the fence. A block that is never
/// closed ends with the text.
pub fn find_code_block(text: &str) -> Option<String> {
    let mut open: Option<(&str, usize, String)> = None;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let indent = bare.len() - bare.trim_start_matches(' ').len();
        match &mut open {
            None => {
                let fence = if indent <= 3 { fence_of(&bare[indent..]) } else { "" };
                open = (!fence.is_empty()).then(|| (fence, indent, String::new()));
            }
            Some((opening, of_fence, code)) => {
                let most = (*of_fence).max(3);
                let fence = if indent <= most { fence_of(&bare[indent..]) } else { "" };
                if closes(opening, fence, &bare[indent..]) {
                    break;
                }
                let blanks = line.len() - line.trim_start_matches(' ').len();
                code.push_str(&line[blanks.min(*of_fence)..]);
            }
        }
    }
    open.map(|(.., code)| code)
}

/// The backticks or tildes at the start of a line, if there are at least three. Those of code within a line are not a
/// fence.
fn fence_of(line: &str) -> &str {
    let mark = if line.starts_with('~') { '~' } else { '`' };
    let length = line.len() - line.trim_start_matches(mark).len();
    let is_inline = mark == '`' && line[length..].contains('`');
    if length >= 3 && !is_inline { &line[..length] } else { "" }
}

/// Whether a line closes a block: it has at least as many of the same mark, and nothing else.
fn closes(opening: &str, fence: &str, line: &str) -> bool {
    fence.len() >= opening.len() && fence.as_bytes()[0] == opening.as_bytes()[0] && line == fence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_counts() {
        let check = |text: &str, expect: &str| {
            assert_eq!(find_code_block(text).as_deref(), Some(expect), "{text}");
        };
        check("a\n```json\n{}\n```\nb\n```\nc\n```\n", "{}\n");
        check("```\nx\n```", "x\n");
        check("~~~sh\n```\nx\n```\n~~~\n", "```\nx\n```\n");
        check("````\n```\nx\n```\n````\n", "```\nx\n```\n");
        check("```\nnever closed\n", "never closed\n");
        check("  ```\nx\n  ```\n", "x\n");
        check("1. do\n   ```\n   if x:\n     y\n\n z\n   ```\n", "if x:\n  y\n\nz\n");
        check("```\n```\n", "");
        assert_eq!(find_code_block("no `code` here ```x``` at all\n"), None);
        assert_eq!(find_code_block(""), None);
    }
}
