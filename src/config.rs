//! `config.json`: text → value and complaints. Which value is in force is settled in [`crate::cmd::settings`].
//!
//! One JSON object. A key that is not known is an error that names the nearest known one: a setting that is
//! misspelled must not be ignored. Keys of the older tool that have no meaning here are told and passed over.
//! Pure: reads no file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::llm::price::Price;
use crate::llm::provider::nearest;

/// What a config file may say. Every key may be missing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's id; counts only for this file's provider.
    pub model: Option<String>,
    /// Another address for the provider's API.
    pub base_url: Option<String>,
    /// `responses` or `chat`: which API an `openai` server with a `base_url` speaks; `chat` unless set.
    pub api: Option<String>,
    /// The command-line program of provider `command`: its words.
    pub command: Option<Vec<String>>,
    /// The shell that runs commands; `bash`, else `sh`, unless set.
    pub shell: Option<String>,
    /// Seconds that a shell action may take unless its tag says otherwise; 600 unless set.
    pub shell_timeout: Option<u64>,
    /// Names of environment variables that hold credentials and are handed to commands all the same.
    pub pass_env: Vec<String>,
    /// Folders that the write boundary holds besides temp folders.
    pub write: Vec<String>,
    /// Turns of a run.
    pub max_turns: Option<u64>,
    /// Seconds of a run.
    pub max_seconds: Option<f64>,
    /// Tokens of a run.
    pub max_tokens: Option<u64>,
    /// US dollars of a run.
    pub max_cost: Option<f64>,
    /// Child conversations at once.
    pub jobs: Option<usize>,
    /// Seconds to wait for a provider in all.
    pub patience: Option<f64>,
    /// Seconds to wait for a connection.
    pub connect_timeout: Option<f64>,
    /// Seconds to wait for the next piece of a reply.
    pub read_timeout: Option<f64>,
    /// Seconds to wait for a conversation that another run holds.
    pub lock_timeout: Option<f64>,
    /// The model's window in tokens, where it is not known.
    pub context_window_tokens: Option<u64>,
    /// The longest reply in tokens.
    pub max_output_tokens: Option<u64>,
    /// Prices in US dollars per million tokens, by model.
    pub prices: BTreeMap<String, Price>,
    /// Only `off` until walls exist.
    pub sandbox: Option<String>,
    /// Only `false` until walls exist.
    pub no_network: Option<bool>,
    /// Whether to keep quiet on a terminal.
    pub quiet: Option<bool>,
    /// Whether well-known shapes of credentials are masked in results; not unless set.
    pub redact: Option<bool>,
    /// Whether a file's own conversation may ask for summaries of the file and its commits; it may unless set.
    pub file_summaries: Option<bool>,
}

/// All keys, for the nearest one to a misspelled key.
const KEYS: [&str; 27] = [
    "provider",
    "model",
    "base_url",
    "api",
    "command",
    "shell",
    "shell_timeout",
    "pass_env",
    "write",
    "max_turns",
    "max_seconds",
    "max_tokens",
    "max_cost",
    "jobs",
    "patience",
    "connect_timeout",
    "read_timeout",
    "lock_timeout",
    "context_window_tokens",
    "max_output_tokens",
    "prices",
    "sandbox",
    "no_network",
    "quiet",
    "redact",
    "file_summaries",
    "$schema",
];

/// Keys of the older tool that nothing here acts on.
const OLDER: [&str; 7] = [
    "reasoning",
    "checkpoint_interval_minutes",
    "checkpoint_max_new_kb",
    "rebuild_at_kb",
    "hook_per_run",
    "hook_per_file_edit",
    "hook_per_response",
];

/// Reads a config file's text. The second value are notes for the user.
///
/// # Errors
/// An empty file or text that is no JSON object, a key that is not known, a value of the wrong type, a number out of range.
pub fn parse(text: &str) -> Result<(Config, Vec<String>), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    let Value::Object(mut object) = value else {
        return Err("not a JSON object: it begins with { and holds \"key\": value pairs".to_owned());
    };
    let mut notes = Vec::new();
    for key in OLDER {
        if object.remove(key).is_some_and(|value| value != Value::String(String::new())) {
            notes.push(format!("the key \"{key}\" is an older tool's; nothing here acts on it"));
        }
    }
    object.retain(|key, value| key == "$schema" || !value.is_null());
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let near = nearest(key, KEYS).map_or_else(
            || format!("known keys: {}", KEYS.join(", ")),
            |near| format!("did you mean \"{near}\"?"),
        );
        return Err(format!("unknown key \"{key}\"; {near}"));
    }
    for key in KEYS {
        let Some(value) = object.get(key).cloned() else { continue };
        let single = Value::Object([(key.to_owned(), value)].into_iter().collect());
        if let Err(error) = serde_json::from_value::<Config>(single) {
            return Err(format!("the value of \"{key}\" does not fit: {error}"));
        }
    }
    let config: Config =
        serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())?;
    for (key, value) in [
        ("max_turns", config.max_turns),
        ("shell_timeout", config.shell_timeout),
        ("max_tokens", config.max_tokens),
        ("context_window_tokens", config.context_window_tokens),
        ("max_output_tokens", config.max_output_tokens),
        ("jobs", config.jobs.map(|jobs| jobs as u64)),
    ] {
        if value == Some(0) {
            return Err(format!("the value of \"{key}\" is 0; it is 1 or more"));
        }
    }
    for (key, value) in
        [("connect_timeout", config.connect_timeout), ("read_timeout", config.read_timeout)]
    {
        if value == Some(0.0) {
            return Err(format!("the value of \"{key}\" is 0; nothing is that fast"));
        }
    }
    for (key, value) in [
        ("provider", &config.provider),
        ("model", &config.model),
        ("shell", &config.shell),
        ("base_url", &config.base_url),
    ] {
        if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
            return Err(format!(
                "the value of \"{key}\" is empty; leave the key out for the default"
            ));
        }
    }
    for (key, value) in [
        ("max_seconds", config.max_seconds),
        ("max_cost", config.max_cost),
        ("patience", config.patience),
        ("connect_timeout", config.connect_timeout),
        ("read_timeout", config.read_timeout),
        ("lock_timeout", config.lock_timeout),
    ] {
        if value.is_some_and(|value| !(0.0..=1e9).contains(&value)) {
            return Err(format!("the value of \"{key}\" is not between 0 and 1000000000"));
        }
    }
    Ok((config, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_is_named_with_its_neighbour() {
        let error = parse(r#"{"provder": "openai"}"#).unwrap_err();
        assert!(error.contains("\"provder\"") && error.contains("\"provider\""), "{error}");
        let error = parse(r#"{"zzz": 1}"#).unwrap_err();
        assert!(error.contains("known keys"), "{error}");
    }

    #[test]
    fn wrong_values_are_named() {
        assert!(parse(r#"{"max_turns": "many"}"#).unwrap_err().contains("max_turns"));
        assert!(parse(r#"{"patience": -1}"#).unwrap_err().contains("patience"));
        for zero in ["max_turns", "shell_timeout", "jobs", "read_timeout"] {
            assert!(parse(&format!("{{\"{zero}\": 0}}")).unwrap_err().contains(zero));
        }
        assert!(parse(r#"{"shell": ""}"#).unwrap_err().contains("shell"));
        assert!(parse("\u{feff}{}").is_ok());
        assert!(parse("[1]").unwrap_err().contains("object"));
        assert!(parse("{").unwrap_err().contains("JSON"));
    }

    #[test]
    fn older_keys_are_told() {
        let (config, notes) =
            parse(r#"{"provider":"openai","reasoning":3,"hook_per_run":"","max_cost":1.5}"#)
                .unwrap();
        assert_eq!(config.max_cost, Some(1.5));
        assert_eq!(notes.len(), 1);
        assert_eq!(parse("{}").unwrap().0, Config::default());
    }

    #[test]
    fn every_field_is_a_known_key() {
        // A field without its key in KEYS could never be set.
        let all = format!("{:?}", Config::default());
        for key in KEYS.iter().filter(|key| **key != "$schema") {
            assert!(all.contains(&format!("{key}: ")), "{key}");
        }
        assert_eq!(all.matches(": ").count(), KEYS.len() - 1);
    }
}
