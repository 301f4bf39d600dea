//! Tests of the conversation format. Texts in, pieces out.

use proptest::prelude::*;

use super::*;

const OWN: [&str; 2] = ["nagent-shell", "nagent-response"];

fn words() -> impl FnMut() -> String {
    let mut n = 0;
    move || {
        n += 1;
        format!("w{n}")
    }
}

/// Writes each piece as `name(body)` or `note(text)`, then the trouble.
fn check(text: &str, expect: &str) {
    let parsed = parse(text);
    let mut out = Vec::new();
    for piece in &parsed.pieces {
        let name = piece.name().unwrap_or("note");
        let line = 1 + text[..piece.span.start].matches('\n').count();
        out.push(format!("{line}:{name}({})", piece.body_text(text)));
    }
    match &parsed.trouble {
        None => {}
        Some(Trouble::Torn { offset, line }) => {
            out.push(format!("{line}:torn({})", &text[*offset..]));
        }
        Some(Trouble::Damaged { line, .. }) => out.push(format!("{line}:damaged")),
    }
    assert_eq!(out.join(" "), expect, "{text}");
}

#[test]
fn blocks_notes_and_line_numbers() {
    check("", "");
    check("<user-prompt at=\"x\">\nhi\n</user-prompt>\n", "1:user-prompt(hi)");
    check("<system>\n\n</system>\n\n<system>\n</system>\n", "1:system() 5:system()");
    check(
        "<nagent-turn-status turn=\"1\" />\n\nnote\nmore\n\n<system>\na\n</system>",
        "1:nagent-turn-status() 3:note(note\nmore) 6:system(a)",
    );
    check("a note alone\n\n", "1:note(a note alone)");
    check(
        "  <system>\nnot at a line start\n",
        "1:note(<system>\nnot at a line start)".replace("(<", "(  <").as_str(),
    );
    check(
        "<user-prompt>\na </user-prompt> b\n</user-prompt>\n",
        "1:user-prompt(a </user-prompt> b)",
    );
    check("<user-prompt>\na\n</user-prompt> tail\n", "1:user-prompt(a) 3:note( tail)");
}

#[test]
fn a_fence_is_no_attribute_however_often_it_stands() {
    let text = "<system fence=\"\" a=\"b\" fence=\"w\" />\n";
    let parsed = parse(text);
    let [Piece { attributes, .. }] = parsed.pieces.as_slice() else { panic!("{parsed:?}") };
    assert_eq!(attributes, &[("a".to_owned(), "b".to_owned())]);
}

#[test]
fn a_fence_ends_only_at_its_word() {
    check(
        "<user-prompt fence=\"w\">\n</user-prompt>\n<system>\n</user-prompt x>\n</user-prompt w>\n\n<system>\nb\n</system>\n",
        "1:user-prompt(</user-prompt>\n<system>\n</user-prompt x>) 7:system(b)",
    );
}

#[test]
fn files_of_older_tools_and_other_editors() {
    check(
        "<initial_context>\n- <nagent-shell>x</nagent-shell>\n</initial_context>\n\n<user-prompt>\nhi\n</user-prompt>\n<nagent-write-result path=\"a\" status=\"error\">no</nagent-write-result>\n<nagent-read-result path=\"b\" error=\"gone\" />\n<hook-per-run exit_code=\"0\">\nok\n</hook-per-run>\nInterrupted...",
        "1:initial_context(- <nagent-shell>x</nagent-shell>) 5:user-prompt(hi) 8:nagent-write-result(no) 9:nagent-read-result() 10:hook-per-run(ok) 13:note(Interrupted...)",
    );
    check(
        "<system>\r\na\r\n</system>\r\n\r\n<system>\r\nb\r\n</system>\r\n",
        "1:system(a) 5:system(b)",
    );
    check("\u{feff}<system>\na\n</system>\n", "1:system(a)");
}

#[test]
fn a_torn_tail_is_told_from_damage() {
    let whole = "<system>\na\n</system>\n\n";
    for tail in [
        "<user-prompt>\nhi",
        "<user-pro",
        "<user-prompt at=\"2",
        "<user-prompt at=\"2\">",
        "<user-prompt>\nhi\n</user-prompt",
    ] {
        check(&format!("{whole}{tail}"), &format!("1:system(a) 5:torn({tail})"));
    }
    check(
        "<user-prompt fence=\"w\">\n<system>\nx\n</sys",
        "1:torn(<user-prompt fence=\"w\">\n<system>\nx\n</sys)",
    );
    // A closing tag went missing in the middle.
    check("<user-prompt>\nhi\n\n<system>\na\n</system>\n", "1:damaged");
    check("<system>\na\n\n<system>\nb\n</system>\n", "1:damaged");
    check("<user-prompt fence=\"w\">\nhi\n\n<system>\na\n</system>\n", "1:damaged");
    // A closing tag of no block.
    check("text\n</system>\n", "1:note(text) 2:damaged");
    check("<system a=b>\nx\n</system>\n", "1:damaged");
}

#[test]
fn what_calls_for_a_fence() {
    for (name, body, fence) in [
        ("user-prompt", "plain < text > & more", false),
        ("user-prompt", "<NAGENT-shell>", true),
        ("user-prompt", "< / system", true),
        ("user-prompt", "<initial-context>", true),
        ("user-prompt", "< agent-response", true),
        ("agent-response", "<nagent-shell>x</nagent-shell>", false),
        ("agent-response", "<nagent-shell>x</nagent-shell><nagent-shell-result>", true),
        ("agent-response", "<nagent-shellx>", true),
        ("agent-response", "</agent-response>", true),
        ("agent-response", "<Nagent-shell>", true),
        ("nagent-shell-result", "<nagent-shell>", true),
        ("initial_context", "anything", true),
    ] {
        assert_eq!(needs_fence(name, body, &OWN), fence, "{name} {body}");
    }
}

#[test]
fn a_word_that_occurs_is_drawn_again() {
    let text = Block::new("system").body("<system w1 w2").format(&OWN, &mut words());
    assert_eq!(text, "<system fence=\"w3\">\n<system w1 w2\n</system w3>\n");
}

fn any_block() -> impl Strategy<Value = Block> {
    let body = prop::option::of(prop_oneof![
        "\\PC*",
        "([a-z<>/ \n\r]|</?user-prompt>|<system>|</system>|<nagent-shell>|\n</agent-response>\n| fence=\"w1\")*",
    ]);
    let attribute = ("[a-z][a-z_]{0,5}", "[^\u{0}]{0,8}")
        .prop_filter("fence is the format's own", |(n, _)| n != "fence");
    (prop::sample::select(BLOCKS), prop::collection::vec(attribute, 0..3), body)
        .prop_map(|(name, attributes, body)| Block { name, attributes, body })
}

proptest! {
    #[test]
    fn parse_undoes_format(blocks in prop::collection::vec(any_block(), 0..5)) {
        let mut word = words();
        let text = blocks.iter().map(|block| block.format(&OWN, &mut word)).collect::<Vec<_>>().join("\n");
        let parsed = parse(&text);
        prop_assert_eq!(&parsed.trouble, &None, "{}", text);
        let back: Vec<Block> = parsed.pieces.iter().map(|piece| Block {
            name: piece.name().expect("no note"),
            attributes: piece.attributes.clone(),
            body: (!text[piece.span.clone()].ends_with("/>")).then(|| piece.body_text(&text).to_owned()),
        }).collect();
        prop_assert_eq!(back, blocks);
    }

    #[test]
    fn any_text_parses(text in "(\\PC|\n|</?user-prompt>|<system>|</system|<nagent-read-result path=\"|fence=\"w\">)*") {
        let parsed = parse(&text);
        let mut last = 0;
        for piece in &parsed.pieces {
            prop_assert!(piece.span.start >= last && piece.span.end <= text.len());
            last = piece.span.end;
        }
    }

    /// Cut at any byte, what stood before the cut is read and the rest is a torn tail.
    #[test]
    fn a_cut_never_damages(blocks in prop::collection::vec(any_block(), 1..4), cut in any::<prop::sample::Index>()) {
        let mut word = words();
        let texts: Vec<String> = blocks.iter().map(|block| block.format(&OWN, &mut word)).collect();
        let whole = texts.join("\n");
        let mut at = cut.index(whole.len());
        while !whole.is_char_boundary(at) { at -= 1; }
        let parsed = parse(&whole[..at]);
        let is_damaged = matches!(parsed.trouble, Some(Trouble::Damaged { .. }));
        prop_assert!(!is_damaged, "{}", &whole[..at]);
        let mut end = 0;
        let mut complete = 0;
        for text in &texts {
            end += text.len();
            if end - 1 <= at { complete += 1; }
            end += 1;
        }
        prop_assert_eq!(parsed.pieces.len(), complete);
    }
}
