//! Parses unified diffs as people, git and models write them. It does not look at the file that a hunk is meant for.
//!
//! ```text
//! diff   = file+ | hunk+                 the whole may be in one code fence; text before the first file is skipped
//! file   = git? "--- " any eol "+++ " any eol hunk*
//! git    = "diff --git " … and the lines that git writes below it: index, modes, renames
//! hunk   = "@@" numbers? "@@"? any eol line*
//! line   = (" " | "-" | "+") text eol | eol | "\" any eol
//! ```
//!
//! The lines of a hunk decide, not its counts, which models get wrong. The counts are used only to decide whether an
//! empty line at the end is a context line that lost its leading space, and whether `--- x` is a removed line or begins
//! another file. `\` means that the line before it has no line end.

use conversation::format::edit::Complaint;

/// Lines of the old file, and the lines that replace them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffHunk {
    /// The line of its `@@` in the diff, from 1.
    pub line: usize,
    /// Context and removed lines, with line ends; the last one has none if the diff says so.
    pub old: String,
    /// Context and added lines, with line ends; the last one has none if the diff says so.
    pub new: String,
}

/// The possible starts of a line outside of hunks.
const HEADERS: &str = "diff |index |old mode |new mode |new file mode |deleted file mode |similarity index |\
    dissimilarity index |rename from |rename to |copy from |copy to |Index: ";

/// Whether a text has a line that occurs only in diffs.
pub fn is_diff(text: &str) -> bool {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let header =
            line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ "));
        if header || line.starts_with("@@") || line.starts_with("diff --git ") {
            return true;
        }
    }
    false
}

/// Parses a whole diff: the hunks of each file. Files without hunks (renames, modes) are included.
pub fn parse_diff(text: &str) -> Result<Vec<Vec<DiffHunk>>, Complaint> {
    // The last line of the text may have lost its line end.
    let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    let closes =
        |line: &str| line.trim_end().len() >= 3 && line.trim_end().bytes().all(|byte| byte == b'`');
    let opens = lines
        .iter()
        .take_while(|line| !line.starts_with("@@") && !line.starts_with("--- "))
        .any(|line| line.starts_with("```"));
    // In a code fence, the last line belongs to the fence.
    let end = if opens && last > 0 && closes(lines[last - 1]) { last - 1 } else { lines.len() };
    let lines = &lines[..end];
    let mut files: Vec<Vec<DiffHunk>> = Vec::new();
    // The header lines after `diff --git` belong to that file.
    let mut is_open = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let complain = |message: &str| Complaint { line: at + 1, message: message.to_owned() };
        if line.starts_with("@@") {
            if files.is_empty() {
                files.push(Vec::new());
            }
            let (hunk, next) = parse_hunk(lines, at)?;
            if let Some(file) = files.last_mut() {
                file.push(hunk);
            }
            (at, is_open) = (next, false);
        } else if begins_file(lines, at) {
            if !is_open {
                files.push(Vec::new());
            }
            (at, is_open) = (at + 2, false);
        } else {
            if line.starts_with("diff --git ") {
                files.push(Vec::new());
                is_open = true;
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(complain(
                    "a diff of binary files cannot be applied; replace the whole file",
                ));
            } else if !files.iter().all(Vec::is_empty)
                && !line.trim().is_empty()
                && !HEADERS.split('|').any(|start| line.starts_with(start))
                && !is_trailer(lines, at)
            {
                return Err(complain(
                    "this is neither a header nor a line of a hunk, which begins with a space, `-`, `+` or `\\`; if it is a context line, its leading space is missing",
                ));
            } else if is_trailer(lines, at) {
                break;
            }
            at += 1;
        }
    }
    if files.iter().all(Vec::is_empty) {
        let message = "no hunk found: a diff has the lines `--- a/FILE`, `+++ b/FILE`, `@@ -1,3 +1,4 @@`, then lines that begin with a space, `-` or `+`";
        return Err(Complaint { line: 1, message: message.to_owned() });
    }
    Ok(files)
}

/// Whether the end of a mail by `git format-patch` begins here.
fn is_trailer(lines: &[&str], at: usize) -> bool {
    lines[at].trim_end_matches(['\r', '\n']) == "-- "
        && lines.get(at + 1).is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether the two header lines of a file begin here.
fn begins_file(lines: &[&str], at: usize) -> bool {
    let has = |at: usize, mark: &str| lines.get(at).is_some_and(|line| line.starts_with(mark));
    has(at, "--- ") && has(at + 1, "+++ ")
}

/// Parses the counts of a hunk's header, if it has them.
fn parse_counts(header: &str) -> Option<(usize, usize)> {
    let mut words = header.trim_start_matches('@').split_whitespace();
    let mut side = |mark: char| {
        let word = words.next()?.strip_prefix(mark)?;
        let (_, count) = word.split_once(',').unwrap_or((word, "1"));
        count.trim_end_matches('@').parse::<usize>().ok()
    };
    let (old, new) = (side('-'), side('+'));
    old.zip(new)
}

/// Parses one hunk from its header on, and returns the line after it.
fn parse_hunk(lines: &[&str], from: usize) -> Result<(DiffHunk, usize), Complaint> {
    let counts = parse_counts(lines[from]);
    let mut hunk = DiffHunk { line: from + 1, ..DiffHunk::default() };
    // The numbers of old and new lines so far, and the lengths of both texts before the empty lines at the end.
    let mut seen = (0, 0);
    let mut solid = (0, 0);
    let mut at = from + 1;
    let mut changes = false;
    while let Some(line) = lines.get(at) {
        let is_done = counts == Some(seen);
        let begins_file =
            begins_file(lines, at) && lines.get(at + 2).is_some_and(|next| next.starts_with("@@"));
        let is_last_pair = counts == Some((seen.0 + 1, seen.1 + 1));
        if begins_file && !is_last_pair || is_done && is_trailer(lines, at) {
            break;
        }
        let body = line.get(1..).unwrap_or_default();
        match line.as_bytes().first() {
            Some(mark @ (b' ' | b'-' | b'+')) => {
                if *mark != b'+' {
                    hunk.old.push_str(body);
                    seen.0 += 1;
                }
                if *mark != b'-' {
                    hunk.new.push_str(body);
                    seen.1 += 1;
                }
                changes |= *mark != b' ';
            }
            Some(b'\\') => {
                let before = lines[at - 1].as_bytes().first();
                let sides: &mut [&mut String] = match before {
                    Some(b'-') => &mut [&mut hunk.old],
                    Some(b'+') => &mut [&mut hunk.new],
                    _ => &mut [&mut hunk.old, &mut hunk.new],
                };
                for side in sides {
                    if side.ends_with('\n') {
                        side.pop();
                        if side.ends_with('\r') {
                            side.pop();
                        }
                    }
                }
            }
            _ if line.trim_end_matches(['\r', '\n']).is_empty() => {
                // This is an empty context line that lost its leading space, unless the hunk ended before it.
                hunk.old.push_str(line);
                hunk.new.push_str(line);
                seen = (seen.0 + 1, seen.1 + 1);
                at += 1;
                continue;
            }
            _ => break,
        }
        at += 1;
        solid = (hunk.old.len(), hunk.new.len());
    }
    if counts != Some(seen) {
        hunk.old.truncate(solid.0);
        hunk.new.truncate(solid.1);
    }
    if !changes {
        let message = "this hunk has no line that begins with `-` or `+`: write the lines to remove and to add";
        return Err(Complaint { line: from + 1, message: message.to_owned() });
    }
    Ok((hunk, at))
}
