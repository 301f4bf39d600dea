//! Reads edits as models write them: blocks, a unified diff in their place, and lines with the numbers of a listing.

use conversation::format::edit::{self, Complaint, EditBlock};

use crate::diff::parse::{is_diff, parse_diff};

/// Parses the blocks of a text, or the hunks of a diff of one file.
///
/// # Errors
/// It is neither, or has a mistake.
pub fn parse_edits(text: &str) -> Result<Vec<EditBlock>, Complaint> {
    if text.lines().any(|line| line.starts_with("<<<<<<<")) || !is_diff(text) {
        return edit::parse(text);
    }
    let mut files = parse_diff(text)?;
    files.retain(|hunks| !hunks.is_empty());
    if files.len() != 1 {
        let message = format!("a diff of {} files: an edit is of one file", files.len());
        return Err(Complaint { line: 1, message });
    }
    let whole =
        |text: String| if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
    let block = files.into_iter().flatten().map(|hunk| EditBlock {
        search: whole(hunk.old),
        replace: whole(hunk.new),
        line: hunk.line,
    });
    Ok(block.collect())
}

/// Takes the numbers off the lines of a block, as in `12:let x = 1;`, if those of the search agree with the file.
pub fn remove_numbers(block: &mut EditBlock, file: &str) {
    let numbered = |line: &str| {
        let (number, text) = line.split_once(':')?;
        Some((number.trim_start().parse::<usize>().ok()?, text.to_owned()))
    };
    let lines: Vec<&str> = file.lines().collect();
    let is_same = |line: &str| {
        let found = numbered(line)?;
        (lines.get(found.0.checked_sub(1)?) == Some(&found.1.as_str())).then_some(found.1)
    };
    let search: Option<Vec<String>> = block.search.lines().map(is_same).collect();
    let Some(search) = search.filter(|search| !search.is_empty()) else { return };
    block.search = search.join("\n") + "\n";
    let plain =
        |line: &str| numbered(line).map_or_else(|| line.to_owned(), |(_, text)| text) + "\n";
    block.replace = block.replace.lines().map(plain).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_stands_for_blocks_and_numbers_go_where_they_agree() {
        let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n@@ -9 +9 @@\n-q\n+r\n";
        let blocks = parse_edits(diff).unwrap();
        let sides: Vec<_> =
            blocks.iter().map(|it| (it.search.as_str(), it.replace.as_str())).collect();
        assert_eq!(sides, [("x\ny\n", "x\nz\n"), ("q\n", "r\n")]);
        let two = diff.to_owned() + "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n";
        assert!(parse_edits(&two).unwrap_err().message.contains("a diff of 2 files"));
        let text =
            "<<<<<<< SEARCH\n2:    return x\n=======\n2:    return y\n    # new\n>>>>>>> REPLACE\n";
        let mut block = parse_edits(text).unwrap().remove(0);
        let before = block.clone();
        remove_numbers(&mut block, "def f():\n    return z\n");
        assert_eq!(block, before, "the file has something else there");
        remove_numbers(&mut block, "def f():\n    return x\n");
        assert_eq!(
            (block.search.as_str(), block.replace.as_str()),
            ("    return x\n", "    return y\n    # new\n")
        );
    }
}
