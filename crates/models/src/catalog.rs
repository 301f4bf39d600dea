//! The models that nagent knows: the table in `docs/models.md`, which is also documentation for people.
//!
//! ```text
//! | `gpt-5.5` | openai | 1050000 | 128000 | 5 | 0.5 | 5 | 30 | 272000: 2, 1.5 | flex 0.5, priority 2.5 | none low medium high xhigh | – | yes |
//! ```
//!
//! Its columns: id, and the day from which the row counts; provider or server; window; longest reply; four prices;
//! price of long inputs; classes of service with a price of their own; reasoning; shutdown day; pictures. For a model that is not
//! in the table, everything is unknown.

use super::price::{LongInput, Price};

const PAGE: &str = include_str!("../../../docs/models.md");

/// The known facts about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its id, without a date.
    pub id: &'static str,
    /// The provider, or the server of [`super::server::SERVERS`], that charges the price.
    pub provider: &'static str,
    /// The longest input, in tokens; most count the reply in it.
    pub window: Option<u64>,
    /// The longest reply, reasoning included; `None`: the server decides.
    pub max_output: Option<u64>,
    /// The price, if known.
    pub price: Option<Price>,
    /// The settings for reasoning.
    pub reasoning: ReasoningWords,
    /// The day (`2026-12-01`) on which the provider shuts it down, if known.
    pub ends: Option<&'static str>,
    /// Whether it takes pictures; `None`: unknown.
    pub sees: Option<bool>,
    /// The first day on which the row applies; empty: always.
    from: &'static str,
    /// The classes of service with a price of their own: `flex 0.5 cached 1, priority 2`.
    tiers: &'static str,
}

/// Classes of service with the same price as the default class.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "standard", "standard_only", "on_demand"];

/// The settings for a model's reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReasoningWords {
    /// Nothing is known about it.
    #[default]
    Unknown,
    /// One of these words; `none` is among them if reasoning can be turned off.
    Words(Vec<&'static str>),
    /// A number of tokens, from the smallest to the largest.
    Budget(u64, u64),
}

/// All models, in the order of the page.
pub fn list_models() -> impl Iterator<Item = Model> {
    PAGE.lines().filter_map(read_row)
}

/// Finds the model with this id: exactly as in the table, or with a date, `-latest` or `-preview` after it, or with its
/// maker's name before it (`openai/gpt-5`, `models/gemini-2.5-pro`).
pub fn find_model(id: &str) -> Option<Model> {
    rows_of(id).next()
}

/// The price of a model at a provider or server on a day (`2026-11-23`), in a class of service.
pub fn find_price(provider: &str, id: &str, day: &str, tier: Option<&str>) -> Option<Price> {
    let row = rows_of(id).filter(|row| row.provider == provider && row.from <= day).last()?;
    let Some(tier) = tier.filter(|tier| is_special_tier(tier)) else { return row.price };
    let mut tiers = row.tiers.split(',').map(|tier| tier.split_whitespace().collect::<Vec<_>>());
    let words = tiers.find(|words| words.first() == Some(&tier))?;
    let factor = words.get(1)?.parse().ok()?;
    let cached = words.get(3).and_then(|factor| factor.parse().ok()).unwrap_or(factor);
    row.price.map(|price| price.multiply(factor, cached))
}

/// Whether a class of service has, or may have, a price of its own.
pub fn is_special_tier(tier: &str) -> bool {
    !USUAL_TIERS.contains(&tier)
}

/// The rows about the model with this id. The others are not read: it is asked for several times in each run.
fn rows_of(id: &str) -> impl Iterator<Item = Model> {
    let is_it = |line: &&str| {
        let name = line.strip_prefix("| `").and_then(|row| row.split('`').next());
        name.is_some_and(|name| is_version_of(id, name))
    };
    PAGE.lines().filter(is_it).filter_map(read_row)
}

fn read_row(line: &'static str) -> Option<Model> {
    let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
    let [id, provider, window, max_output, ref rest @ ..] = cells[..] else { return None };
    let [input, cached, write, output, long, tiers, reasoning, ends, sees, ..] = *rest else {
        return None;
    };
    let (id, from) = id.split_once('`')?;
    let number = |cell: &str| cell.parse::<f64>().ok();
    let price = number(input).zip(number(output)).map(|(input, output)| Price {
        input,
        cached: number(cached),
        cache_write: number(write),
        output,
        long: read_long(long),
    });
    Some(Model {
        id,
        provider,
        window: window.parse().ok(),
        max_output: max_output.parse().ok(),
        price,
        reasoning: read_reasoning(reasoning),
        ends: Some(ends).filter(|ends| ends.starts_with("20")),
        sees: ["no", "yes"].iter().position(|word| *word == sees).map(|at| at == 1),
        from: from.trim().strip_prefix("from ").unwrap_or_default(),
        tiers,
    })
}

fn read_long(cell: &str) -> Option<LongInput> {
    let (above, factors) = cell.split_once(':')?;
    let (input, output) = factors.split_once(',')?;
    let factor = |text: &str| text.trim().parse().ok();
    Some(LongInput { above: above.parse().ok()?, input: factor(input)?, output: factor(output)? })
}

fn read_reasoning(cell: &'static str) -> ReasoningWords {
    let words: Vec<&str> = cell.split_whitespace().collect();
    match words[..] {
        ["–"] | [] => ReasoningWords::Unknown,
        ["budget", least, most] => match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) => ReasoningWords::Budget(least, most),
            _ => ReasoningWords::Unknown,
        },
        _ => ReasoningWords::Words(words),
    }
}

fn is_version_of(id: &str, known: &str) -> bool {
    let plain = id.rsplit_once('/').map_or(id, |(_, id)| id);
    [id, plain].iter().any(|id| id.strip_prefix(known).is_some_and(is_version))
}

/// Whether the rest of an id is empty, a date, or a word for "the newest".
fn is_version(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let is_date =
        version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date || version == "latest" || version == "preview" || version.starts_with("preview-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let check = |id: &str, window: Option<u64>| {
            assert_eq!(find_model(id).and_then(|model| model.window), window, "{id}");
        };
        check("gpt-5", Some(272_000));
        check("gpt-5-2025-08-07", Some(272_000));
        check("gpt-5.5-2026-04-23", Some(1_050_000));
        check("openai/gpt-5.5", Some(1_050_000));
        check("gpt-5-mini", Some(272_000));
        check("gpt-5.9", None);
        check("gpt-4o-audio-preview", None);
        check("claude-haiku-4-5-20251001", Some(200_000));
        check("claude-sonnet-4-6", Some(1_000_000));
        check("models/gemini-2.5-flash-preview-05-20", Some(1_048_576));
        check("openai/gpt-oss-120b", Some(131_072));
        check("gemini-2.5-flash-image", None);
        check("", None);
        // Nobody knows what these are, whatever their names begin with.
        check("claude-fable-5-2", None);
        check("gpt-5.6", Some(1_050_000));
        check("gpt-5.6-nova", None);
        check("openai/gpt-5.5:nitro", None);
    }

    #[test]
    fn every_row_of_the_page_is_read() {
        let rows = PAGE.lines().filter(|line| line.starts_with("| `")).count();
        let models: Vec<Model> = list_models().collect();
        assert_eq!(models.len(), rows);
        for model in &models {
            assert!(model.window.is_some() && model.max_output.is_some(), "{model:?}");
            assert!(model.price.is_none_or(|price| price.input > 0.0 && price.output > 0.0));
            assert!(model.ends.is_none_or(|day| day.len() == 10 && day > "2026-11-23"));
            for tier in model.tiers.split(", ").filter(|tier| *tier != "–") {
                let words: Vec<&str> = tier.split(' ').collect();
                let factors = words[1..].iter().filter(|word| **word != "cached");
                assert!(factors.clone().count() > 0 && ["flex", "priority"].contains(&words[0]));
                assert!(factors.clone().all(|factor| factor.parse::<f64>().unwrap() > 0.0));
            }
        }
        let find = |id| find_model(id).unwrap();
        assert_eq!(find("gemini-2.5-pro").reasoning, ReasoningWords::Budget(128, 32_768));
        assert_eq!(find("gpt-5.1").ends, Some("2027-04-01"));
        assert_eq!(
            ["gpt-5.5", "codestral-latest"].map(|id| find(id).sees),
            [Some(true), Some(false)]
        );
        assert_eq!(find("gpt-5.5").price.unwrap().long.unwrap().above, 272_000);
    }

    #[test]
    fn prices_are_those_of_the_day_and_of_the_server() {
        let output =
            |provider, id, day| find_price(provider, id, day, None).map(|price| price.output);
        assert_eq!(output("google", "gemini-3.8-flash", "2026-12-31"), Some(3.75));
        assert_eq!(output("google", "gemini-3.8-flash", "2027-01-01"), Some(7.5));
        assert_eq!(output("openai", "gpt-5.9-pro", "2026-12-31"), None);
        assert_eq!(output("openai", "openai/gpt-oss-120b", "2026-12-31"), None);
        assert_eq!(output("groq", "openai/gpt-oss-120b", "2026-12-31"), Some(0.6));
    }

    #[test]
    fn a_class_of_service_has_its_price_or_none() {
        let check = |provider, id, tier: &str, expect: Option<(f64, Option<f64>)>| {
            let found = find_price(provider, id, "2026-12-01", Some(tier));
            assert_eq!(found.map(|price| (price.output, price.cached)), expect, "{id} {tier}");
        };
        check("openai", "gpt-5.5", "auto", Some((30.0, Some(0.5))));
        check("openai", "gpt-5.5", "flex", Some((15.0, Some(0.25))));
        check("openai", "gpt-5.5", "priority", Some((75.0, Some(1.25))));
        check("openai", "gpt-5.5", "scale", None);
        check("google", "gemini-3.1-pro", "flex", Some((6.0, Some(0.2))));
        check("anthropic", "claude-opus-5-5", "standard_only", Some((20.0, Some(0.2))));
        check("anthropic", "claude-opus-5-5", "priority", None);
        check("mistral", "mistral-large-4", "flex", None);
    }
}
