//! Pictures and documents that a line names by their whole path: terminals paste that where a file is dropped on them,
//! within quotes, with backslashes or as an address (`file://`).

use std::path::{Path, PathBuf};

use models::sniff::detect_by_mark;
use sys::fs;
use sys::names::expand_home;

/// The pictures and documents among the words of a line that are whole paths.
pub(super) fn find_dropped_files(line: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let words = split_words(line).into_iter();
    let paths = words.map(|word| expand_home(Path::new(word.trim_start_matches("file://")), home));
    let is_shown = |path: &PathBuf| {
        path.is_absolute()
            && fs::read_start(path, 16).is_some_and(|head| detect_by_mark(&head).is_some())
    };
    paths.filter(is_shown).collect()
}

/// Splits a line into words as a shell does. A quote without an end, as in “don't”, is a letter.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let is_start = words.last().is_some_and(String::is_empty);
        let Some(word) = words.last_mut() else { break };
        match c {
            '\\' => {
                let next = rest.chars().next();
                word.extend(next);
                rest = &rest[next.map_or(0, char::len_utf8)..];
            }
            '"' | '\'' if is_start && rest.contains(c) => {
                let (quoted, behind) = rest.split_once(c).unwrap_or((rest, ""));
                word.push_str(quoted);
                rest = behind;
            }
            c if c.is_whitespace() => words.push(String::new()),
            c => word.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_terminals_paste_them() {
        let check = |line: &str, expect: &[&str]| assert_eq!(split_words(line), expect, "{line}");
        check("'/a b/c.png' what's it?", &["/a b/c.png", "what's", "it?"]);
        check("see /a\\ b/c.png", &["see", "/a b/c.png"]);
        check("\"/a b.png\"\"/c\" x\\", &["/a b.png\"/c\"", "x"]);
    }
}
