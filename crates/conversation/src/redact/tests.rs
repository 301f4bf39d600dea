//! Tests of the masks: each row of the table, what is none, streams, cuts, the lines of private keys.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::shapes::Shape;
use super::*;

const SALT: &[u8] = b"a key of this machine";

fn redactor() -> Redactor {
    Redactor::new([], Some(SALT))
}

fn masked(text: &str) -> (String, u64) {
    redactor().redact_text(text.to_owned())
}

/// A private key as `openssl genrsa` writes one.
fn pem(end: &str) -> String {
    let line = |n: usize| {
        let text = encode_hex(&Sha256::digest([u8::try_from(n).unwrap()]));
        format!("{text}{end}")
    };
    let begin = concat!("-----BEGIN RSA PRIV", "ATE KEY-----");
    let last = concat!("-----END RSA PRIV", "ATE KEY-----");
    let body: String = (0..25).map(line).collect();
    format!("{begin}{end}{body}AbCd12=={end}{last}{end}")
}

/// A text with a secret for each of [`SHAPES`], put together from parts so that scanners of repositories do not report it.
const EXAMPLES: &[&str] = &[
    concat!("sk-ant", "-api03-Zq8xW2rTn5vLk9Bd"),
    concat!("sk-or", "-v1-8d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("sk", "-proj-9aZ3kLm0QxR7tYv2Bn5C"),
    concat!("AIza", "SyB9x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn"),
    concat!("ya29", ".a0AfB_byC9x2Lk0QmR7tYv3Bn5C"),
    concat!("GOCSPX", "-x2Lk0QmR7tYv3Bn5CdW8eFgH1jK"),
    concat!("ghp", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z"),
    concat!("github", "_pat_11ABCDEFG0x2Lk0QmR7tYv_3Bn5C"),
    concat!("glpat", "-x2Lk0QmR7tYv3Bn5CdW8"),
    concat!("xoxb", "-2048-4096-x2Lk0QmR7tYv"),
    concat!("xapp", "-1-A02-4096-x2lk0qmr7tyv"),
    concat!("https://hooks.slack", ".com/services/T0A/B0C/x2Lk0QmR7tYv3Bn5"),
    concat!(
        "https://discord",
        ".com/api/webhooks/204840960020484096/x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9"
    ),
    concat!("k", "ey-8d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("8d0c6f2ab94e7135d0c6f2ab94e71350", "-8d0c6f2a-b94e7135"),
    concat!("{\"au", "th\": \"dXNlcjp4MkxrMFFtUjd0WXY=\"}"),
    concat!("client-key", "-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2"),
    concat!("AKIA", "X2LK7QMR7TYV3BN5"),
    concat!("\"SecretAccess", "Key\": \"x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9/+aZb\""),
    concat!("aws_secret", "_access_key = x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9/+aZb"),
    concat!(
        "aws_session",
        "_token=IQoJb3JpZ2luX2VjEJx2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9IQoJb3JpZ2luX2VjEJx2Lk0QmR7tYv3B"
    ),
    concat!("Account", "Key=x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9x2Lk0QmR="),
    concat!("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0In0", ".x2Lk0QmR7tYv3Bn5CdW8"),
    concat!("npm", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z"),
    concat!("//registry.npmjs.example/:_auth", "Token=x2Lk0QmR7tYv3Bn5CdW8"),
    concat!("pypi", "-AgEIcHlwaS5vcmcCJx2Lk0QmR7tYv3Bn5CdW8"),
    concat!("cio", "x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    concat!("rubygems", "_8d0c6f2ab94e7135d0c6f2ab94e71350d0c6f2ab94e71350"),
    concat!("hf", "_x2LkQmRtYvBnCdWeFgHjKlMnPqZaBcDe1"),
    concat!("dop_v1", "_8d0c6f2ab94e7135d0c6f2ab94e713508d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("sk_live", "_x2Lk0QmR7tYv3Bn5CdW8"),
    concat!("whsec", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl"),
    concat!("SG", ".x2Lk0QmR7tYv3Bn5CdW8eg.FgH1jKl4Mn6Pq9x2Lk0QmR7tYv3B"),
    concat!("SK", "8d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("shpat", "_8d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("2048409600:AA", "Hx2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    concat!("hvs", ".CAESIx2Lk0QmR7tYv3Bn5CdW8eFg"),
    concat!("dapi", "8d0c6f2ab94e7135d0c6f2ab94e71350"),
    concat!("dckr_pat", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jK"),
    concat!("ATATT3", "xFfGF0x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z=AB12"),
    concat!("lin_api", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    concat!("gsk", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl"),
    concat!("AGE-SECRET", "-KEY-1X2LK0QMR7TYV3BN5CDW8EFGH1JKL4MN6PQ9X2LK0QMR7TYV3BN5CDW8E"),
    concat!("Authorization: Bea", "rer x2Lk0QmR7tYv3Bn5"),
    concat!("-H 'Bea", "rer x2Lk0QmR7tYv3Bn5CdW8eF'"),
    concat!("x-api", "-key: x2Lk0QmR7tYv3Bn5"),
    concat!("Set-Coo", "kie: sessionid=x2Lk0QmR7tYv3Bn5CdW8"),
    concat!("postgres://user", ":hunter2!x@db.example/app"),
    concat!("machine git.example login me pass", "word hunter2!x"),
    concat!("DB_PASS", "WORD=tR7!vB3#qL9x"),
    concat!("DEPLOY_TO", "KEN=x2Lk0QmR7tYv3Bn5"),
    concat!("\"clientSec", "ret\": \"x2Lk0QmR7tYv3Bn5\""),
    concat!("auth_to", "ken: x2Lk0QmR7tYv3Bn5CdW8"),
];

#[test]
fn every_example_of_the_table_is_masked_under_its_name() {
    assert_eq!(SHAPES.len(), EXAMPLES.len());
    for (Shape { name, .. }, example) in SHAPES.iter().zip(EXAMPLES) {
        for text in [
            (*example).to_owned(),
            format!("a line before\n{example}\nand one after"),
            format!("a line before\r\n{example}\r\nand one after"),
        ] {
            let (shown, count) = masked(&text);
            assert_eq!(count, 1, "{name}: {shown}");
            assert!(shown.contains(&format!("[masked {name} ")), "{name}: {shown}");
            let secret = example.rsplit([' ', '=', '"', ':', '\'']).find(|part| part.len() > 8);
            assert!(!shown.contains(secret.unwrap()), "{name}: {shown}");
            assert_eq!(masked(&shown), (shown.clone(), 0), "a mask is no secret");
        }
    }
    let names: BTreeSet<_> = SHAPES.iter().map(|shape| shape.name).collect();
    assert!(names.len() >= 30, "{}", names.len());
}

#[test]
fn a_secret_key_is_a_secret_however_it_is_spelled() {
    for text in [
        concat!("secret", "_key: x2Lk0QmR7tYv3Bn5"),
        concat!("app.secret", "-key = \"x2Lk0QmR7tYv3Bn5\""),
        concat!("{\"secret", "Key\": \"x2Lk0QmR7tYv3Bn5\"}"),
    ] {
        let (shown, count) = masked(text);
        assert!(count == 1 && shown.contains("[masked secret "), "{shown}");
    }
}

#[test]
fn what_only_looks_like_one_stays() {
    for text in [
        "sk-fading-circle-container-large",
        "let token = self.tokens2.next_token();",
        "password: String,",
        "const API_KEY: &str = env!(\"API_KEY\");",
        "TOKEN=$(cat token.txt)",
        "PASSWORD=${PASSWORD:-}",
        "MAX_TOKENS=200000",
        "max_tokens: 4096",
        "https://example.com:8080/a@b",
        "git@github.com:owner/name.git",
        "ssh://git@host/path",
        "https://user@host/",
        "token_path = \"src/protocol/token2.rs\"",
        "\"tokenizer\": \"org/model-7b-instruct-v0.2\"",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "550e8400-e29b-41d4-a716-446655440000",
        concat!(
            "const B: &str = \"-----BEGIN PRIV",
            "ATE KEY-----\"; const E: &str = \"-----END PRIV",
            "ATE KEY-----\";"
        ),
        "SECRET_EXPIRES=2026-01-01T00:00:00Z",
        "{\"auth\": \"passportLocalAuth\"}",
        "key-0d9a",
        "the password is on the note",
        "secret_key_base: <%= ENV['SECRET'] %>",
        "KEY_SECRET_NAME=projects/a/secrets/b",
        "[key OPENAI_API_KEY] and [masked github-token 0a1b2c3d]",
    ] {
        assert_eq!(masked(text), (text.to_owned(), 0));
    }
}

#[test]
fn the_same_secret_has_the_same_mask_and_another_key_another_word() {
    let a = concat!("ghp", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z");
    let b = concat!("ghp", "_y2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z");
    let (shown, count) = masked(&format!("{a} {b} {a}"));
    assert_eq!(count, 3);
    let words: Vec<&str> = shown.split("] ").map(|part| part.trim_end_matches(']')).collect();
    assert_eq!(words[0], words[2]);
    assert_ne!(words[0], words[1]);
    let other = Redactor::new([], Some(b"another".as_slice())).redact_text(a.to_owned()).0;
    assert_ne!(other, format!("{}]", words[0]));
}

#[test]
fn values_that_are_known_are_masked_without_any_shape() {
    let redactor = Redactor::new(
        [
            ("A_TOKEN", "plain words in it"),
            ("SHORT_KEY", "1234567"),
            ("B_KEY", "plain words in it and more"),
            ("Q_SECRET", "with \"quotes\" in"),
            ("MULTI_KEY", "first line of sixteen\nsecond line of sixteen"),
        ],
        None,
    );
    let check = |text: &str, expect: &str| {
        assert_eq!(redactor.redact_text(text.to_owned()).0, expect);
    };
    check("xplain words in itx", "x[key A_TOKEN]x");
    check("plain words in it and more", "[key B_KEY]");
    check("1234567", "1234567");
    check(r#"{"a":"with \"quotes\" in"}"#, r#"{"a":"[key Q_SECRET]"}"#);
    check("2: second line of sixteen", "2: [key MULTI_KEY]");
    check(EXAMPLES[0], EXAMPLES[0]);
    assert!(redactor.find_mask("x [key A_TOKEN] y").is_some());
    assert!(redactor.find_mask("x [key OTHER] y").is_none());
    assert!(redactor.find_mask("[masked github-token 0a1b2c3d]").is_some());
    assert!(redactor.find_mask("[masked github-token WORD] [masked dog 0a1b2c3d]").is_none());
    assert!(Redactor::new([("A_KEY", "short")], None).is_idle());
}

#[test]
fn private_keys_go_whole_however_they_are_shown() {
    let whole = pem("\n");
    let numbered: String =
        whole.lines().enumerate().map(|(n, line)| format!("{:>6}\t{line}\n", n + 1)).collect();
    let grep: String =
        whole.lines().enumerate().map(|(n, line)| format!("key.pem:{n}:{line}\n")).collect();
    let head: String = whole.lines().take(12).map(|line| format!("{line}\n")).collect();
    let tail: String = whole.lines().skip(12).map(|line| format!("{line}\n")).collect();
    let indented: String = whole.lines().map(|line| format!("    {line}\n")).collect();
    let json = serde_json::to_string(&whole).unwrap();
    let crlf = pem("\r\n");
    let body: String = whole.lines().skip(1).take(14).map(|line| format!("{line}\n")).collect();
    let putty = format!("Private-Lines: 14\n{body}Private-MAC: 8d0c6f2ab94e7135\n");
    for text in [&whole, &numbered, &grep, &head, &tail, &indented, &json, &crlf, &putty] {
        let text = format!("before\n{text}after\n");
        let (shown, count) = masked(&text);
        assert_eq!(count, 1, "{shown}");
        assert!(shown.starts_with("before\n") && shown.ends_with("after\n"), "{shown}");
        assert!(private_key::RUN.find_iter(shown.as_bytes()).next().is_none(), "{shown}");
    }
}

#[test]
fn lines_of_a_private_key_that_was_seen_are_masked_alone() {
    let redactor = redactor();
    let whole = pem("\n");
    let mask = redactor.redact_text(whole.clone()).0.trim_end().to_owned();
    let line = whole.lines().nth(7).unwrap();
    assert_eq!(redactor.redact_text(format!("x {line} y")), (format!("x {mask} y"), 1));
}

#[test]
fn what_stands_beside_a_cut_is_taken_away() {
    let redactor = Redactor::new([("A_TOKEN", "canary-value")], None);
    let check = |text: &str, expect: &str| {
        assert_eq!(redactor.redact_cut_lines(text.to_owned()).0, expect);
    };
    check("a.txt:1: …nary-value is canary-va…", "a.txt:1: … is …");
    check("no part of it… and none", "no part of it… and none");
    let shapes = super::tests::redactor();
    assert_eq!(shapes.redact_cut_lines("…x2Lk0QmR7 word ghp_x2Lk0Q…".to_owned()).0, "… word …");
}

#[test]
fn a_stream_is_masked_as_the_whole_is() {
    let secret = concat!("ghp", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z");
    let filler = "an ordinary line of text, neither long nor short\n";
    // Secrets around every place where a piece may be cut, on lines and on one endless line.
    for (filler, before) in [(filler, "\n"), ("endless ", " ")] {
        let mut text = String::new();
        while text.len() < 280 << 10 {
            text.push_str(&filler.repeat(40));
            text.push_str(before);
            text.push_str(secret);
            text.push_str(before);
        }
        text.push_str(&pem("\n"));
        let redactor = redactor();
        let mut stream = Stream::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(60_001) {
            out.extend(stream.push(&redactor, chunk));
        }
        out.extend(stream.finish(&redactor));
        let (whole, count) = masked(&text);
        assert!(out == whole.as_bytes(), "the stream differs from the whole");
        assert_eq!(stream.count, count);
        assert!(!whole.contains("ghp_"));
    }
}

proptest! {
    #[test]
    fn text_stays_text_and_masks_stay(text in any::<String>(), at in 0usize..SHAPES.len(), tail in "\\PC{0,8}") {
        let redactor = redactor();
        let (once, _) = redactor.redact_text(format!("{text}\n{}\n{tail}", EXAMPLES[at]));
        let (twice, count) = redactor.redact_text(once.clone());
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(count, 0);
        prop_assert!(!once.contains(char::REPLACEMENT_CHARACTER) || text.contains(char::REPLACEMENT_CHARACTER) || tail.contains(char::REPLACEMENT_CHARACTER));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let redactor = Redactor::new([("A_KEY", "12345678")], Some(SALT));
        redactor.redact_bytes(&bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        redactor.redact_cut_lines(text);
    }
}
