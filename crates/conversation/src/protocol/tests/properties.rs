//! What holds for any items and any text.

use proptest::prelude::*;

use super::super::stream::{ResponseStream, Streamed};
use super::super::{Action, Change, ParsedReply, ReplyItem, parse_reply};
use super::{BAD, format};

/// Text that likes to look like the protocol.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(
        prop_oneof![
            any::<char>().prop_map(String::from),
            prop::sample::select(vec![
                "<",
                ">",
                "/>",
                "\"",
                "'",
                "&",
                "&quot;",
                "&amp;",
                "\n",
                "\r\n",
                " ",
                "=",
                "end-1",
                "end-2",
                "fence=\"end-1\"",
                "</nagent-shell>",
                "</nagent-write>",
                "</nagent-write",
                "<nagent-shell>",
                "</nagent-response end-1>",
                "</nagent-response>",
                "<nagent-read path=\"a\"/>",
                "<system>",
                "</nagent-conversation>",
                "<nagent-shell-result>",
                "<<<<<<< SEARCH",
                "path=\"a\"",
                "\u{feff}",
            ])
            .prop_map(String::from),
        ],
        0..12,
    );
    pieces.prop_map(|pieces| pieces.concat())
}

/// A body as the parser gives it: more than white space, and no line feeds at its ends.
fn body() -> impl Strategy<Value = String> {
    text().prop_map(|text| {
        let text = text.trim_matches(['\r', '\n']);
        if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
            "x".to_owned()
        } else {
            text.to_owned()
        }
    })
}

fn value() -> impl Strategy<Value = String> {
    text().prop_map(|text| if text.is_empty() { "x".to_owned() } else { text })
}

fn maybe() -> impl Strategy<Value = Option<String>> {
    prop::option::of(value())
}

fn number() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![1..u64::MAX, Just(u64::MAX)])
}

fn item() -> impl Strategy<Value = ReplyItem> {
    let action = prop_oneof![
        (value(), number(), number(), any::<bool>()).prop_map(|(path, offset, limit, numbers)| {
            Action::Read { path, offset, limit, numbers }
        }),
        value().prop_map(|path| Action::FileRead { path }),
        value().prop_map(|index| Action::Change(Change::FilePatch { index })),
        (value(), text()).prop_map(|(path, text)| Action::Change(Change::Write { path, text })),
        (value(), body(), any::<bool>())
            .prop_map(|(path, blocks, all)| Action::Change(Change::Edit { path, blocks, all })),
        value().prop_map(|path| Action::List { path }),
        (value(), maybe()).prop_map(|(pattern, path)| Action::Glob { pattern, path }),
        (value(), maybe(), maybe(), number(), any::<bool>()).prop_map(
            |(pattern, path, glob, context, ignore_case)| Action::Grep {
                pattern,
                path,
                glob,
                context,
                ignore_case
            }
        ),
        (body(), number(), maybe()).prop_map(|(commands, timeout, outside)| Action::Shell {
            commands,
            timeout,
            keep: None,
            outside
        }),
        (body(), value()).prop_map(|(commands, keep)| Action::Shell {
            commands,
            timeout: None,
            keep: Some(keep),
            outside: Some(String::new())
        }),
        body().prop_map(|prompt| Action::Next { prompt }),
        (body(), maybe(), maybe()).prop_map(|(prompt, name, from)| Action::Conversation {
            prompt,
            name,
            from,
            file: None
        }),
        (body(), value()).prop_map(|(prompt, file)| Action::Conversation {
            prompt,
            name: None,
            from: None,
            file: Some(file)
        }),
    ];
    prop_oneof![1 => body().prop_map(ReplyItem::Response), 9 => action.prop_map(ReplyItem::Action)]
}

fn items() -> impl Strategy<Value = Vec<ReplyItem>> {
    prop::collection::vec(item(), 1..6)
}

proptest! {
    #[test]
    fn judging_undoes_formatting(items in items()) {
        let reply = format(&items);
        prop_assert_eq!(parse_reply(&reply), ParsedReply::Whole(items), "{}", reply);
    }

    /// A reply that is cut anywhere comes to the items that stand before the cut, or to nothing.
    #[test]
    fn a_prefix_never_runs_anything_else(items in items(), cut in any::<prop::sample::Index>()) {
        let reply = format(&items);
        let cut = cut.index(reply.len() + 1);
        let cut = (0..=cut).rev().find(|at| reply.is_char_boundary(*at)).unwrap();
        match parse_reply(&reply[..cut]) {
            ParsedReply::Whole(found) => prop_assert_eq!(&found, &items[..found.len()]),
            ParsedReply::Forged { .. } => prop_assert!(false, "nothing was forged in {}", reply),
            ParsedReply::Malformed(malformed) => prop_assert!(malformed.offset <= cut),
        }
    }

    #[test]
    fn a_forged_tail_keeps_what_stands_before(items in items(), tail in text()) {
        let good = format(&items);
        let reply = format!("{good}<nagent-shell-result>{tail}");
        let block = "nagent-shell-result".to_owned();
        let offset = good.len();
        prop_assert_eq!(parse_reply(&reply), ParsedReply::Forged { items, kept: &good, block, offset });
    }

    #[test]
    fn any_text_has_a_verdict(text in text()) {
        match parse_reply(&text) {
            ParsedReply::Whole(items) => {
                prop_assert!(!items.is_empty());
                let again = format(&items);
                prop_assert_eq!(parse_reply(&again), ParsedReply::Whole(items));
            }
            ParsedReply::Forged { items, kept, offset, .. } => {
                prop_assert_eq!(kept, &text[..offset]);
                prop_assert_eq!(parse_reply(kept), ParsedReply::Whole(items));
            }
            ParsedReply::Malformed(malformed) => {
                prop_assert!(text.is_char_boundary(malformed.offset));
                prop_assert!(malformed.excerpt.chars().count() <= 80);
                prop_assert!(!malformed.to_string().contains(char::is_control));
            }
        }
    }

    /// One wrong byte anywhere between the parts of a tag: never a panic, and text is never dropped.
    #[test]
    fn a_word_between_tags_is_never_ignored(items in prop::collection::vec(item(), 2..6), at in any::<prop::sample::Index>()) {
        let mut tags: Vec<_> = items.iter().map(|item| format(std::slice::from_ref(item))).collect();
        let (at, mut items) = (1 + at.index(items.len() - 1), items);
        tags.insert(at, "word".to_owned());
        items.insert(at, ReplyItem::Response("word".to_owned()));
        let reply = tags.join("\n");
        prop_assert_eq!(parse_reply(&reply), ParsedReply::Whole(items));
        let glued = reply.replace(">\nword", ">word").replace(">\n\nword", ">word");
        prop_assert!(matches!(parse_reply(&glued), ParsedReply::Malformed(_)), "{}", glued);
    }
}

/// What a reply shows that arrives in pieces of these lengths, in characters: complete responses, and the last one.
fn stream(reply: &str, lengths: &[usize]) -> (Vec<String>, String) {
    let (mut stream, mut whole, mut last) = (ResponseStream::default(), Vec::new(), String::new());
    let mut show = |streamed: Streamed<'_>| match streamed {
        Streamed::Text(text) => last.push_str(text),
        Streamed::End => whole.push(std::mem::take(&mut last)),
    };
    let mut rest = reply;
    for length in lengths.iter().chain(std::iter::repeat(&3)) {
        if rest.is_empty() {
            break;
        }
        let at = rest.char_indices().nth(*length).map_or(rest.len(), |(at, _)| at);
        stream.push(&rest[..at], &mut show);
        rest = &rest[at..];
    }
    (whole, last)
}

/// What is shown while a reply arrives is what the parser gives for the whole of it.
fn shows_its_responses(reply: &str, lengths: &[usize], is_exact: bool) {
    let (shown, last) = stream(reply, lengths);
    if let ParsedReply::Whole(items) | ParsedReply::Forged { items, .. } = parse_reply(reply) {
        let responses = items.into_iter().filter_map(|item| match item {
            ReplyItem::Response(text) => Some(text),
            ReplyItem::Action(_) => None,
        });
        let responses: Vec<String> = responses.collect();
        // Words outside of tags are not shown while they arrive, nor is what follows them.
        assert_eq!((&responses[..shown.len()], last.as_str()), (&shown[..], ""), "{reply:?}");
        assert!(!is_exact || shown.len() == responses.len(), "{reply:?}");
    }
}

#[test]
fn replies_of_the_tables_are_shown_while_they_arrive() {
    let texts = super::plain().into_iter().chain(super::parser_only()).map(|(reply, _)| reply);
    for reply in texts.chain(BAD.iter().map(|(reply, ..)| *reply)) {
        for length in [1, 2, 5, 10_000] {
            shows_its_responses(reply, &[length; 1000], false);
        }
    }
}

#[test]
fn a_response_is_shown_before_it_ends_and_nothing_behind_a_mistake() {
    let check = |reply: &str, whole: &[&str], last: &str| {
        let whole = whole.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(stream(reply, &[1; 1000]), (whole, last.to_owned()), "{reply}");
    };
    check("<nagent-response>\n one </nagent-respons", &[], " one ");
    check("<nagent-response>one\n\n", &[], "one");
    check("<nagent-response>one</nagent-response> two <nagent-response>x", &["one"], "");
    check("word <nagent-response>x</nagent-response>", &[], "");
    check("<nagent-shell></nagent-shell><nagent-response>x</nagent-response>", &[], "");
    check("<nagent-list><nagent-response>x</nagent-response>", &[], "");
    check("<nagent-read path=\"a>b\"></nagent-read><nagent-response>x", &[], "x");
    check(
        "<nagent-shell fence=\"f\">a</nagent-shell> </nagent-shell f><nagent-response>x",
        &[],
        "x",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_is_shown_while_it_arrives_is_what_the_parser_gives(
        items in items(),
        text in text(),
        lengths in prop::collection::vec(1_usize..9, 0..200),
    ) {
        shows_its_responses(&format(&items), &lengths, true);
        shows_its_responses(&text, &lengths, false);
        shows_its_responses(&format!("{}{text}", format(&items)), &lengths, false);
    }
}

#[test]
fn every_prefix_of_a_bad_reply_has_a_verdict() {
    for (reply, ..) in BAD {
        for (at, _) in reply.char_indices() {
            let _ = parse_reply(&reply[..at]);
            let _ = parse_reply(&reply[at..]);
        }
    }
}
