//! The overview of a conversation: its kind, prompts, tokens, cost and first words, for lists; its turns, for reading.
//!
//! Everything is computed from the blocks of the file, which is read once. Pure: text in, values out.

use std::collections::HashSet;

use crate::figures::RunFigures;
use conversation::format::file::Piece;
use conversation::format::harmless;
use conversation::format::hex::SHORT_ID;

pub mod transcript;

/// Maximum length of the first words, in characters.
const FIRST_WORDS: usize = 120;

/// The values of a conversation in a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// Prompts that were given.
    pub prompts: u64,
    /// The usage of its turns.
    pub usage: RunFigures,
    /// The folder of the last prompt.
    pub folder: Option<String>,
    /// The conversation that started this one.
    pub parent: Option<String>,
    /// The first prompt on one line, cut.
    pub first_words: String,
    /// Whether nobody has said anything in it yet.
    pub is_empty: bool,
}

impl Overview {
    /// Reads the blocks of a conversation.
    pub fn read(text: &str, pieces: &[Piece]) -> Self {
        let mut overview = Self { is_empty: true, ..Self::default() };
        for piece in pieces {
            match piece.name() {
                Some("user-prompt") => {
                    overview.prompts += 1;
                    if overview.first_words.is_empty() {
                        overview.first_words =
                            harmless::escape_line(piece.body_text(text), FIRST_WORDS);
                    }
                    let get = |name| piece.get(name).map(str::to_owned);
                    overview.folder = get("cwd").or(overview.folder);
                    overview.parent = overview.parent.or(get("from"));
                }
                Some("initial_context" | "context-update") => continue,
                _ => {}
            }
            overview.is_empty = false;
        }
        for turn in turns(pieces) {
            overview.usage += RunFigures::from(&turn);
        }
        overview
    }
}

impl From<&TurnUsage<'_>> for RunFigures {
    fn from(turn: &TurnUsage<'_>) -> Self {
        let TurnUsage { input, cached, output, cost, .. } = *turn;
        let unpriced = u64::from(cost.is_none());
        let turns = u64::from(!turn.turn.is_empty());
        let (tokens_in, tokens_out, cost) = (input, output, cost.unwrap_or(0.0));
        Self { turns, tokens_in, cached, tokens_out, cost, unpriced, ..Self::default() }
    }
}

/// The usage of one reply, from its `nagent-turn-status`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnUsage<'a> {
    /// The reply, where it is in the file.
    pub reply: Option<&'a Piece>,
    /// When the reply was there, RFC 3339.
    pub at: &'a str,
    /// Its number in the conversation, as written; empty for the checkpoint of a compaction, which is not a turn.
    pub turn: &'a str,
    /// The model of the run.
    pub model: Option<&'a str>,
    /// Input tokens.
    pub input: u64,
    /// Input tokens that came from the provider's cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// US dollars, where the price is known.
    pub cost: Option<f64>,
}

/// The turns of a conversation. The first turn of a run names the model; those after it have the same.
pub fn turns(pieces: &[Piece]) -> impl Iterator<Item = TurnUsage<'_>> {
    let (mut model, mut reply) = (None, None);
    pieces.iter().filter_map(move |piece| {
        if piece.name() == Some("agent-response") {
            reply = Some(piece);
        }
        let is_checkpoint = piece.get("compacted").is_some() && piece.get("tokens_in").is_some();
        if piece.name() != Some("nagent-turn-status") && !is_checkpoint {
            return None;
        }
        let number = |name| piece.number(name).unwrap_or(0);
        model = piece.get("model").or(model);
        let cost = piece.get("cost").and_then(|text| text.parse::<f64>().ok());
        Some(TurnUsage {
            reply: reply.take().filter(|_| !is_checkpoint),
            at: piece.get("at").unwrap_or_default(),
            turn: piece.get("turn").unwrap_or_default(),
            model,
            input: number("tokens_in"),
            cached: number("tokens_cached"),
            output: number("tokens_out"),
            cost: cost.filter(|cost| cost.is_finite()),
        })
    })
}

/// The number of the last turn. A compacted conversation has fewer turns than that, and an edited one may have more.
pub fn last_turn(pieces: &[Piece]) -> u64 {
    let turns: Vec<&str> = turns(pieces).map(|it| it.turn).filter(|it| !it.is_empty()).collect();
    let last = turns.last().and_then(|turn| turn.parse().ok());
    last.unwrap_or(0).max(turns.len() as u64)
}

/// The kind of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationKind {
    /// The conversation of a shell.
    Shell,
    /// A conversation that was given a name.
    Named,
    /// The conversation of a file.
    File,
    /// The conversation of a run with `--new`.
    New,
    /// A conversation that another one started, or a script in plain language.
    Child,
    /// The old content of a conversation that was cleared or replaced.
    Archive,
    /// A copy that a model edited, or the edit's own.
    Edit,
    /// A conversation in which a run continued when somebody else had changed its own.
    Fork,
}

impl ConversationKind {
    /// The kind that a name implies, if nothing else is known.
    pub fn from_name(name: &str) -> Self {
        let ends_in = |digits: usize, before: &str| {
            let at = name.len().checked_sub(digits).filter(|at| name.is_char_boundary(*at));
            at.is_some_and(|at| {
                let (head, id) = name.split_at(at);
                head.len() > before.len() && head.ends_with(before) && is_id(id)
            })
        };
        match name {
            _ if is_new_name(name) => Self::New,
            _ if ends_in(36, "-") => Self::Archive,
            _ if ends_in(32, "-edit-") => Self::Edit,
            _ if name.starts_with("child-") || name.starts_with("delegated-") => Self::Child,
            _ if name.starts_with("thought-") && ends_in(32, "-") => Self::Child,
            _ if ends_in(32, "-") => Self::Fork,
            _ if name.starts_with("latest-") => Self::Shell,
            _ => Self::Named,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Named => "named",
            Self::File => "file",
            Self::New => "new",
            Self::Child => "child",
            Self::Archive => "archive",
            Self::Edit => "edit",
            Self::Fork => "fork",
        }
    }

    /// Whether a person writes prompts in it, so that --continue may choose it.
    pub fn is_of_a_person(self) -> bool {
        !matches!(self, Self::Child | Self::Archive | Self::Edit | Self::File)
    }
}

/// Whether a text is the digits of a hash, or of a UUID, which with 36 characters has its hyphens.
pub fn is_id(text: &str) -> bool {
    text.chars().enumerate().all(|(at, c)| match (text.len(), at) {
        (36, 8 | 13 | 18 | 23) => c == '-',
        _ => c.is_ascii_digit() || ('a'..='f').contains(&c),
    })
}

/// The hashes, whole or their first digits, and UUIDs in a text, which may be names of stored files.
pub fn find_ids(text: &[u8]) -> HashSet<Vec<u8>> {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
    let mut ids = HashSet::new();
    for run in text.split(|byte| !is_part(byte)).filter(|run| run.len() >= SHORT_ID) {
        // Text before an id may look like a part of it: `cafe-` and a UUID.
        for digits in [64, 36, 32, SHORT_ID] {
            ids.extend(run.len().checked_sub(digits).map(|at| run[at..].to_vec()));
        }
    }
    ids
}

/// The digits in the name of a conversation of `--new`.
pub const NEW_DIGITS: usize = 12;

/// Whether a conversation was started by `--new`, which makes names that people do not choose.
pub fn is_new_name(name: &str) -> bool {
    name.strip_prefix("new-").is_some_and(|id| id.len() == NEW_DIGITS && is_id(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::parse;

    #[test]
    fn what_a_conversation_comes_to() {
        let text = "<initial_context fence=\"f\">\n<user-prompt>\nno\n</user-prompt>\n</initial_context f>\n\n\
            <user-prompt at=\"2026-11-21T09:30:00Z\" cwd=\"/a\">\nFix\nthe \u{1b}[1mtest\n</user-prompt>\n\n\
            <nagent-turn-status at=\"2026-11-21T09:30:01Z\" turn=\"1\" model=\"m\" tokens_in=\"100\" tokens_out=\"5\" tokens_cached=\"60\" cost=\"0.25\" />\n\n\
            <nagent-turn-status at=\"2026-11-21T09:30:02Z\" turn=\"2\" tokens_in=\"110\" tokens_out=\"7\" tokens_cached=\"0\" />\n\n\
            <user-prompt cwd=\"/b\">\nmore\n</user-prompt>\n";
        let pieces = parse(text).pieces;
        let overview = Overview::read(text, &pieces);
        assert_eq!((overview.prompts, overview.usage.turns), (2, 2));
        assert_eq!((overview.usage.tokens(), overview.usage.cached), (222, 60));
        assert_eq!((overview.usage.cost, overview.usage.known_cost()), (0.25, None));
        assert_eq!(overview.first_words, "Fix the \\u{1b}[1mtest");
        assert_eq!(overview.folder.as_deref(), Some("/b"));
        assert!(!overview.is_empty);
        let models: Vec<_> = turns(&pieces).map(|turn| turn.model).collect();
        assert_eq!(models, [Some("m"), Some("m")]);
        let context = "<initial_context fence=\"f\">\nx\n</initial_context f>\n";
        assert!(Overview::read(context, &parse(context).pieces).is_empty);
    }

    #[test]
    fn names_tell_kinds() {
        let check = |name: &str, expect: &str| {
            assert_eq!(ConversationKind::from_name(name).as_str(), expect, "{name}");
        };
        let (simple, id) =
            ("0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdef");
        check("latest-box-12-34", "shell");
        check("log", "named");
        check("new-0123456789ab", "new");
        check("new-car", "named");
        check(&format!("child-{simple}"), "child");
        check(&format!("delegated-{simple}"), "child");
        check(&format!("thought-week-day-{simple}"), "child");
        check("thought-out", "named");
        check(&format!("log-{id}"), "archive");
        check(&format!("latest-box-1-{id}"), "archive");
        check(&format!("log-{simple}"), "fork");
        check(&format!("log-edit-{simple}"), "edit");
        check(simple, "named");
    }
}
