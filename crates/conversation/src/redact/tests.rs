//! Tests of the masks: values, streams, cuts.

use proptest::prelude::*;

use super::*;

const SECRET: &str = "canary-value, 99 words";

fn redactor() -> Redactor {
    Redactor::new([("A_TOKEN", SECRET)])
}

#[test]
fn values_that_are_known_are_masked() {
    let redactor = Redactor::new([
        ("A_TOKEN", "plain words in it"),
        ("SHORT_KEY", "1234567"),
        ("B_KEY", "plain words in it and more"),
        ("Q_SECRET", "with \"quotes\" in"),
        ("MULTI_KEY", "first line of sixteen\nsecond line of sixteen"),
    ]);
    let check = |text: &str, expect: &str| {
        assert_eq!(redactor.redact_text(text.to_owned()).0, expect);
    };
    check("xplain words in itx", "x[key A_TOKEN]x");
    check("plain words in it and more", "[key B_KEY]");
    check("1234567", "1234567");
    check(r#"{"a":"with \"quotes\" in"}"#, r#"{"a":"[key Q_SECRET]"}"#);
    check("2: second line of sixteen", "2: [key MULTI_KEY]");
    assert!(redactor.find_mask("x [key A_TOKEN] y").is_some());
    assert!(redactor.find_mask("x [key OTHER] y").is_none());
    assert!(Redactor::new([("A_KEY", "short")]).is_idle());
}

#[test]
fn what_stands_beside_a_cut_is_taken_away() {
    let redactor = Redactor::new([("A_TOKEN", "canary-value")]);
    let check = |text: &str, expect: &str| {
        assert_eq!(redactor.redact_cut_lines(text.to_owned()).0, expect);
    };
    check("a.txt:1: …nary-value is canary-va…", "a.txt:1: … is …");
    check("no part of it… and none", "no part of it… and none");
}

#[test]
fn a_stream_is_masked_as_the_whole_is() {
    // Secrets around every place where a piece may be cut, on lines and on one endless line.
    for (filler, before) in [("an ordinary line of text\n", "\n"), ("endless ", "")] {
        let mut text = String::new();
        while text.len() < 280 << 10 {
            text.push_str(&filler.repeat(40));
            text.push_str(&format!("{before}{SECRET}{before}"));
        }
        let redactor = redactor();
        let mut stream = Stream::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(60_001) {
            out.extend(stream.push(&redactor, chunk));
        }
        out.extend(stream.finish(&redactor));
        let (whole, count) = redactor.redact_text(text);
        assert!(out == whole.as_bytes(), "the stream differs from the whole");
        assert_eq!(stream.count, count);
        assert!(!whole.contains("canary"));
    }
}

#[test]
fn passwords_of_addresses() {
    let check = |text: &str, expect: Option<&str>| {
        assert_eq!(url_password(text.as_bytes()), expect.map(str::as_bytes), "{text}");
    };
    check("postgres://app:hunter2!x@db.example/app", Some("hunter2!x"));
    check("jdbc:sqlserver://db;user=sa;password=hunter2", Some("hunter2"));
    check("https://example.org/a?b=c", None);
    check("ssh://git@example.org/a:b", None);
}

proptest! {
    #[test]
    fn text_stays_text_and_masks_stay(text in any::<String>(), tail in "\\PC{0,8}") {
        let redactor = redactor();
        let (once, _) = redactor.redact_text(format!("{text}{SECRET}{tail}"));
        let (twice, count) = redactor.redact_text(once.clone());
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(count, 0);
        prop_assert_eq!(once, format!("{text}[key A_TOKEN]{tail}"));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let redactor = Redactor::new([("A_KEY", "12345678")]);
        redactor.redact_bytes(&bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        redactor.redact_cut_lines(text);
    }
}
