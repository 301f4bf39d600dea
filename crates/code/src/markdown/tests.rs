//! Where Markdown may be cut, and where not.

use super::*;
use crate::cutter::cut_text;
use crate::cutter::tests::{bytes, check as check_parts, split};
use crate::language::Language::Markdown;
use proptest::prelude::*;

#[track_caller]
fn check(target: u64, text: &str, expect: &[&str]) {
    check_parts(Markdown, target, text, expect);
}

#[test]
fn a_heading_opens_a_segment_and_never_ends_one() {
    check(
        24,
        "# One\n\ntext text\n\n# Two\n\ntext\n",
        &["# One\n\ntext text\n\n", "# Two\n\ntext\n"],
    );
    // The shallower heading, though the deeper one comes later.
    check(
        30,
        "# A\n\ntext\n\n# B\n\ntext\n\n## C\n\ntext\n",
        &["# A\n\ntext\n\n", "# B\n\ntext\n\n## C\n\ntext\n"],
    );
    // Setext; a heading behind a heading.
    check(
        32,
        "para para para\n\nTitle\n=====\n\n## Sub\n\ntext text text\n",
        &["para para para\n\n", "Title\n=====\n\n## Sub\n\ntext text t", "ext\n"],
    );
    // No headings: a hash in a fence, one without a blank.
    check(
        40,
        "text\n\n```\n# no heading\n# nor this\n```\n\n#tag\n\ntext text\n",
        &["text\n\n```\n# no heading\n# nor this\n```\n\n", "#tag\n\ntext text\n"],
    );
}

#[test]
fn blocks_that_fit_stay_whole() {
    let fence = "```\nlet a;\n\nlet b;\n```\n";
    check(30, &format!("text of some length\n\n{fence}"), &["text of some length\n\n", fence]);
    let table = "| a | b |\n|---|---|\n| 1 | 2 |\n";
    check(40, &format!("text of some length\n\n{table}"), &["text of some length\n\n", table]);
    let front = "---\ntitle: a\n\ntags: b\n---\n";
    check(34, &format!("{front}# Heading\n\ntext\n"), &[front, "# Heading\n\ntext\n"]);
    check(
        34,
        &format!("\u{feff}{front}# Heading\n\ntext\n"),
        &[&format!("\u{feff}{front}"), "# Heading\n\ntext\n"],
    );
}

#[test]
fn blocks_that_do_not_fit_are_cut_at_their_items_rows_and_lines() {
    check(
        24,
        "- one\n  more\n- two\n  more\n- three\n",
        &["- one\n  more\n", "- two\n  more\n- three\n"],
    );
    // The head of a table stays with its first row.
    check(
        32,
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n",
        &["| a | b |\n|---|---|\n| 1 | 2 |\n", "| 3 | 4 |\n| 5 | 6 |\n"],
    );
    check(
        24,
        "```\none one\ntwo two\n\nthree three\n# four\n```\n",
        &["```\none one\ntwo two\n\n", "three three\n# four\n```\n"],
    );
    // What is named but shows as nothing.
    check(24, "[a]: http://a/\n[b]: http://b/\n", &["[a]: http://a/\n", "[b]: http://b/\n"]);
}

#[test]
fn bytes_that_are_no_utf8_leave_offsets_as_they_are() {
    let parts = split(Markdown, b"\xff\xfe text \xe2\x82\n\n# H\n\nt\xe9xt text\n", 20);
    assert_eq!(parts, [&b"\xff\xfe text \xe2\x82\n\n"[..], b"# H\n\nt\xe9xt text\n"]);
}

#[test]
fn what_is_nested_beyond_all_measure_takes_no_time() {
    for mark in [">", "> ", "- ", "1. ", " "] {
        let text = format!("{}x\n\n# Heading\n\nend\n", mark.repeat(200_000));
        let at = text.find('#').unwrap() as u64;
        assert!(windows(&text, text.len(), 1000).contains(&(at, 0)), "{mark}");
    }
}

#[test]
fn natural_cuts_at_every_heading_that_follows_none() {
    let rules = CutRules { target: 1000, natural: true };
    let text = "# A\n\n## B\n\ntext\n\n### C\n\n- item\n";
    assert_eq!(cut_text(Markdown, text.as_bytes(), rules), [(0, 17), (17, text.len() as u64)]);
}

/// Reads in windows of a size, as the cutter does with large ones.
fn windows(text: &str, size: usize, target: u64) -> Vec<(u64, u32)> {
    let (mut at, mut found) = (0, Vec::new());
    let rules = CutRules { target, natural: false };
    while at < text.len() {
        let end = (at + size).min(text.len());
        let piece = &text.as_bytes()[at..end];
        let last = end == text.len();
        let window = boundaries(piece, rules, at == 0, last, &mut || false).unwrap();
        assert!(window.end > 0);
        let absolute = |boundary: &CutBoundary| (at as u64 + boundary.at, boundary.level);
        found.extend(window.boundaries.iter().map(absolute));
        at += window.end;
    }
    found
}

#[test]
fn windows_make_no_difference() {
    let text =
        "# A\n\ntext\n\n- a\n- b\n\n```\n# no\n```\n\nTitle\n---\n\n| a |\n|---|\n| b |\n\nend\n"
            .repeat(9);
    let whole = windows(&text, text.len(), 100);
    for size in [60, 100, 117] {
        assert_eq!(windows(&text, size, 100), whole, "{size}");
    }
}

proptest! {
    #[test]
    fn no_heading_is_a_segments_last_line_when_what_follows_fits(bytes in bytes(), target in 60u64..200) {
        // In a fence that nobody closes it would be no heading.
        let text = String::from_utf8_lossy(&bytes).replace("```", "words");
        let text = format!("{text}\n\n");
        for part in split(Markdown, format!("{text}# Title\n\nshort\n").as_bytes(), target) {
            prop_assert!(!part.ends_with(b"# Title\n") && !part.ends_with(b"# Title\n\n"));
        }
    }
}
