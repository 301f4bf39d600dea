//! Summarizes a piece of a file in a few words: its first and its last definition, or its first and its last line.
//!
//! A definition is a line that looks like one in most languages; this is good enough to find the right piece of a file.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum number of characters of a line that are shown.
const SHOWN: usize = 60;

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    let words = "fn|def|class|struct|enum|impl|trait|func|function|interface|type|module|namespace|object|macro_rules!";
    let before = r"(?:(?:pub(?:\([a-z]+\))?|export|default|async|static|public|private|protected|abstract|final|unsafe)\s+)*";
    Regex::new(&format!(r"^(?:\s{{0,8}}{before}(?:{words})\s+\w|#{{1,4}} \w|\w[\w\s*]*\([^;]*$)"))
        .expect("a constant pattern")
});

/// The first and the last definition of a text; without one, its first and its last line.
pub fn describe_text(text: &str) -> String {
    let lines = || text.lines().filter(|line| line.chars().any(char::is_alphanumeric));
    let mut definitions = lines().filter(|line| DEFINITION.is_match(line));
    let (first, last) = match definitions.next() {
        Some(first) => (first, definitions.next_back()),
        None => (lines().next().unwrap_or_default(), lines().skip(1).last()),
    };
    match last {
        Some(last) => format!("{} … {}", shorten(first), shorten(last)),
        None => shorten(first),
    }
}

fn shorten(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.trim_end_matches(['{', ':', ' ']).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_definition_are_named() {
        let check = |text: &str, expect: &str| assert_eq!(describe_text(text), expect);
        check(
            "import os\nclass A(B):\n    def f(self):\n        x = f(1)\n",
            "class A(B) … def f(self)",
        );
        check("use x;\n\npub(crate) fn one() {\n    two();\n}\n", "pub(crate) fn one()");
        check(
            "static int\nfind(const char *s)\n{\n  return g(s);\n}\nint main(void) {\n",
            "find(const char *s) … int main(void)",
        );
        check("# Title\nwords\n## Part\n", "# Title … ## Part");
        check("09:00 a\n\n09:01 b\n09:02 c\n", "09:00 a … 09:02 c");
        check(&"x".repeat(100), &format!("{}…", "x".repeat(60)));
        check("", "");
    }
}
