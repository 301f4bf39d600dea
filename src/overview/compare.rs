//! Plays a conversation through the loop of now, without doing anything: where would its file, and so a request, be different?
//!
//! Each reply is given to [`conversation::turn`] again; what the loop appends then is compared with what the file has: the reply or the
//! correction of a malformed one, its figures, and which results follow. Prompts, and what results say, are taken from the
//! file. Of the first context, the protocol is compared, which does not depend on the machine and names the run's tags.

use std::time::Duration;

use conversation::approve::{Approve, Decision};
use conversation::context;
use conversation::format::file::{Block, Piece, PieceKind};
use conversation::model::{Reply, StopReason, Usage};
use conversation::protocol::{self, TagSet, tags};
use conversation::turn::Turn;
use conversation::turn::event::{Acted, Effect, Event, Limits, RunRules};

/// Where the file would be different now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The first turn whose request would differ.
    pub turn: u64,
    /// The first byte that would, in the file.
    pub byte: usize,
    /// What the file has from there, cut.
    pub recorded: String,
    /// What it would have now.
    pub now: String,
}

/// How much of a difference is shown, in bytes.
const SHOWN: usize = 160;

/// Attributes of a turn's figures that say what the provider did, not what the loop makes of a reply.
const OF_PROVIDER: [&str; 4] = ["retries", "last_error", "cost", "model"];

/// Compares all turns of a conversation. `kept` reads what was kept apart of a reply, by its path. Returns how many turns there
/// are, or the first difference.
pub fn compare(
    text: &str,
    pieces: &[Piece],
    kept: &dyn Fn(&str) -> Option<String>,
) -> Result<u64, Difference> {
    let mut turns = 0;
    let mut tags = TagSet::ALL;
    for (at, piece) in pieces.iter().enumerate() {
        match piece.name() {
            Some("initial_context") => {
                let sections = context::parse(piece.body_text(text));
                let protocol = sections.iter().find(|section| section.title == "Protocol");
                if let Some(protocol) = protocol {
                    tags = compare_protocol(text, piece, &protocol.text, turns + 1)?;
                }
            }
            Some("context-update") if piece.get("section") == Some("Protocol") => {
                tags = compare_protocol(text, piece, piece.body_text(text), turns + 1)?;
            }
            Some("nagent-turn-status") => {
                turns += 1;
                compare_turn(text, pieces, at, turns, tags, kept)?;
            }
            _ => {}
        }
    }
    Ok(turns)
}

fn difference(turn: u64, text: &str, at: usize, end: usize, now: &str) -> Difference {
    let recorded = &text[at..end.max(at)];
    let same = recorded.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
    let same = recorded.floor_char_boundary(now.floor_char_boundary(same).min(same));
    let cut = |text: &str| text[..text.floor_char_boundary(SHOWN)].to_owned();
    Difference {
        turn,
        byte: at + same,
        recorded: cut(&recorded[same..]),
        now: cut(now.get(same..).unwrap_or_default()),
    }
}

/// Compares a protocol with that of now, which is the same on every machine, and returns the tags that it names.
fn compare_protocol(
    text: &str,
    piece: &Piece,
    protocol: &str,
    turn: u64,
) -> Result<TagSet, Difference> {
    let tags = TagSet::named_in(protocol);
    let (protocol, now) = (protocol.trim_matches('\n'), protocol::protocol_text(tags));
    let now = now.trim_matches('\n');
    if now == protocol {
        return Ok(tags);
    }
    let span = &text[piece.span.clone()];
    let at = piece.span.start + span.find(protocol).unwrap_or(0);
    Err(difference(turn, text, at, at + protocol.len(), now))
}

/// Compares what the loop makes of the reply before these figures, with the blocks that the file has of it.
fn compare_turn(
    text: &str,
    pieces: &[Piece],
    status: usize,
    turn: u64,
    tags: TagSet,
    kept: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Difference> {
    let figures = &pieces[status];
    let number = figures.get("turn").and_then(|number| number.parse().ok()).unwrap_or(turn);
    let reply = status.checked_sub(1).map(|at| &pieces[at]);
    let reply = reply.filter(|piece| piece.name() == Some("agent-response"));
    let note = pieces.get(status + 1).filter(|piece| piece.name() == Some("system"));
    let invalid = figures.get("invalid");
    let whole = match (invalid, reply) {
        (Some(path), reply) => {
            kept(path).filter(|whole| matches_stored_reply(whole, text, reply, note))
        }
        (None, reply) => reply.map(|reply| reply.body_text(text).to_owned()),
    };
    // What was kept apart may not be there, and a signal has no correction.
    let Some(whole) = whole.filter(|_| invalid.is_none() || note.is_some_and(is_correction)) else {
        return Ok(());
    };
    let was_cut =
        note.is_some_and(|note| note.body_text(text).contains("cut off by the length limit"));
    let (mut machine, _) = Turn::start(rules(number, tags), Vec::new());
    machine.step(appended_event());
    let mut effect = machine.step(replied_event(whole, figures, was_cut && invalid.is_some()));
    if let (Effect::SaveReply { .. }, Some(path)) = (&effect, invalid) {
        effect = machine.step(Event::ReplySaved(path.to_owned()));
    }
    let Effect::Append(blocks) = effect else {
        let now = match effect {
            Effect::SaveReply { note, .. } => format!("({note})"),
            other => format!("{other:?}"),
        };
        let start = reply.unwrap_or(figures).span.start;
        return Err(difference(number + 1, text, start, figures.span.end, &now));
    };
    let recorded = reply.into_iter().chain([figures]).chain(note.filter(|_| invalid.is_some()));
    for (block, piece) in blocks.iter().zip(recorded) {
        let (recorded, now) = (as_block(piece, text), as_stored(block.clone()));
        if recorded != now {
            let now = format_like(&now, piece, text);
            return Err(difference(number + 1, text, piece.span.start, piece.span.end, &now));
        }
    }
    compare_results(text, pieces, status, number, &mut machine)
}

/// Whether a block tells the model what was wrong with its reply, and not how the run ended.
fn is_correction(note: &Piece) -> bool {
    matches!(&note.kind, PieceKind::Block { attributes, .. } if attributes.is_empty())
}

/// Whether a reply that was kept apart can be the one that was here. Under its path there may be another one by now.
fn matches_stored_reply(
    whole: &str,
    text: &str,
    reply: Option<&Piece>,
    note: Option<&Piece>,
) -> bool {
    match (reply, note) {
        (Some(reply), _) => whole.replace('\0', "\u{fffd}").starts_with(reply.body_text(text)),
        (None, Some(note)) => {
            let note = note.body_text(text);
            let bytes = note.rsplit_once(" bytes, ").and_then(|(rest, _)| rest.rsplit_once('('));
            bytes.is_none_or(|(_, bytes)| bytes == whole.len().to_string())
        }
        (None, None) => true,
    }
}

/// Compares which results follow.
fn compare_results(
    text: &str,
    pieces: &[Piece],
    status: usize,
    number: u64,
    machine: &mut Turn,
) -> Result<(), Difference> {
    let is_result = |piece: &&Piece| {
        piece.name().is_some_and(|name| name.ends_with("-result") || name == "nagent-next-input")
    };
    let mut results = pieces[status + 1..].iter().take_while(|piece| {
        !matches!(piece.name(), Some("agent-response" | "nagent-turn-status" | "user-prompt"))
    });
    let mut waiting = 0;
    let mut effect = machine.step(appended_event());
    loop {
        effect = match effect {
            Effect::Say(_) => machine.step(Event::Said),
            Effect::Decide(_) => machine.step(Event::Decided(Decision::Allow)),
            Effect::Append(_) => machine.step(appended_event()),
            Effect::Act(actions) => {
                waiting = actions.len();
                let Some(piece) = results.find(is_result) else { return Ok(()) };
                let expected = actions[0].result_block();
                if piece.name() != Some(expected) {
                    let now = format!("<{expected} …");
                    let span = piece.span.clone();
                    return Err(difference(number + 1, text, span.start, span.end, &now));
                }
                waiting -= 1;
                machine.step(Event::Acted(Acted::without_model(
                    Block::new(expected).with("status", "ok"),
                )))
            }
            Effect::NextChild if waiting > 0 => {
                // Children that ran side by side have results of one kind.
                let Some(piece) = results.find(is_result) else { return Ok(()) };
                waiting -= 1;
                let name = piece.name().unwrap_or_default();
                machine
                    .step(Event::Acted(Acted::without_model(Block::new(name).with("status", "ok"))))
            }
            _ => return Ok(()),
        };
    }
}

fn appended_event() -> Event {
    Event::Appended { seconds: 0.0, is_full: false }
}

fn replied_event(text: String, figures: &Piece, was_cut: bool) -> Event {
    let number = |name| figures.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let usage = Usage {
        input: number("tokens_in"),
        cached: number("tokens_cached"),
        output: number("tokens_out"),
        estimated: figures.get("estimated").is_some(),
        ..Usage::default()
    };
    let stop = if was_cut { StopReason::Length } else { StopReason::End };
    let reply = Reply { text, usage, stop, model: None };
    Event::Replied { reply, cost: None, at: figures.get("at").unwrap_or_default().to_owned() }
}

fn rules(turn: u64, tags: TagSet) -> RunRules {
    RunRules {
        limits: Limits { turns: u64::MAX, seconds: None, tokens: None, cost: None },
        tags,
        approve: Approve::None,
        has_stop_list: false,
        after_write: false,
        check: None,
        patience: Duration::ZERO,
        fallbacks: 0,
        model: String::new(),
        first_turn: turn.saturating_sub(1),
    }
}

/// The block of a piece, without what the provider did.
fn as_block(piece: &Piece, text: &str) -> Block {
    let mut block = Block::new(piece.name().unwrap_or("system"));
    if let PieceKind::Block { attributes, body, .. } = &piece.kind {
        block.attributes.clone_from(attributes);
        block.body = (body.start < piece.span.end).then(|| text[body.clone()].to_owned());
    }
    as_stored(block)
}

/// The block as a file has it: without NUL, for which the path of its true bytes is given, and without what the provider did.
fn as_stored(mut block: Block) -> Block {
    block.attributes.retain(|(name, _)| name != "output" && !OF_PROVIDER.contains(&name.as_str()));
    block.body = block.body.map(|body| body.replace('\0', "\u{fffd}"));
    block
}

/// The block as text, with the fence that the piece has.
fn format_like(block: &Block, piece: &Piece, text: &str) -> String {
    let span = &text[piece.span.clone()];
    let fence = span.split("fence=\"").nth(1).and_then(|rest| rest.split('"').next());
    let mut fence = fence.map(str::to_owned);
    let names: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    block.format(&names, &mut || fence.take().unwrap_or_else(|| "fence".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::parse;

    const TALK: &str = "<user-prompt>\nhi\n</user-prompt>\n\n<agent-response>\n<nagent-list path=\".\"/>\n</agent-response>\n\n\
        <nagent-turn-status at=\"T\" turn=\"4\" tokens_in=\"9\" tokens_out=\"2\" tokens_cached=\"0\" model=\"m\" cost=\"0.5\" />\n\n\
        <nagent-list-result path=\".\" status=\"ok\">\na\n</nagent-list-result>\n\n\
        <agent-response>\n<nagent-response>done</nagent-response>\n</agent-response>\n\n\
        <nagent-turn-status at=\"T\" turn=\"5\" tokens_in=\"19\" tokens_out=\"2\" tokens_cached=\"0\" />\n";

    #[test]
    fn the_first_difference_is_named() {
        let check = |text: &str| compare(text, &parse(text).pieces, &|_| None);
        assert_eq!(check(TALK), Ok(2));
        assert_eq!(check(""), Ok(0));
        // A reply that is malformed now.
        let other = TALK.replace("<nagent-list path=\".\"/>", "list it");
        let found = check(&other).unwrap_err();
        assert_eq!(found.turn, 5);
        assert!(found.now.contains("was not used") && other[found.byte..].starts_with("<agent"));
        // A result of another kind.
        let other = TALK.replace("nagent-list-result", "nagent-glob-result");
        let found = check(&other).unwrap_err();
        assert_eq!((found.turn, &other[found.byte..found.byte + 4]), (5, "glob"));
        // Figures that are written otherwise.
        let other =
            TALK.replace("tokens_in=\"9\" tokens_out=\"2\"", "tokens_out=\"2\" tokens_in=\"9\"");
        let found = check(&other).unwrap_err();
        assert!(other[found.byte..].starts_with("out="), "{found:?}");
        // A reply that was kept apart, and its correction.
        let kept = "<nagent-turn-status at=\"T\" turn=\"1\" tokens_in=\"1\" tokens_out=\"1\" tokens_cached=\"0\" invalid=\"/k/1.txt\" />\n\n\
            <system>\nyour reply was cut off by the length limit, and nothing in it was run. Send a shorter one: fewer or smaller \
            tags, and write large files in several steps\n</system>\n";
        let read = |_: &str| Some("prose".to_owned());
        assert_eq!(compare(kept, &parse(kept).pieces, &read), Ok(1));
        let other = kept.replace("Send a shorter one", "Be brief");
        let found = compare(&other, &parse(&other).pieces, &read).unwrap_err();
        assert!(found.recorded.starts_with("Be brief") && found.turn == 2, "{found:?}");
        // Another protocol.
        let protocol = protocol::protocol_text(TagSet::ALL);
        let context = |text: &str| {
            let text = text.trim_matches('\n');
            format!(
                "<initial_context fence=\"f\">\n# Role\nx\n\n# Protocol\n{text}\n\n# Rules\ny\n</initial_context f>\n\n{TALK}"
            )
        };
        assert_eq!(check(&context(&protocol)), Ok(2));
        let text = context(&protocol.replace("Reply only", "Answer only"));
        let found = check(&text).unwrap_err();
        assert_eq!((found.turn, found.recorded.starts_with("Answer only")), (1, true), "{found:?}");
        assert!(text[found.byte..].starts_with("Answer only"));
    }
}
