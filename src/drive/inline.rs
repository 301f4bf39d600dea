//! What of a result stands in the conversation, and what goes whole to `outputs/`.
//!
//! A body over 16 KiB keeps its head and its tail; the block then names the file that holds the whole. Bytes that are
//! no UTF-8 show as U+FFFD, and the true ones go to the file.

use std::path::Path;

use anyhow::Result;

use crate::format::conversation::Block;
use crate::sys::fs;
use crate::sys::process::capture::Captured;

/// The longest body that stays whole, in bytes; reads of files have their own limit.
pub const WHOLE: usize = 16 * 1024;

/// The bytes of the head and of the tail that stay of a longer one.
pub const KEEP: usize = WHOLE / 2;

/// Gives the block a text as its body, or its head and tail.
pub fn text(block: Block, text: String, outputs: &Path) -> Result<Block> {
    if text.len() <= WHOLE {
        return Ok(block.body(text));
    }
    let path = fs::keep(outputs, text.as_bytes())?;
    let head = &text[..floor(&text, KEEP)];
    let tail = &text[ceil(&text, text.len() - KEEP)..];
    let left_out = text.len() - head.len() - tail.len();
    Ok(block.with("output", path.display()).with("bytes", text.len()).body(join(
        head,
        tail,
        left_out as u64,
        &path.display().to_string(),
    )))
}

/// Gives the block a process's output.
pub fn captured(block: Block, output: &Captured) -> Block {
    let mut block = block.with("bytes", output.bytes).with("lines", output.lines);
    let path = output.spooled.as_ref().map(|spooled| spooled.path.display().to_string());
    if let Some(path) = &path {
        block = block.with("output", path);
    }
    if let Some(error) = &output.spool_error {
        block = block.with("output_error", error);
    }
    let head = output.head_text();
    let body = if output.left_out == 0 {
        format!("{head}{}", output.tail_text())
    } else {
        let place = path.unwrap_or_else(|| "nowhere (it could not be kept)".to_owned());
        join(&head, &output.tail_text(), output.left_out, &place)
    };
    // One line feed at the end belongs to the last line, not to a line of its own.
    let body = body.strip_suffix('\n').map(str::to_owned).unwrap_or(body);
    block.body(body)
}

fn join(head: &str, tail: &str, left_out: u64, place: &str) -> String {
    let before = if head.ends_with('\n') { "" } else { "\n" };
    format!(
        "{head}{before}[… {left_out} bytes left out here; the whole is in {place}: read it with offset and limit …]\n{tail}"
    )
}

/// The last character boundary at or before an offset.
pub fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first character boundary at or after an offset.
fn ceil(text: &str, mut at: usize) -> usize {
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
