//! What command-line agents print, as replies and errors.

use super::*;

#[test]
fn a_programs_reply_that_was_cut_is_not_an_error() {
    let stdout = read("cli/73-claude-output-maximum.json");
    let reply = command::parse(Preset::ClaudeCode, Some(1), &stdout, b"")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((reply.text.as_str(), reply.stop, reply.usage.output), ("", Length, 128_000));
}

#[test]
fn errors_of_programs_are_known() {
    let check = |preset, exit, stdout: &[u8], stderr: &[u8], kind, part: &str| {
        let error = command::parse(preset, Some(exit), stdout, stderr).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part), "{error}");
        no_canary(part, &error.message);
    };
    let claude = read("cli/58-claude-success-but-is-error.json");
    check(Preset::ClaudeCode, 0, &claude, b"", Auth, "Invalid API key");
    check(Preset::ClaudeCode, 1, &claude, b"", Auth, "Invalid API key");
    check(
        Preset::Cursor,
        1,
        b"",
        &read("cli/60-cursor-nonzero-no-json.txt"),
        Auth,
        "cursor-agent login",
    );
}
