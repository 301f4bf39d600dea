//! Parses unified diffs as people, git and models write them. It does not look at the file that a hunk is meant for.
//!
//! ```text
//! diff   = file+ | hunk+                 the whole may be in one code fence; text before the first file is skipped
//! file   = git? "--- " name eol "+++ " name eol hunk*
//! git    = "diff --git " … and the lines that git writes below it: index, modes, renames
//! name   = as the module unified writes it, or as diff(1) does, with a tab and a time; /dev/null for no file
//! hunk   = "@@" numbers? "@@"? any eol line*
//! line   = (" " | "-" | "+") text eol | eol | "\" any eol
//! ```
//!
//! The lines of a hunk decide, not its counts, which models get wrong. The counts are used only to decide whether an
//! empty line at the end is a context line that lost its leading space, and whether `--- x` is a removed line or begins
//! another file. `\` means that the line before it has no line end.

use super::unified::ESCAPES;
use conversation::format::edit::Complaint;

/// The changes of a diff to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileDiff {
    /// The old path, without the `a/` prefix; `None` if there is no old file, or no name was given.
    pub old: Option<String>,
    /// The new path, without the `b/` prefix; `None` if there is no new file, or no name was given.
    pub new: Option<String>,
    /// Whether the diff creates the file.
    pub creates: bool,
    /// Whether the diff deletes the file.
    pub deletes: bool,
    /// Its hunks, in order.
    pub hunks: Vec<DiffHunk>,
}

/// Lines of the old file, and the lines that replace them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffHunk {
    /// The line of its `@@` in the diff, from 1.
    pub line: usize,
    /// The line of the old file at which it begins according to its header, from 1.
    pub at: Option<usize>,
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

/// Parses a whole diff. Files without hunks (renames, modes) are included.
pub fn parse_diff(text: &str) -> Result<Vec<FileDiff>, Complaint> {
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
    let mut files: Vec<FileDiff> = Vec::new();
    // The names after `diff --git` belong to that file.
    let mut is_open = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let complain = |message: &str| Complaint { line: at + 1, message: message.to_owned() };
        if line.starts_with("@@") {
            if files.is_empty() {
                files.push(FileDiff::default());
            }
            let (hunk, next) = parse_hunk(lines, at)?;
            if let Some(file) = files.last_mut() {
                file.hunks.push(hunk);
            }
            (at, is_open) = (next, false);
        } else if let Some((old, new)) = parse_names(lines, at) {
            if !is_open {
                files.push(FileDiff::default());
            }
            if let Some(file) = files.last_mut() {
                (file.creates, file.deletes) = (old.is_none(), new.is_none());
                (file.old, file.new) = (old, new);
            }
            (at, is_open) = (at + 2, false);
        } else {
            if line.starts_with("diff --git ") {
                files.push(FileDiff::default());
                is_open = true;
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(complain(
                    "a diff of binary files cannot be applied; replace the whole file",
                ));
            } else if !files.iter().all(|file| file.hunks.is_empty())
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
    if files.iter().all(|file| file.hunks.is_empty()) {
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

/// Parses the names in two header lines; `None` for `/dev/null`.
fn parse_names(lines: &[&str], at: usize) -> Option<(Option<String>, Option<String>)> {
    let old = lines.get(at)?.strip_prefix("--- ")?;
    let new = lines.get(at + 1)?.strip_prefix("+++ ")?;
    Some((parse_name(old, "a/"), parse_name(new, "b/")))
}

fn parse_name(text: &str, side: &str) -> Option<String> {
    let text = text.trim_end_matches(['\r', '\n']);
    let name = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted),
        // A tab and a time may follow.
        None => text.split('\t').next().unwrap_or(text).trim_end().to_owned(),
    };
    (name != "/dev/null").then(|| name.strip_prefix(side).map(str::to_owned).unwrap_or(name))
}

/// Decodes a name in git's quotes; the opening quote is already removed.
fn unquote(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => break,
            b'\\' => match rest.next() {
                Some(digit @ b'0'..=b'7') => {
                    let mut value = u32::from(digit - b'0');
                    for _ in 0..2 {
                        if let Some(next) =
                            rest.clone().next().filter(|next| (b'0'..=b'7').contains(next))
                        {
                            value = value * 8 + u32::from(next - b'0');
                            rest.next();
                        }
                    }
                    bytes.push(u8::try_from(value).unwrap_or(b'?'));
                }
                Some(letter) => {
                    let known = ESCAPES[1].iter().position(|known| *known == letter);
                    bytes.push(known.map_or(letter, |at| ESCAPES[0][at]));
                }
                None => break,
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses the first line and the counts of a hunk's header, if it has them.
fn parse_numbers(header: &str) -> (Option<usize>, Option<(usize, usize)>) {
    let mut words = header.trim_start_matches('@').split_whitespace();
    let mut side = |mark: char| {
        let word = words.next()?.strip_prefix(mark)?;
        let (first, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((first.parse::<usize>().ok()?, count.trim_end_matches('@').parse::<usize>().ok()?))
    };
    let (old, new) = (side('-'), side('+'));
    (old.map(|(first, _)| first), old.zip(new).map(|((_, old), (_, new))| (old, new)))
}

/// Parses one hunk from its header on, and returns the line after it.
fn parse_hunk(lines: &[&str], from: usize) -> Result<(DiffHunk, usize), Complaint> {
    let (first, counts) = parse_numbers(lines[from]);
    let mut hunk = DiffHunk { line: from + 1, at: first, ..DiffHunk::default() };
    // The numbers of old and new lines so far, and the lengths of both texts before the empty lines at the end.
    let mut seen = (0, 0);
    let mut solid = (0, 0);
    let mut at = from + 1;
    let mut changes = false;
    while let Some(line) = lines.get(at) {
        let is_done = counts == Some(seen);
        let begins_file = parse_names(lines, at).is_some()
            && lines.get(at + 2).is_some_and(|next| next.starts_with("@@"));
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
