//! Parses the line that a person types in answer to a question, of a run about an action or of a script about a
//! permission.

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Yes,
    /// Yes, from now on.
    Always,
    /// No, and why; the reason may be empty.
    No(String),
    /// Another word, in lower case: a choice that only some questions have, or a typing mistake.
    Word(String),
}

impl Answer {
    /// Parses a line. A yes must be the only word: "a better idea: use ls" is not "always" but the reason for a no.
    pub fn parse(line: &str) -> Self {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word.to_lowercase().as_str(), rest) {
            ("y" | "yes", "") => Self::Yes,
            ("a" | "always", "") => Self::Always,
            ("" | "n", why) => Self::No(why.to_owned()),
            ("no", "") => Self::No(String::new()),
            (word, "") if word.chars().count() == 1 => Self::Word(word.to_owned()),
            _ => Self::No(line.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_alone_is_a_yes() {
        let check = |line: &str, expect: Answer| assert_eq!(Answer::parse(line), expect, "{line}");
        check("y", Answer::Yes);
        check("YES", Answer::Yes);
        check("Always", Answer::Always);
        check("e", Answer::Word("e".into()));
        for (line, reason) in [("", ""), ("No", ""), ("n use make", "use make")] {
            check(line, Answer::No(reason.into()));
        }
        for line in
            ["no tests", "skip", "y but only in src", "a better idea: use ls", "yes, if it must be"]
        {
            check(line, Answer::No(line.into()));
        }
    }
}
