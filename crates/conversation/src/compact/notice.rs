//! The `system` block that reports a compaction and holds its checkpoint.
//!
//! ```text
//! <system compacted="NAME" turns="3-41" kept="5" tokens_per_byte="0.2731" checkpoint="0123456789ab">
//! <system compacted="NAME" results="7" kept="5" tokens_per_byte="0.2731">
//! ```
//! `compacted` names the archive, which has the whole conversation. `kept` turns follow unchanged.
//! `checkpoint` are the first digits of the SHA-256 of the body: if the hash differs, the
//! user has edited the body, and it stays. `at`, `model`, `tokens_in`, `tokens_out`, `tokens_cached` and `cost` are
//! those of the request for the checkpoint, as in the status of a turn.

use sha2::{Digest, Sha256};

use crate::format::file::{Block, Piece};
use crate::format::hex::{SHORT_ID, encode_hex};

/// The sections of a checkpoint that the summarizer is asked for; each is a line of its own.
pub const SECTIONS: [&str; 6] =
    ["Intent", "Constraints", "Decisions", "Files", "Open questions", "Next step"];

/// The facts of a compaction, for its notice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactionFacts {
    /// The turns that the checkpoint replaces, first and last. `None`: there is no checkpoint.
    pub turns: Option<(u64, u64)>,
    /// The number of turns that stay unchanged.
    pub kept: u64,
    /// The number of results that become pointers.
    pub pointers: u64,
    /// Prompts left out for lack of room.
    pub left_out: u64,
    /// In a file's conversation: the last content of the file that the conversation knew.
    pub known: Option<String>,
}

/// The attributes of such a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Notice<'a> {
    /// The conversation that has the whole text.
    pub archive: &'a str,
    /// The turns that the checkpoint replaces. `None`: there is no checkpoint, and only long results became pointers.
    pub turns: Option<(u64, u64)>,
    /// The number of turns after it that are older than the compaction.
    pub kept: u64,
    /// Tokens per byte at the time of writing.
    pub tokens_per_byte: f64,
    checkpoint: Option<&'a str>,
}

impl<'a> Notice<'a> {
    /// Reads the notice of a compaction; `None` if the block is not one.
    pub fn read(piece: &'a Piece) -> Option<Self> {
        let archive = piece.get("compacted")?;
        let turns = piece.get("turns").and_then(|turns| turns.split_once('-'));
        Some(Self {
            archive,
            turns: turns.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?))),
            kept: piece.number("kept").unwrap_or(0),
            tokens_per_byte: piece
                .get("tokens_per_byte")
                .and_then(|text| text.parse().ok())
                .filter(|ratio: &f64| ratio.is_finite())
                .unwrap_or(0.25),
            checkpoint: piece.get("checkpoint"),
        })
    }

    /// Whether the body of its block was edited after it was written.
    pub fn is_edited(&self, body: &str) -> bool {
        self.checkpoint.is_some_and(|hash| hash != hash_body(body))
    }
}

/// Builds the block that reports a compaction. The conversation `archive` has the whole text.
pub fn notice_block(
    condensed: &CompactionFacts,
    archive: &str,
    tokens_per_byte: f64,
    checkpoint: &str,
) -> Block {
    let block = Block::new("system").with("compacted", archive);
    let ratio = format!("{tokens_per_byte:.4}");
    let Some((first, last)) = condensed.turns.filter(|_| !checkpoint.is_empty()) else {
        return block
            .with("results", condensed.pointers)
            .with("kept", condensed.kept)
            .with("tokens_per_byte", ratio)
            .body(format!(
                "{} long results above were moved to files; each block names its file. The conversation that compacted names \
                 has the full text",
                condensed.pointers
            ));
    };
    let prompts = match condensed.left_out {
        0 => String::new(),
        count => format!(" The archive also has {count} user prompts after the first."),
    };
    let body = format!(
        "Turns {first} to {last} are in the archive that compacted names (nagent-conversations show NAME --turn N prints \
         one).{prompts} Their checkpoint:\n\n{}\n\nWhere the turns below differ from the checkpoint, the turns are right; what \
         they show as done is done.",
        checkpoint.trim()
    );
    let mut block = block
        .with("turns", format!("{first}-{last}"))
        .with("kept", condensed.kept)
        .with("tokens_per_byte", ratio)
        .with("checkpoint", hash_body(&body));
    if let Some(known) = &condensed.known {
        block = block.with("after", known);
    }
    block.body(body)
}

/// Builds the block in the archive that names the conversation that continues it.
pub fn archive_block(name: &str) -> Block {
    Block::new("system")
        .with("compacted_into", name)
        .body(format!("this is conversation {name} before it was compacted; it continues there"))
}

/// A checkpoint without what wraps all of it: a code fence, or the tag of an answer.
pub fn unwrap_checkpoint(text: &str) -> &str {
    let mut text = text.trim();
    for (start, end) in [("<nagent-response>", "</nagent-response>"), ("```", "```")] {
        let inner = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        // A fence may have a word after it.
        let inner = inner.map(|inner| match inner.split_once('\n') {
            Some((word, rest)) if start == end && !word.contains(' ') => rest,
            _ => inner,
        });
        text = inner.unwrap_or(text).trim();
    }
    text
}

/// Whether a text is a checkpoint and not a refusal: it has at least two sections, in whatever language and with whatever
/// marks around their names.
pub fn is_checkpoint(text: &str) -> bool {
    let (mut sections, mut is_open, mut is_start) = (0, false, true);
    for line in text.lines().map(str::trim) {
        match read_heading(line, is_start) {
            // The text follows on the line itself, or on the next ones.
            Some(true) => (sections, is_open) = (sections + 1, false),
            Some(false) => is_open = true,
            None => sections += usize::from(!line.is_empty() && std::mem::take(&mut is_open)),
        }
        is_start = line.is_empty();
    }
    sections >= 2
}

/// The sections that a text lacks, by the names that were asked for.
pub fn missing_sections(text: &str) -> Vec<&'static str> {
    let is_missing = |name: &&str| !text.lines().any(|line| starts_with_name(bare(line), name));
    SECTIONS.into_iter().filter(is_missing).collect()
}

/// Whether the line is the heading of a section, and has text of the section, too. `is_start`: it begins a paragraph.
fn read_heading(line: &str, is_start: bool) -> Option<bool> {
    let name = bare(line);
    if let Some(known) = SECTIONS.iter().find(|section| starts_with_name(name, section)) {
        return Some(!bare(&name[known.len()..]).is_empty());
    }
    let (head, rest) = name.split_once(':').unwrap_or((name, ""));
    let is_short = |most: usize| (1..=most).contains(&head.split_whitespace().count());
    let is_marked = line.starts_with(['#', '*', '_']) && !line.starts_with("* ")
        || line.starts_with(|c: char| c.is_ascii_digit());
    let is_heading = match () {
        () if is_marked => is_short(6),
        () if line.ends_with(':') => is_short(4),
        () => is_start && rest.is_empty() && is_short(3) && !line.ends_with(['.', '!', '?', ',']),
    };
    is_heading.then(|| !bare(rest).is_empty())
}

/// A line without marks and numbers before and after its text.
fn bare(line: &str) -> &str {
    let is_mark = |c: char| !c.is_alphanumeric();
    let line = line.trim_start_matches(|c: char| is_mark(c) || c.is_ascii_digit());
    line.trim_end_matches(['#', '*', '_', ' ', ':'])
}

fn starts_with_name(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
}

fn hash_body(body: &str) -> String {
    encode_hex(&Sha256::digest(body.as_bytes()))[..SHORT_ID].to_owned()
}
