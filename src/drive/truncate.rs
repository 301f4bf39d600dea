//! Truncates long results: the whole text goes to a file in `outputs/`.
//!
//! A body over 16 KiB, less in a small window, keeps head and tail, and names the file that has all of it. What is not UTF-8
//! becomes U+FFFD.

use std::path::Path;

use anyhow::Result;

use conversation::format::file::Block;
use conversation::limits;
use sys::fs;
use sys::process::capture::Captured;

/// Length of the head and of the tail of a longer body, in bytes.
pub const KEEP: usize = limits::RESULT_WHOLE / 2;

/// Gives the block a text as its body; its head and tail if it has more than `2 * keep` bytes.
pub fn with_text(block: Block, text: String, outputs: &Path, keep: usize) -> Result<Block> {
    if text.len() <= 2 * keep {
        return Ok(block.body(text));
    }
    let path = fs::store_output(outputs, text.as_bytes())?;
    Ok(with_head_and_tail(block, &text, &path, keep))
}

/// Gives the block the head and the tail of a text that is in a file.
pub fn with_head_and_tail(block: Block, text: &str, path: &Path, keep: usize) -> Block {
    let head = &text[..text.floor_char_boundary(keep)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(keep))..];
    let left_out = (text.len() - head.len() - tail.len()) as u64;
    let lines = text.lines().count() as u64;
    let place = path.display().to_string();
    let body = join_head_and_tail(head, tail, left_out, lines, Some(&place));
    block.with("output", path.display()).with("bytes", text.len()).body(body)
}

/// Gives the block a process's output.
pub fn with_output(block: Block, output: &Captured) -> Block {
    let path = output.spooled.as_ref().map(|path| path.display().to_string());
    let block = block
        .with("bytes", output.bytes)
        .with("lines", output.lines)
        .with_some("output", path.as_ref())
        .with_some("output_error", output.spool_error.as_ref());
    let head = output.head_text();
    let body = if output.left_out == 0 {
        format!("{head}{}", output.tail_text())
    } else {
        join_head_and_tail(
            &head,
            &output.tail_text(),
            output.left_out,
            output.lines,
            path.as_deref(),
        )
    };
    block.body(without_last_line_feed(without_styles(body)))
}

/// Removes the sequences that set colours and styles, which say nothing to a model.
pub(super) fn without_styles(text: String) -> String {
    if !text.contains('\x1b') {
        return text;
    }
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':');
        match end.and_then(|end| part[end..].strip_prefix('m')) {
            Some(rest) => plain.push_str(rest),
            None => plain.extend(["\x1b[", part]),
        }
    }
    plain
}

/// Removes one line feed at the end: it belongs to the last line, not to a line of its own.
pub fn without_last_line_feed(mut text: String) -> String {
    text.truncate(text.strip_suffix('\n').unwrap_or(&text).len());
    text
}

/// Joins the two at ends of lines, with a note of the lines between them; where a line is too long for that, of the bytes.
fn join_head_and_tail(
    head: &str,
    tail: &str,
    left_out: u64,
    lines: u64,
    path: Option<&str>,
) -> String {
    // Long lines are cut rather than left out.
    let end = head.rfind('\n').filter(|end| *end > head.len() / 2);
    let start = tail.find('\n').map(|at| at + 1).filter(|start| *start < tail.len() / 2);
    let (Some(end), Some(start)) = (end, start) else {
        let before = if head.ends_with('\n') { "" } else { "\n" };
        let place = path.map_or("not saved".to_owned(), |path| format!("full text: {path}"));
        return format!("{head}{before}[… {left_out} bytes omitted; {place} …]\n{tail}");
    };
    let (head, tail) = (&head[..=end], &tail[start..]);
    let first = head.matches('\n').count() as u64 + 1;
    let last = lines.saturating_sub(tail.lines().count() as u64);
    let place =
        path.map_or("not saved".to_owned(), |path| format!("read {path} from offset=\"{first}\""));
    format!("{head}[… lines {first} to {last} of {lines} omitted: {place} …]\n{tail}")
}
