//! The look of a session, as data: texts with placeholders, and the settings that come with them.
//!
//! ```text
//! look   = a JSON object of the keys of [`Look`]
//! text   = any text with {style} and {name} and {name:N}
//! style  = bold dim red green yellow cyan, and off, which ends them
//! name   = what the event is about, cut to N columns
//! ```
//! The looks that are built in are the files in `looks`. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::{Finish, Start, describe_target};
use super::render::refusal;
use super::style::{NAMED, Span};
use conversation::format::columns;
use conversation::format::harmless::escape_text;
use conversation::format::numbers::{format_bytes, format_count};
use conversation::turn::run_limits::Limits;
use models::provider::check_word;

/// The looks that are built in, by name; the first is the default.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("plain", include_str!("looks/plain.json")),
    ("nano", include_str!("looks/nano.json")),
    ("pair", include_str!("looks/pair.json")),
    ("run", include_str!("looks/run.json")),
];

/// The settings that a look may bring, besides the limits of a run. None of them names a program, an address or a credential.
const SETTINGS: &str = "provider model write tags approve sandbox no_network shell_timeout \
    max_output_tokens quiet markdown";

/// Maximum length of a value, in bytes.
const LONGEST: usize = 10_000;

/// A look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Look {
    /// The text at the start.
    pub banner: String,
    /// The text before a person's input.
    pub prompt: String,
    /// The text before an answer.
    pub say: String,
    /// The line of an action that starts, by its tag without `nagent-`; `*` is for all others. Without one it is shown as
    /// nagent shows it.
    pub start: BTreeMap<String, String>,
    /// The line of a result. Without it, it is shown as nagent shows it; empty, it is not shown.
    pub finish: Option<String>,
    /// The line of a result that is an error, where it differs.
    pub failed: Option<String>,
    /// The text after the conversation was archived for a new one.
    pub cleared: String,
    /// The text at the end.
    pub bye: String,
    /// Whether the figures of a run are shown at its end.
    pub figures: bool,
    /// Whether a session begins with a new conversation.
    pub fresh: bool,
    /// Whether another model begins with a new conversation.
    pub model_clears: bool,
    /// Text that conversations start with.
    pub context: String,
    /// Settings, as the config has them.
    pub settings: Map<String, Value>,
    /// The variable that names the model.
    pub model_variable: Option<String>,
    /// Files with a credential, read where none is set; the first that is there counts.
    pub env_files: Vec<String>,
    /// Files that the model is shown with the first prompt, where they are there.
    pub read: Vec<String>,
}

impl Look {
    /// Reads a look.
    ///
    /// # Errors
    /// It is not a look, or brings a setting that it may not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let look: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let limits = Limits::default().by_name();
        let known = SETTINGS.split(' ').chain(limits.keys().map(String::as_str));
        for key in look.settings.keys() {
            check_word("setting", key, known.clone())
                .map_err(|error| format!("{error}; a look brings no others"))?;
        }
        Ok(look)
    }
}

/// Replaces the names in a text with their values, unknown ones with nothing, and returns pieces with styles. No value can hold
/// a style or leave its line.
pub fn expand(text: &str, values: &BTreeMap<&str, String>) -> Vec<Span> {
    let (mut spans, mut span, mut rest) = (Vec::new(), Span::default(), text);
    while let Some((before, after)) = rest.split_once('{')
        && let Some((word, after)) = after.split_once('}')
    {
        span.text.push_str(before);
        rest = after;
        if let Some((name, style)) = NAMED.iter().find(|(name, _)| *name == word) {
            let codes = if *name == "off" { &[] } else { span.codes.as_slice() };
            let next = Span { codes: [codes, style].concat(), text: String::new() };
            spans.push(std::mem::replace(&mut span, next));
            continue;
        }
        let (name, most) = word.split_once(':').unwrap_or((word, ""));
        let value = values.get(name).map_or("", String::as_str);
        // Escaping one endless line would take long.
        let value = value[..value.floor_char_boundary(LONGEST)].trim_end();
        let line = escape_text(&value.replace(['\n', '\t'], " "));
        span.text.push_str(&columns::truncate(&line, most.parse().unwrap_or(LONGEST)));
    }
    span.text.push_str(rest);
    spans.push(span);
    spans.retain(|span| !span.text.is_empty());
    spans
}

/// The values of the placeholders for an action that starts.
pub(super) fn start_values(start: &Start) -> BTreeMap<&'static str, String> {
    let get = |name: &str| start.attributes.get(name).map(String::as_str);
    let body = start.body.as_deref().unwrap_or(&start.first_line);
    let path = get("path").or(get("index")).unwrap_or(".");
    let here = "current directory";
    let place = if matches!(path, "." | "./") { here } else { path };
    let change = start.bytes_in.unwrap_or(start.bytes).cast_signed()
        - start.bytes_out.unwrap_or(0).cast_signed();
    let target = describe_target(&start.tag, &start.attributes);
    let bytes = start.bytes;
    BTreeMap::from([
        ("name", capitalize(start.tag.trim_start_matches("nagent-"))),
        ("path", path.to_owned()),
        ("here", if place == here { format!(" ({here})") } else { String::new() }),
        ("place", place.to_owned()),
        ("pattern", get("pattern").unwrap_or_default().to_owned()),
        ("glob", get("glob").map(|glob| format!(" ({glob})")).unwrap_or_default()),
        ("command", body.to_owned()),
        ("target", if target.is_empty() { body.to_owned() } else { target }),
        ("size", if bytes < 1_000 { format_count(bytes, "byte") } else { format_bytes(bytes) }),
        ("change", format!("{change:+}")),
    ])
}

/// The values of the placeholders for a result.
pub(super) fn finish_values(finish: &Finish) -> BTreeMap<&'static str, String> {
    let code = finish.figures.get("exit_code").and_then(Value::as_i64);
    let reason = refusal(finish);
    let line = if reason.is_empty() { finish.status.clone() } else { reason };
    let meaning = match code {
        Some(126) => " (not executable, or no permission)",
        Some(127) => " (no such command)",
        _ => "",
    };
    let failure = match code.filter(|code| *code != 0) {
        Some(code) => format!("exit {code}{meaning}: {}", finish.first_line),
        None if finish.status == "error" => line.clone(),
        None => finish.status.clone(),
    };
    // The further lines of a failure are advice for the model.
    let has_more = finish.more_lines > 0 && (finish.status == "ok" || code.is_some());
    let more = if has_more { format!(" … +{} lines", finish.more_lines) } else { String::new() };
    let failure = failure.trim_end_matches(": ").to_owned();
    BTreeMap::from([("line", line), ("more", more), ("failure", failure)])
}

fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_looks_are_whole() {
        for (name, text) in BUILT_IN {
            let look = Look::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!look.prompt.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_a_name_stands_for_stays_on_its_line_and_has_no_style() {
        let check = |text: &str, value: &str, expect: &[(&[u8], &str)]| {
            let spans = expand(text, &BTreeMap::from([("path", value.to_owned())]));
            let spans: Vec<(&[u8], &str)> =
                spans.iter().map(|span| (&span.codes[..], span.text.as_str())).collect();
            assert_eq!(spans, expect);
        };
        check("{green}⏺{off} {dim}{path}", "a", &[(&[32], "⏺"), (&[], " "), (&[2], "a")]);
        check("{bold}{cyan}x", "", &[(&[1, 36], "x")]);
        check("{path:6}{", "{red}\x1b[7m", &[(&[], "{red}…{")]);
        check("a{pth}b", "x", &[(&[], "ab")]);
        check("{path:7}", "1234567", &[(&[], "1234567")]);
        check("{path:7}", "12345678", &[(&[], "123456…")]);
        check("{path}", "a\nb", &[(&[], "a b")]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, part: &str| {
            let error = Look::parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check("1", "struct Look");
        check(r#"{"promt": ">"}"#, "unknown field `promt`");
        check(r#"{"prompt": 1}"#, "invalid type: integer `1`, expected a string at line 1");
        check(r#"{"settings": {"base_url": "x"}}"#, "a look brings no others");
        check(r#"{"settings": {"pass_env": ["X"]}}"#, "a look brings no others");
    }
}
