//! Pictures and documents that a line names by their whole path: terminals paste that where a file is dropped on them,
//! within quotes, with backslashes or as an address (`file://`).

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use models::sniff::detect_by_mark;
use percent_encoding::percent_decode_str;
use regex::Regex;
use sys::names::expand_home;
use sys::read::read_range;

static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"'([^']+)'|"([^"]+)"|(?:\\.|[^\s\\])+"#).expect("a constant pattern")
});
static ESCAPED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\(.)").expect("a constant pattern"));

/// The pictures and documents among the words of a line that are whole paths.
pub(super) fn find_dropped_files(line: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let words = split_words(line);
    let path = |word: String| match word.strip_prefix("file://") {
        Some(address) => percent_decode_str(address).decode_utf8_lossy().into_owned(),
        None => word,
    };
    let paths = words.map(|word| expand_home(Path::new(&path(word)), home));
    let is_shown = |path: &PathBuf| {
        path.is_absolute()
            && read_range(path, 0, 16).is_ok_and(|(_, head)| detect_by_mark(&head).is_some())
    };
    paths.filter(is_shown).collect()
}

/// Splits a line into words as a shell does. A quote within a word, as in “don’t”, is a letter.
fn split_words(line: &str) -> impl Iterator<Item = String> {
    WORD.captures_iter(line).map(|word| match word.get(1).or(word.get(2)) {
        Some(quoted) => quoted.as_str().to_owned(),
        None => ESCAPED.replace_all(&word[0], "$1").into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn words_as_terminals_paste_them() {
        let check = |line: &str, expect: &[&str]| {
            assert_eq!(split_words(line).collect::<Vec<_>>(), expect, "{line}");
        };
        check("'/a b/c.png' what's it?", &["/a b/c.png", "what's", "it?"]);
        check("see /a\\ b/c.png", &["see", "/a b/c.png"]);
        check("\"/a b.png\" \"/c\"", &["/a b.png", "/c"]);
    }

    #[test]
    fn an_address_is_decoded() {
        let mut file = tempfile::Builder::new().prefix("My Pic").suffix(".png").tempfile().unwrap();
        file.write_all(b"\x89PNG\r\n\x1a\n").unwrap();
        let path = file.path().to_owned();
        let line = format!("file://{} what is it?", path.display()).replace("My Pic", "My%20Pic");
        assert_eq!(find_dropped_files(&line, None), [path]);
    }
}
