//! Lines that are too long to be shown whole, and matches in them: what the results say of them.

use crate::actions::{error, ok};
use crate::sandbox::Sandbox;

#[test]
fn a_line_that_is_too_long_to_read_is_cut_with_a_mark() {
    let sandbox = Sandbox::new().file("a.txt", format!("{}\nsecond\n", "x".repeat(90_000)));
    for range in ["limit=\"1\"", "limit=\"2\"", "offset=\"1\""] {
        let tag = format!("<nagent-read path=\"a.txt\" {range}/>");
        let block = ok(&sandbox, &tag, "nagent-read-result");
        let (_, mark) = block.body.trim_end().split_once('\n').unwrap();
        for part in
            ["[… line 1 is longer: only its first 65536 bytes", "nagent-file-read", "offset=\"2\""]
        {
            assert!(mark.contains(part), "{mark}");
        }
    }
}

#[test]
fn an_edit_in_a_long_line_shows_what_is_around_it() {
    let line: Vec<String> = (0..3_000).map(|n| format!("\"k{n}\": \"v{:02}\"", n % 50)).collect();
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.json");
    std::fs::write(&path, format!("{{{}}}\n", line.join(", "))).unwrap();
    let tag = |from: &str, to: &str, all: &str| {
        format!(
            "<nagent-edit path=\"../tmp/a.json\"{all}>\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n</nagent-edit>"
        )
    };
    let block = ok(&sandbox, &tag("\"k1500\": ", "\"new\": ", ""), "nagent-edit-result");
    let (body, mark) = (&block.body, "\"new\": \"v00\", \"k1501\"");
    assert!(body.starts_with("line 1: -1 +1\n1:…") && body.contains(mark), "{body}");
    assert!((1_500..2_200).contains(&body.len()), "{}", body.len());
    let block = error(&sandbox, &tag("\"k77", "\"z77", ""), "nagent-edit-result");
    assert!(
        block.body.contains("occurs 11 times in line 1") && block.body.len() < 1_500,
        "{block:?}"
    );
    let block = ok(&sandbox, &tag("\"v07\"", "\"w\"", " all=\"true\""), "nagent-edit-result");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!((block.get("replaced"), text.matches("\"w\"").count()), ("60", 60));
}

#[test]
fn a_grep_counts_matches_and_lines() {
    let sandbox = Sandbox::new().file("a.txt", "one one\none\n");
    let block = ok(&sandbox, "<nagent-grep pattern=\"one\"/>", "nagent-grep-result");
    assert_eq!((block.get("lines"), block.get("matches")), ("2", "3"));
    assert_eq!(block.body.trim_end(), "a.txt\n1:one one\n2:one");
}
