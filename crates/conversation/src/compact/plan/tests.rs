//! Plans for conversations of every shape: what stays, in which order, and how long it gets.

use proptest::prelude::*;

use super::*;
use crate::compact::notice::{
    SECTIONS, is_checkpoint, missing_sections, notice_block, unwrap_checkpoint,
};
use crate::format::file::{Block, parse};

const CONTEXT: &str = "<initial_context fence=\"f\">\nrules\n</initial_context f>\n\n";

fn block(block: &Block) -> String {
    format!("{}\n", block.format(&[], &mut || "word".to_owned()))
}

/// A turn with a prompt, a reply, its figures and a result.
fn turn(number: u64, prompt: usize, reply: usize, result: usize) -> String {
    let prompt = (prompt > 0).then(|| {
        let text = format!("prompt {number} {}", "p".repeat(prompt));
        block(&Block::new("user-prompt").with("at", number).body(text))
    });
    let reply = Block::new("agent-response").body(format!("reply {number} {}", "r".repeat(reply)));
    let status = Block::new("nagent-turn-status").with("turn", number);
    let result = Block::new("nagent-shell-result").with("status", "ok").body("o".repeat(result));
    [prompt.unwrap_or_default(), block(&reply), block(&status), block(&result)].concat()
}

/// What the plan makes of a text, with stand-ins for files and the checkpoint.
fn render(text: &str, pieces: &[Piece], plan: &Plan, ratio: f64) -> String {
    let part = |part: &PlanPart| match part {
        PlanPart::Keep(range) => text[range.clone()].to_owned(),
        PlanPart::Pointer(at) => block(&Block::new(pieces[*at].name().unwrap()).body("[a file]")),
        PlanPart::Head(at, bytes) => {
            let body = pieces[*at].body_text(text);
            let head = &body[..body.floor_char_boundary(*bytes)];
            match pieces[*at].name() {
                Some(name) => block(&Block::new(name).body(head)),
                None => head.to_owned(),
            }
        }
        PlanPart::Notice => {
            let notice = if plan.condensed.turns.is_some() { SECTIONS_TEXT } else { "" };
            block(&notice_block(&plan.condensed, "c-archive", ratio, notice))
        }
    };
    plan.parts.iter().map(|it| format!("{}\n\n", part(it).trim_end())).collect()
}

const SECTIONS_TEXT: &str =
    "Intent\na\nConstraints\nb\nDecisions\nc\nFiles\nd\nOpen questions\ne\nNext step\nf";

fn plan_of(text: &str, window: u64, is_asked: bool) -> Option<Plan> {
    let parsed = parse(text);
    assert_eq!(parsed.trouble, None, "{text}");
    let estimate = TokenEstimate::from_pieces(&parsed.pieces);
    Planner::new(text, &parsed.pieces, &estimate, window).plan_compaction(is_asked).unwrap()
}

#[test]
fn a_short_conversation_stays() {
    let text = format!("{CONTEXT}{}", turn(1, 10, 10, 10));
    assert_eq!(plan_of(&text, 16_000, true), None);
    assert_eq!(plan_of("", 16_000, true), None);
    assert_eq!(plan_of(CONTEXT, 16_000, true), None);
}

#[test]
fn the_window_must_have_room_for_the_first_context() {
    let context =
        format!("<initial_context fence=\"f\">\n{}\n</initial_context f>\n\n", "x".repeat(40_000));
    let text = format!("{context}{}", turn(1, 10, 10, 10));
    let pieces = parse(&text).pieces;
    let estimate = TokenEstimate::from_pieces(&pieces);
    let error = Planner::new(&text, &pieces, &estimate, 8_000).plan_compaction(false).unwrap_err();
    assert!(error.contains("10012 tokens") && error.contains("a window of 18353"), "{error}");
}

#[test]
fn a_prompt_that_fills_the_window_keeps_its_beginning() {
    let text = format!("{CONTEXT}{}{}", turn(1, 10, 10, 10), turn(2, 90_000, 10, 10));
    let made = plan_of(&text, 16_000, false).unwrap();
    assert!(made.parts.iter().any(|part| matches!(part, PlanPart::Head(..))), "{made:?}");
    assert!(made.after < 16_000 * 6 / 10, "{made:?}");
}

#[test]
fn what_an_estimate_reads() {
    let status = |turn: u64, tokens: u64| {
        let status = Block::new("nagent-turn-status").with("turn", turn).with("tokens_in", tokens);
        block(&Block::new("agent-response").body("r")) + &block(&status)
    };
    let before = "x".repeat(1000);
    let note = format!("{before}\n\n");
    let text = format!("{note}{}", status(1, 300));
    let estimate = TokenEstimate::from_pieces(&parse(&text).pieces);
    assert!((estimate.tokens_per_byte() - 300.0 / 1002.0).abs() < 0.001, "{estimate:?}");
    // Bit by bit is the same.
    let mut slow = TokenEstimate::default();
    let pieces = parse(&text).pieces;
    for end in 0..=pieces.len() {
        slow.count_pieces(&pieces[..end]);
    }
    assert_eq!(slow, estimate);
    // Counts from before a compaction are of another text.
    let condensed = CompactionFacts { turns: Some((1, 9)), kept: 1, ..CompactionFacts::default() };
    let notice = block(&notice_block(&condensed, "a", 0.3, "b"));
    let text = format!("{note}{notice}{}", status(10, 90_000));
    assert!(
        (TokenEstimate::from_pieces(&parse(&text).pieces).tokens_per_byte() - 0.3).abs() < 0.001
    );
    let text = format!("{text}{}", status(11, 600));
    let ratio = TokenEstimate::from_pieces(&parse(&text).pieces).tokens_per_byte();
    assert!(ratio > 0.3 && ratio < 0.5, "{ratio}");
    assert!(
        TokenEstimate::default().is_full(65_000, 20_000)
            && !TokenEstimate::default().is_full(63_000, 20_000)
    );
}

#[test]
fn refusals_are_no_checkpoints() {
    assert!(
        is_checkpoint(SECTIONS_TEXT)
            && is_checkpoint("## Intent:\nx\n**Decisions**\n- Next step: y")
    );
    for text in [
        "Absicht\nEs soll gehen.\n\nDateien\n- a.rs: gelesen",
        "1. Intent\nmake it work\n2. Files\na.rs",
        "**Ziel:** läuft\n\n**Nächster Schritt:** weiter",
        "### 1) But\nça marche\n\n### 2) Fichiers\na.rs",
        "Intent: it works\nFiles: a.rs",
        "Ziel:\nes geht\nDateien:\na.rs",
        "意图\n让它工作\n\n文件\na.rs",
    ] {
        assert!(is_checkpoint(text), "{text}");
    }
    for text in [
        "I cannot do that. The Intent is unclear.",
        "",
        "ok",
        "ok\n\nok",
        "Sorry\n\nI can't help with that.",
        "I'm unable to write a checkpoint:\nit is too long.\n\nPlease try again.",
        "Intent\nmake it work",
    ] {
        assert!(!is_checkpoint(text), "{text}");
    }
    assert_eq!(
        missing_sections("# 1. INTENT\nx\n**Next step:** y\nFiles\n")[..],
        SECTIONS[1..3].iter().chain([&SECTIONS[4]]).copied().collect::<Vec<_>>()
    );
    for text in [
        "```\nIntent\nx\n```",
        "```text\nIntent\nx\n```\n",
        "<nagent-response>\nIntent\nx</nagent-response>",
    ] {
        assert_eq!(unwrap_checkpoint(text), "Intent\nx");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever somebody has made of the file: no panic, and what is planned can be read.
    #[test]
    fn edited_files_are_planned_too(
        blocks in prop::collection::vec(prop::sample::select(vec![
            "<user-prompt>\nü words\n</user-prompt>\n\n",
            "<agent-response>\n<nagent-list path=\".\"/>\n</agent-response>\n",
            "<nagent-turn-status turn=\"3\" tokens_in=\"900000\" />\n",
            "<nagent-turn-status turn=\"x\" invalid=\"/k\" />\n",
            "<nagent-conversation-result name=\"n\" conversation=\"c.n\" status=\"ok\">\nx\n</nagent-conversation-result>\n",
            "<system compacted=\"a\" turns=\"9-2\" kept=\"99\" tokens_per_byte=\"NaN\" checkpoint=\"x\">\nüü\n</system>\n",
            "<system compacted=\"a\" tokens_per_byte=\"-1\">\n\n</system>\n",
            "<context-update section=\"Rules\">\nr\n</context-update>\n",
            "<nagent-shell-result status=\"ok\">\nLONG\n</nagent-shell-result>\n",
            "a note of the user's\n\n",
        ]), 0..40),
        window in 0u64..40_000,
        is_asked in any::<bool>(),
    ) {
        let text = blocks.concat().replace("LONG", &"ö".repeat(3_000));
        let pieces = parse(&text).pieces;
        let estimate = TokenEstimate::from_pieces(&pieces);
        let planner = Planner::new(&text, &pieces, &estimate, window);
        if let Ok(Some(made)) = planner.plan_compaction(is_asked) {
            let new = render(&text, &pieces, &made, estimate.tokens_per_byte());
            prop_assert_eq!(parse(&new).trouble, None);
        }
    }

    /// However the turns look: it ends below its goal, in a conversation that can be read, with the first prompt's words, the
    /// newest turn's reply where that is not too long, and everything else as it was.
    #[test]
    fn it_converges(
        turns in prop::collection::vec((0usize..3_000, 0usize..9_000, 0usize..20_000), 1..40),
        window in 8_000u64..60_000,
        is_asked in any::<bool>(),
    ) {
        let mut text = CONTEXT.to_owned();
        for (number, (prompt, reply, result)) in turns.iter().enumerate() {
            let prompt = if number == 0 { prompt + 1 } else { prompt.saturating_sub(2_000) };
            text.push_str(&turn(number as u64 + 1, prompt, *reply, *result));
        }
        let mut rounds = 0;
        loop {
            let pieces = parse(&text).pieces;
            let estimate = TokenEstimate::from_pieces(&pieces);
            let is_full = estimate.is_full(text.len(), window);
            if !is_asked && !is_full {
                break;
            }
            let planner = Planner::new(&text, &pieces, &estimate, window);
            let Some(made) = planner.plan_compaction(is_asked).unwrap() else {
                prop_assert!(!is_full, "{} bytes stay in a window of {window}", text.len());
                break;
            };
            let new = render(&text, &pieces, &made, estimate.tokens_per_byte());
            let parsed = parse(&new);
            prop_assert_eq!(&parsed.trouble, &None);
            prop_assert!(new.starts_with(CONTEXT.trim_end()) && new.contains("prompt 1 "));
            prop_assert!(new.len() < text.len(), "{} of {}", new.len(), text.len());
            if !made.summarized.is_empty() {
                prop_assert!(estimate.tokens(new.len()) <= window * 7 / 10, "{} of {window}", estimate.tokens(new.len()));
            }
            // What is after the notice is the end of the old text, unless its results were cut.
            let at = parsed.pieces.iter().rposition(|piece| piece.get("compacted").is_some()).unwrap();
            let tail = new[parsed.pieces[at].span.end..].trim();
            prop_assert!(text.trim_end().ends_with(tail) || tail.contains("[a file]"));
            text = new;
            rounds += 1;
            prop_assert!(rounds < 20, "it never ends");
        }
    }
}
