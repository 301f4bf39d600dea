//! Describes for the model why a check failed: the end of its output, and the lines before it that look like failures. At
//! the next try, only what is new.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use conversation::format::harmless::truncate;
use conversation::limits;

/// Marks of a line that says what failed.
const FAILURES: [&str; 8] =
    ["not ok", "FAIL", "error", "Error", "panicked", "Traceback", "\u{2716}", "\u{2717}"];

/// The lines of the output of the last failed check, as hashes.
#[derive(Debug, Default)]
pub(super) struct LastOutput {
    hasher: RandomState,
    lines: HashSet<u64>,
    /// The hash of the whole output.
    whole: Option<u64>,
}

impl LastOutput {
    /// Describes the output `whole`, of which `body` has at least the end, and remembers it. `keep`: the bytes of its end
    /// that are shown. `place` says where all of it is.
    pub(super) fn describe(&mut self, body: &str, whole: &str, keep: usize, place: &str) -> String {
        let hash = |text: &str| self.hasher.hash_one(text);
        let known = std::mem::take(&mut self.lines);
        self.lines = whole.lines().map(hash).collect();
        let last = self.whole.replace(hash(whole));
        if last == self.whole {
            return "[the same output as at the last try]".to_owned();
        }
        let is_new = |line: &&str| last.is_none() || !known.contains(&hash(line));
        let mut end = &body[body.ceil_char_boundary(body.len().saturating_sub(keep))..];
        if end.len() < body.len() {
            end = end.find('\n').map_or(end, |at| &end[at + 1..]);
        }
        let total = whole.lines().count();
        let omitted = total.saturating_sub(end.lines().count());
        let is_failure = |line: &str| FAILURES.iter().any(|mark| line.contains(mark));
        let failures = whole.lines().take(omitted).zip(1..);
        let failures = failures.filter(|(line, _)| is_failure(line) && is_new(line));
        let mut lines: Vec<String> = failures
            .take(limits::CHECK_FAILURES)
            .map(|(line, number)| format!("{number}:{}", truncate(line, limits::GREP_LINE)))
            .collect();
        if omitted > 0 {
            let shown =
                if lines.is_empty() { "" } else { "; above are those that look like failures" };
            lines.push(format!(
                "[\u{2026} lines 1 to {omitted} of {total} omitted{place}{shown} \u{2026}]"
            ));
        }
        let news: Vec<&str> = end.lines().filter(is_new).collect();
        let old = end.lines().count() - news.len();
        lines.extend(news.into_iter().map(str::to_owned));
        if old > 0 {
            let gone = known.difference(&self.lines).count();
            lines.push(format!(
                "[{old} lines as at the last try are left out; {gone} lines of it are gone]"
            ));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_shown_and_then_only_what_is_new() {
        let mut last = LastOutput::default();
        let mut all: Vec<String> = (1..=5_000).map(|n| format!("ok {n} - passes")).collect();
        all[1_531] = "not ok 1532 - colours".into();
        all.push("# fail 1".into());
        let text = last.describe(&all.join("\n"), &all.join("\n"), 400, ": read F");
        assert!(text.starts_with("1532:not ok 1532 - colours\n[\u{2026} lines 1 to 49"), "{text}");
        assert!(
            text.contains("of 5001 omitted: read F; above are") && text.ends_with("\n# fail 1")
        );
        assert!(text.len() < 700, "{}", text.len());
        let same = last.describe(&all.join("\n"), &all.join("\n"), 400, "");
        assert_eq!(same, "[the same output as at the last try]");
        all[1_531] = "ok 1532 - colours".into();
        all[1_600] = "not ok 1601 - others".into();
        let text = last.describe(&all.join("\n"), &all.join("\n"), 400, "");
        assert!(text.starts_with("1601:not ok 1601 - others\n"), "{text}");
        assert!(
            text.ends_with(" lines as at the last try are left out; 2 lines of it are gone]"),
            "{text}"
        );
        let short = last.describe("a\nb", "a\nb", 400, "");
        assert_eq!(short, "a\nb");
    }
}
