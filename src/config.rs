//! `config.json`: text → value and complaints. Which value is in force is decided in [`crate::ops::settings`].
//!
//! One JSON object. A key that is not known is an error that names the nearest known one: a setting that is
//! misspelled must not be ignored. Keys of older tools that have no effect any more are reported and ignored.
//! A profile is an object of the same keys, laid over them. Pure: reads no file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::legacy::CONFIG_KEYS;
use crate::llm::price::Price;
use crate::llm::provider::nearest;
use crate::sandbox::SandboxMode;

/// What a config file may say. Every key may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's id; counts only for this file's provider.
    pub model: Option<String>,
    /// Another address for the provider's API.
    pub base_url: Option<String>,
    /// `responses` or `chat`: which API an `openai` server with a `base_url` speaks; default `chat`.
    pub api: Option<String>,
    /// The command-line program of provider `command`: its words.
    pub command: Option<Vec<String>>,
    /// The shell that runs commands; default `bash`, else `sh`.
    pub shell: Option<String>,
    /// Seconds that a shell action may take unless its tag says otherwise; default 600.
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
    pub jobs: Option<u64>,
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
    /// How far commands may write: `off`, `workspace` or `read-only`; default `off`.
    pub sandbox: Option<String>,
    /// Whether commands are kept off the network; default false.
    pub no_network: Option<bool>,
    /// Whether to keep quiet on a terminal.
    pub quiet: Option<bool>,
    /// Whether well-known shapes of credentials are masked in results; default false.
    pub redact: Option<bool>,
    /// Whether a file's own conversation may ask for summaries of the file and its commits; default true.
    pub file_summaries: Option<bool>,
    /// The profile that counts unless a flag or a variable names another.
    pub profile: Option<String>,
    /// Settings to lay over these, by name.
    pub profiles: BTreeMap<String, Value>,
}

/// A config file as it counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The settings, those of the profile over those beside it.
    pub config: Config,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The keys that the profile has set.
    pub profile_keys: Vec<String>,
}

/// All keys, in the order of the documentation.
fn known_keys() -> Vec<String> {
    let fields = serde_json::to_value(Config::default()).unwrap_or_default();
    let fields = fields.as_object().into_iter().flat_map(|fields| fields.keys().cloned());
    fields.chain(["$schema".to_owned()]).collect()
}

/// Reads a config file's text, with the settings of a profile over its own: of `profile`, else of the one that the file
/// names.
///
/// # Errors
/// An empty file or text that is not a JSON object, a key that is not known, a value of the wrong type, a number out of range,
/// in a profile too, whether it counts or not; a profile that is not there.
pub fn parse(text: &str, profile: Option<&str>) -> Result<Parsed, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    let Value::Object(mut object) = value else {
        return Err("not a JSON object: it begins with { and holds \"key\": value pairs".to_owned());
    };
    let (config, mut notes) = check(object.clone())?;
    for (name, settings) in &config.profiles {
        let Value::Object(settings) = settings else {
            return Err(format!("profile \"{name}\" is not a JSON object of settings"));
        };
        if let Some(key) = settings.keys().find(|key| key.starts_with("profile")) {
            return Err(format!("profile \"{name}\" holds \"{key}\"; a profile has no profiles"));
        }
        let (_, own) =
            check(settings.clone()).map_err(|error| format!("profile \"{name}\": {error}"))?;
        notes.extend(own.into_iter().map(|note| format!("profile \"{name}\": {note}")));
    }
    let Some(name) = profile.or(config.profile.as_deref()) else {
        return Ok(Parsed { config, notes, profile_keys: Vec::new() });
    };
    let Some(Value::Object(settings)) = config.profiles.get(name) else {
        let known: Vec<&str> = config.profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "none; \"profiles\": {\"name\": {\"key\": value}} holds them".to_owned()
        } else {
            known.join(", ")
        };
        return Err(format!("there is no profile \"{}\"; there are: {known}", name.escape_debug()));
    };
    let profile_keys = settings.keys().cloned().collect();
    object.extend(settings.clone());
    let (config, _) = check(object)?;
    Ok(Parsed { config, notes, profile_keys })
}

/// The settings of one object, and notes for the user.
fn check(mut object: serde_json::Map<String, Value>) -> Result<(Config, Vec<String>), String> {
    let mut notes = Vec::new();
    for key in CONFIG_KEYS {
        if object.remove(key).is_some_and(|value| value != Value::String(String::new())) {
            notes.push(format!("\"{key}\" is a key of an older tool and has no effect"));
        }
    }
    object.retain(|key, value| key == "$schema" || !value.is_null());
    let known = known_keys();
    for (key, value) in &object {
        if !known.contains(key) {
            let near = nearest(key, known.iter().map(String::as_str)).map_or_else(
                || format!("known keys: {}", known.join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            return Err(format!("unknown key \"{key}\"; {near}"));
        }
        if let Some(wrong) = check_value(key, value) {
            return Err(format!("the value of \"{key}\" {wrong}"));
        }
    }
    let config =
        serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())?;
    Ok((config, notes))
}

/// Says what is wrong with a value.
fn check_value(key: &str, value: &Value) -> Option<String> {
    let single = Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
    if let Err(error) = serde_json::from_value::<Config>(single) {
        return Some(format!("does not fit: {error}"));
    }
    let (number, text) = (value.as_f64(), value.as_str().unwrap_or_default());
    let wrong = match key {
        "sandbox" => {
            return SandboxMode::parse(text).err().map(|error| format!("does not fit: {error}"));
        }
        "max_turns"
        | "shell_timeout"
        | "max_tokens"
        | "context_window_tokens"
        | "max_output_tokens"
        | "jobs" => (number == Some(0.0)).then_some("is 0; it is 1 or more"),
        "connect_timeout" | "read_timeout" if number == Some(0.0) => {
            Some("is 0; nothing is that fast")
        }
        "max_seconds" | "max_cost" | "patience" | "connect_timeout" | "read_timeout"
        | "lock_timeout" => number
            .is_some_and(|number| !(0.0..=1e9).contains(&number))
            .then_some("is not between 0 and 1000000000"),
        "provider" | "model" | "shell" | "base_url" => {
            text.trim().is_empty().then_some("is empty; leave the key out for the default")
        }
        _ => None,
    };
    wrong.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_is_named_with_its_neighbour() {
        let error = parse(r#"{"provder": "openai"}"#, None).unwrap_err();
        assert!(error.contains("\"provder\"") && error.contains("\"provider\""), "{error}");
        let error = parse(r#"{"zzz": 1}"#, None).unwrap_err();
        assert!(error.contains("known keys"), "{error}");
    }

    #[test]
    fn wrong_values_are_named() {
        assert!(parse(r#"{"max_turns": "many"}"#, None).unwrap_err().contains("max_turns"));
        assert!(parse(r#"{"patience": -1}"#, None).unwrap_err().contains("patience"));
        for zero in ["max_turns", "shell_timeout", "jobs", "read_timeout"] {
            assert!(parse(&format!("{{\"{zero}\": 0}}"), None).unwrap_err().contains(zero));
        }
        assert!(parse(r#"{"shell": ""}"#, None).unwrap_err().contains("shell"));
        assert!(parse("\u{feff}{}", None).is_ok());
        assert!(parse("[1]", None).unwrap_err().contains("object"));
        assert!(parse("{", None).unwrap_err().contains("JSON"));
    }

    #[test]
    fn older_keys_are_reported() {
        let text = r#"{"provider":"openai","reasoning":3,"hook_per_run":"","max_cost":1.5}"#;
        let parsed = parse(text, None).unwrap();
        assert_eq!(parsed.config.max_cost, Some(1.5));
        assert_eq!(parsed.notes.len(), 1);
        assert_eq!(parse("{}", None).unwrap(), Parsed::default());
    }

    #[test]
    fn a_profile_lies_over_the_rest() {
        let text = r#"{"sandbox": "off", "max_turns": 9, "profile": "b",
            "profiles": {"a": {"sandbox": "workspace", "no_network": true}, "b": {"max_turns": 3}}}"#;
        let check = |profile, sandbox: &str, no_network, turns, keys: &[&str]| {
            let Parsed { config, profile_keys, .. } = parse(text, profile).unwrap();
            let got = (config.sandbox.as_deref(), config.no_network, config.max_turns);
            assert_eq!(got, (Some(sandbox), no_network, Some(turns)));
            assert_eq!(profile_keys, keys);
        };
        check(Some("a"), "workspace", Some(true), 9, &["sandbox", "no_network"]);
        check(None, "off", None, 3, &["max_turns"]);
        let refused = |text: &str, profile, part: &str| {
            let error = parse(text, profile).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(text, Some("c"), "there are: a, b");
        refused("{}", Some("c"), "none");
        refused(r#"{"profile": "x"}"#, None, "no profile \"x\"");
        refused(r#"{"profiles": {"a": 1}}"#, None, "profile \"a\"");
        refused(r#"{"profiles": {"a": {"sandbax": "off"}}}"#, None, "\"sandbox\"");
        refused(r#"{"profiles": {"a": {"profile": "a"}}}"#, None, "has no profiles");
        refused(r#"{"sandbox": "loose"}"#, None, "read-only");
    }
}
