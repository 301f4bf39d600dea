//! The usage of all conversations: turns, tokens and dollars, by model, day or conversation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::{Catalog, Conversation};
use crate::out::Report;
use conversation::problem::Problem;
use view::figures::RunFigures;
use view::overview::{ConversationKind, TurnUsage, turns};
use view::table::format_table;

/// The subject of a row of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum UsageBy {
    /// A model
    Model,
    /// A day (UTC)
    #[default]
    Day,
    /// A conversation
    Conversation,
}

impl UsageBy {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn row_key(self, name: &str, turn: &TurnUsage<'_>) -> String {
        match self {
            Self::Model => turn.model.unwrap_or("(unknown)").to_owned(),
            Self::Day => turn.at.get(..10).unwrap_or("(unknown)").to_owned(),
            Self::Conversation => name.to_owned(),
        }
    }
}

/// Identifies a turn and its copies, and no other: a saved, branched or archived conversation has the same turns again, which
/// were paid once.
fn hash_turn(text: &str, first_prompt: &str, turn: &TurnUsage<'_>) -> u64 {
    let reply = turn.reply.map_or("", |piece| piece.body_text(text));
    let mut hasher = DefaultHasher::new();
    (first_prompt, reply, turn.at, turn.turn, turn.input, turn.output).hash(&mut hasher);
    hasher.finish()
}

/// Sums the turns of all conversations, those in the trash too, since a time (RFC 3339) where one is given.
pub fn report_usage(
    catalog: &Catalog,
    since: Option<&str>,
    by: UsageBy,
) -> Result<Report, Problem> {
    let read = |one: Conversation| {
        let mut found: Vec<(u64, String, RunFigures)> = Vec::new();
        let prompt = one.parsed.pieces.iter().find(|piece| piece.name() == Some("user-prompt"));
        // A compaction cuts a long one.
        let prompt: String =
            prompt.map_or("", |piece| piece.body_text(&one.text)).chars().take(100).collect();
        for turn in
            turns(&one.parsed.pieces).filter(|turn| since.is_none_or(|since| turn.at >= since))
        {
            let key = hash_turn(&one.text, &prompt, &turn);
            found.push((key, by.row_key(&one.name, &turn), RunFigures::from(&turn)));
        }
        let is_copy = one.kind == ConversationKind::Archive;
        // A copy has at most the turns of its original, and is not older.
        Some(((is_copy, Reverse(found.len()), one.modified, one.name), found))
    };
    let mut all = catalog.read_all(&read)?;
    all.extend(catalog.read_trash(&read)?);
    // Copies count after their originals.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut seen = HashSet::new();
    let mut rows: BTreeMap<String, RunFigures> = BTreeMap::new();
    let mut total = RunFigures::default();
    for (key, row, usage) in all.into_iter().flat_map(|(_, found)| found) {
        if seen.insert(key) {
            *rows.entry(row).or_default() += usage;
            total += usage;
        }
    }
    let heading = [&by.name(), "turns", "tokens in", "cached", "out", "cost"];
    let mut table = vec![heading.map(str::to_owned)];
    let named = rows.iter().map(|(key, usage)| (key.as_str(), usage));
    table.extend(named.chain([("total", &total)]).map(|(key, usage)| {
        let [turns, input, cached, output] =
            [usage.turns, usage.tokens_in, usage.cached, usage.tokens_out].map(|it| it.to_string());
        [key.to_owned(), turns, input, cached, output, format_cost(usage)]
    }));
    let mut text = format_table(&table, &[1, 2, 3, 4, 5]);
    if total.unpriced > 0 {
        text.push_str(&format!(
            "{} of {} turns had no known price; set \"prices\" in the config\n",
            total.unpriced, total.turns
        ));
    }
    let list: Vec<Value> = rows
        .iter()
        .map(|(key, usage)| {
            let mut row = describe(usage);
            row[by.name()] = key.as_str().into();
            row
        })
        .collect();
    Ok(Report::wrapped(&text)
        .with("by", by.name())
        .with("rows", list)
        .with("total", describe(&total)))
}

/// `$1.25`, `$1.25+` where some turns have no price, `?` where none has.
fn format_cost(usage: &RunFigures) -> String {
    let mark = if usage.unpriced > 0 { "+" } else { "" };
    if usage.unpriced > 0 && usage.cost <= 0.0 {
        "?".to_owned()
    } else {
        format!("${:.4}{mark}", usage.cost)
    }
}

fn describe(usage: &RunFigures) -> Value {
    json!({
        "turns": usage.turns,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.cached,
        "tokens_out": usage.tokens_out,
        "cost": usage.cost,
        "unpriced_turns": usage.unpriced,
    })
}
