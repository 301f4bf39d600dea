//! `nagent-file-summarize` on files that are no plain text of a usual size: empty, binary, wide, odd, or not to be read.

use serde_json::Value;

use crate::fake_llm::Request;
use crate::sandbox::Sandbox;
use crate::summarize::{SUMMARIZE, is_join, kept, parted, segment, summarize, text, usual};

#[test]
fn what_is_no_text_needs_no_model() {
    let sandbox = Sandbox::new().no_config().env("OPENAI_API_KEY", "");
    let check = |bytes: &[u8], expect: &str| {
        sandbox.write("f.txt", bytes);
        let json = summarize(&sandbox, &["--json"]).run().assert_exit(0).json();
        assert_eq!(json["summary"], expect);
        assert_eq!((&json["requests"], &json["model"]), (&0.into(), &Value::Null));
        assert_eq!((&json["mode"], &json["size_bytes"]), (&"inline".into(), &bytes.len().into()));
    };
    check(b"", "Empty: 0 bytes.");
    check(b"\n \n", "Blank: nothing but white space.");
    check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "Binary, 16 bytes.");
    let large = [b"\x7fELF\x02\x01\x01\0".to_vec(), vec![7; 3_000_000]].concat();
    check(&large, "Binary, 3000008 bytes.");
    assert!(!sandbox.root().join("summaries").exists());
    sandbox.write("f.txt", "text");
    summarize(&sandbox, &[]).run().assert_exit(2).stderr_has(&["no API key found"]);
}

#[test]
fn what_is_not_read() {
    let sandbox = Sandbox::new();
    let check = |path: &str, message: &str| {
        let run = sandbox.program(SUMMARIZE, &["--file", path]).run();
        run.assert_exit(1).no_stdout().stderr_has(&[message]).within(5.0);
    };
    check(".", "is a folder");
    check("none.txt", "no such file");
    let fifo = sandbox.work().join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    check("fifo", "is a FIFO");
}

#[test]
fn home_is_expanded() {
    let sandbox = Sandbox::new().reply("at home");
    std::fs::write(sandbox.home().join("h.txt"), "x").unwrap();
    sandbox.program(SUMMARIZE, &["--file", "~/h.txt"]).run().answers("at home");
}

#[test]
fn utf16_is_decoded_also_across_segments() {
    let wide = |text: &str| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let sandbox = Sandbox::new().file("f.txt", wide("grün 🙂\n")).reply("small");
    summarize(&sandbox, &[]).run().answers("small");
    assert!(sandbox.requests()[0].user().contains("\ngrün 🙂\n"));

    let sandbox = parted(wide(&text(60_000)));
    sandbox.llm.choose(usual);
    summarize(&sandbox, &[]).run().assert_exit(0).stdout_is("the whole\n");
    let mut all: Vec<Request> = sandbox.requests().into_iter().filter(|r| !is_join(r)).collect();
    all.sort_by_key(segment);
    let content = |request: &Request| -> String {
        let user = request.user();
        let mut parts = user.split("\n====");
        let mark = parts.nth(1).unwrap();
        mark.split_once("====\n").unwrap().1.to_owned()
    };
    let joined: String = all.iter().map(content).collect::<Vec<_>>().join("\n");
    assert!(!joined.contains('\u{fffd}') && !joined.contains('\0'));
    assert_eq!(joined.lines().filter(|line| line.starts_with("line 0")).count(), 60_000 / 32);
}

#[test]
fn other_encodings_are_sent_with_a_note() {
    let sandbox = Sandbox::new().file("f.txt", b"gr\xfcn und weiter").reply("ok");
    summarize(&sandbox, &[]).run().assert_exit(0).stderr_has(&["U+FFFD"]);
    assert!(sandbox.requests()[0].user().contains("gr\u{fffd}n und"));
}

#[test]
fn one_line_of_a_megabyte_is_cut_and_never_goes_in_circles() {
    let line: String = (0..100_000).map(|n| format!("{n:010}")).collect();
    let sandbox = parted(line);
    sandbox.llm.choose(usual);
    let json = summarize(&sandbox, &["--json", "--jobs", "8"]).run().assert_exit(0).json();
    let count = json["segment_count"].as_u64().unwrap();
    assert!((16..=32).contains(&count) && json["requests"] == count + 1, "{count}");
}

#[test]
fn segments_follow_a_small_window() {
    let sandbox = Sandbox::new()
        .config_also(serde_json::json!({"context_window_tokens": 8192}))
        .file("f.txt", text(60_000));
    sandbox.llm.choose(usual);
    summarize(&sandbox, &[]).run().answers("the whole");
    let sizes: Vec<usize> = sandbox.requests().iter().map(|request| request.user().len()).collect();
    assert!(sizes.len() >= 5 && sizes.iter().all(|size| *size < 19_000), "{sizes:?}");
    let sandbox = sandbox.config_also(serde_json::json!({"context_window_tokens": 500}));
    summarize(&sandbox, &[]).run().assert_exit(3).stderr_has(&["too small"]);
}

#[test]
fn a_damaged_summary_counts_as_none() {
    let sandbox = Sandbox::new().file("f.txt", "x").replies(["old", "new"]);
    summarize(&sandbox, &[]).run().answers("old");
    std::fs::write(&kept(&sandbox)[0], "{\"summary\": \"ol").unwrap();
    summarize(&sandbox, &[]).run().answers("new");
}
