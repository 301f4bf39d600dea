//! Parses `config.json`: text → values, or an error. [`crate::ops::setup::settings`] decides which value is in force.
//!
//! One JSON object. A key that is not known is an error that names the nearest known one: a setting that is
//! misspelled must not be ignored. Keys of older tools that have no effect any more are reported and ignored.
//! A profile is an object of the same keys, which override the others. Pure: reads no file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use conversation::approve::Approve;
use conversation::turn::run_limits::Limits;
use conversation::{legacy, limits};
use models::options::Reasoning;
use models::price::Price;
use models::provider::check_word;
use models::server::{KnownServer, SERVERS};
use sandbox::SandboxMode;

/// The settings. Those of a file, or those in force; [`Config::from_values`] has the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct Config {
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's id; that of a file counts only for the file's provider.
    pub model: Option<String>,
    /// Another address for the provider's API; that of a file counts only for the file's provider.
    pub base_url: Option<String>,
    /// `responses` or `chat`: which API an `openai` server with a `base_url` speaks; default `chat`.
    pub api: Option<String>,
    /// The known server, set by its built-in profile; it selects the particulars of this server.
    pub server: Option<String>,
    /// The environment variable with the credential, instead of the provider's.
    pub key_env: Option<String>,
    /// The words of a command that prints the credential, sent as a bearer token.
    pub key_command: Option<Vec<String>>,
    /// Headers of every request; `$NAME` is the value of a variable.
    pub headers: BTreeMap<String, String>,
    /// Members to merge into those of each request to the model; null removes one.
    pub body: Map<String, Value>,
    /// The reasoning effort: a word or a number of tokens.
    pub reasoning: Option<Reasoning>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The seed for sampling.
    pub seed: Option<u64>,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// The words that start the program of provider `command`.
    pub command: Option<Vec<String>>,
    /// The shell that runs commands; default `bash`, else `sh`.
    pub shell: Option<String>,
    /// Seconds that a command may run unless its tag says otherwise.
    pub shell_timeout: u64,
    /// The command that runs after the writes of a reply.
    pub after_write: Option<String>,
    /// Names of environment variables that are passed to commands although they hold credentials.
    pub pass_env: Vec<String>,
    /// Folders that may be written besides temp folders.
    pub write: Vec<String>,
    /// The tags that the model may write; all unless given.
    pub tags: Option<Vec<String>>,
    /// Files whose text every conversation starts with, after those of the root.
    pub context: Vec<String>,
    /// The actions that need approval.
    pub approve: Approve,
    /// Patterns of commands that are never asked about.
    pub approve_allow: Vec<String>,
    /// The limits of a run.
    #[serde(flatten)]
    pub limits: Limits,
    /// Maximum number of child conversations at the same time.
    pub jobs: u64,
    /// Maximum time to keep retrying a busy provider, in seconds.
    pub patience: f64,
    /// Seconds to wait for a connection.
    pub connect_timeout: f64,
    /// Seconds to wait for the next piece of a reply; the default depends on the provider.
    pub read_timeout: Option<f64>,
    /// Seconds to wait for a conversation that another run is using.
    pub lock_timeout: f64,
    /// The model's window in tokens, where it is not known.
    pub context_window_tokens: Option<u64>,
    /// Maximum length of a reply, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Prices in US dollars per million tokens, by model.
    pub prices: BTreeMap<String, Price>,
    /// The restrictions on commands; the default depends on the folder.
    pub sandbox: Option<SandboxMode>,
    /// Whether commands are kept off the network, in the sandbox.
    pub no_network: bool,
    /// Whether no progress is shown.
    pub quiet: bool,
    /// Whether a file's own conversation may ask for summaries of the file and its commits.
    pub file_summaries: bool,
    /// Whether a terminal shows answers as Markdown.
    pub markdown: bool,
    /// The look of `nagent-repl`.
    pub look: Option<String>,
    /// The profile in force.
    pub profile: Option<String>,
    /// Settings that override these, by the name of the profile.
    pub profiles: BTreeMap<String, Value>,
}

impl Config {
    /// Reads values by their keys; a key that is missing has its default.
    pub fn from_values(values: &Map<String, Value>) -> Result<Self, String> {
        let mut all = json!({
            "shell_timeout": 600, "jobs": 4, "connect_timeout": 10, "patience": limits::PROVIDER_PATIENCE.as_secs(),
            "lock_timeout": 30, "file_summaries": true, "markdown": true,
        });
        for (key, value) in values {
            all[key] = value.clone();
        }
        let config: Self = serde_json::from_value(all).map_err(|error| error.to_string())?;
        if config.no_network && config.sandbox == Some(SandboxMode::Off) {
            return Err(
                "only the sandbox can cut the network, and it is off: choose --sandbox workspace or read-only, or --no-network=false".to_owned(),
            );
        }
        Ok(config)
    }
}

/// A config file, parsed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// Its settings, valid; those of the profile override the others.
    pub values: Map<String, Value>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The keys that the profile has set.
    pub profile_keys: Vec<String>,
}

/// Whether a setting has this key.
pub fn is_key(key: &str) -> bool {
    known_keys().iter().any(|known| known == key)
}

/// All keys, in the order of the documentation.
fn known_keys() -> Vec<String> {
    let fields = serde_json::to_value(Config::default()).unwrap_or_default();
    let fields = fields.as_object().into_iter().flat_map(|fields| fields.keys().cloned());
    fields.chain(["$schema".to_owned()]).collect()
}

/// Reads a config file's text, with the settings of `profile`, else of the profile that the file names, over its own.
pub fn parse(text: &str, profile: Option<&str>) -> Result<Parsed, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err("the file is empty; remove it, or write {} into it".to_owned());
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    let Value::Object(mut object) = value else {
        return Err("not a JSON object: it begins with { and holds \"key\": value pairs".to_owned());
    };
    let mut notes = check(&mut object)?;
    let mut profiles = Map::new();
    if let Some(Value::Object(found)) = object.remove("profiles") {
        profiles = found;
    }
    for (name, settings) in &mut profiles {
        let Value::Object(settings) = settings else {
            return Err(format!("profile \"{name}\" is not a JSON object of settings"));
        };
        if let Some(key) = settings.keys().find(|key| key.starts_with("profile")) {
            return Err(format!("profile \"{name}\" holds \"{key}\"; a profile has no profiles"));
        }
        let own = check(settings).map_err(|error| format!("profile \"{name}\": {error}"))?;
        notes.extend(own.into_iter().map(|note| format!("profile \"{name}\": {note}")));
    }
    let name = profile.or_else(|| object.get("profile")?.as_str()).map(str::to_owned);
    object = expand_server(object);
    let Some(name) = name.as_deref() else {
        return Ok(Parsed { values: object, notes, profile_keys: Vec::new() });
    };
    let built_in = KnownServer::find_server(name).map(KnownServer::settings);
    let own = match profiles.remove(name) {
        Some(Value::Object(own)) => Some(own),
        _ => None,
    };
    let Some(mut settings) = built_in.or_else(|| own.as_ref().map(|_| Map::new())) else {
        let built_in = SERVERS.iter().map(|server| server.name);
        let known: Vec<&str> = profiles.keys().map(String::as_str).chain(built_in).collect();
        let known = known.join(", ");
        return Err(format!(
            "there is no profile \"{}\"; there are: {known}; \"profiles\": {{\"name\": {{\"key\": value}}}} holds your own",
            name.escape_debug()
        ));
    };
    settings.extend(own.into_iter().flatten());
    let settings = expand_server(settings);
    let profile_keys = settings.keys().cloned().collect();
    merge_settings(&mut object, settings);
    Ok(Parsed { values: object, notes, profile_keys })
}

/// The keys that say which server is asked, and how: the values for one server do not fit another.
const CONNECTION: [&str; 11] = [
    "provider",
    "model",
    "base_url",
    "api",
    "server",
    "key_env",
    "key_command",
    "headers",
    "body",
    "service_tier",
    "context_window_tokens",
];

/// Merges settings into others. Those of another server replace all that belongs to the connection.
pub fn merge_settings(values: &mut Map<String, Value>, over: Map<String, Value>) {
    if ["provider", "base_url", "server"].iter().any(|key| over.contains_key(*key)) {
        values.retain(|key, _| !CONNECTION.contains(&key.as_str()));
    }
    values.extend(over);
}

/// Writes the name of a known server, given as a provider, as its settings.
fn expand_server(mut values: Map<String, Value>) -> Map<String, Value> {
    let name = values.get("provider").and_then(Value::as_str);
    let Some(server) = name.and_then(KnownServer::find_server) else { return values };
    values.remove("provider");
    let mut all = server.settings();
    all.extend(values);
    all
}

/// Checks the settings of one object and removes those without effect. Returns notes for the user.
fn check(object: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    let notes = legacy::remove_old_settings(object);
    object.retain(|key, value| key == "$schema" || !value.is_null());
    let known = known_keys();
    for (key, value) in object {
        let is_credential = key.ends_with("_API_KEY") || key.ends_with("api_key");
        if is_credential && !known.contains(key) {
            return Err(format!(
                "\"{key}\": keys are not kept in the config; export the variable, as in export OPENAI_API_KEY=..."
            ));
        }
        check_word("key", key, known.iter().map(String::as_str))?;
        if let Some(wrong) = check_value(key, value) {
            return Err(format!("the value of \"{key}\" {wrong}"));
        }
    }
    Ok(notes)
}

/// Whether a key takes values of the type of this one.
fn takes(key: &str, sample: Value) -> bool {
    serde_json::from_value::<Config>(json!({ key: sample })).is_ok()
}

/// Describes the values that a key takes; `error` is of one that it does not take.
fn describe_expected(key: &str, error: &serde_json::Error) -> String {
    let takes = |sample| takes(key, sample);
    let text = match key {
        "reasoning" => "must be off, low, medium, high, max, 1 to 5, or a number of tokens",
        "command" | "key_command" => "must be a list of words, as in [\"my-model\", \"--json\"]",
        "prices" => {
            "must have the dollars per million tokens of each model, as in {\"my-model\": {\"input\": 2, \"output\": 10}}, with \
             \"cached\" and \"cache_write\" where they differ"
        }
        _ if takes(json!(2.5)) => "must be a number, as in 2.5",
        _ if takes(json!(1)) => "must be a whole number, as in 50",
        _ if takes(json!(true)) => "must be true or false",
        _ if takes(json!(["text"])) => "must be a list of texts, as in [\"one\", \"two\"]",
        _ if takes(json!("text")) => "must be a text, as in \"text\"",
        _ if takes(json!({})) => "must be an object, as in {\"name\": VALUE}",
        _ => return format!("does not fit: {error}"),
    };
    text.to_owned()
}

/// The problem with a header of the user's: the request sets it itself, or its value would end it.
pub fn check_header(name: &str, value: &str) -> Option<String> {
    const OWN: [&str; 4] = ["content-length", "transfer-encoding", "host", "connection"];
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        Some("has a name that HTTP does not allow".to_owned())
    } else if OWN.contains(&name.to_lowercase().as_str()) {
        Some("is not for users: nagent sets it for each request".to_owned())
    } else if value.chars().any(char::is_control) {
        Some("has a line feed or another control character in its value".to_owned())
    } else {
        None
    }
}

fn check_value(key: &str, value: &Value) -> Option<String> {
    if let Err(error) = serde_json::from_value::<Config>(json!({ key: value })) {
        return Some(format!("{}; it is {value}", describe_expected(key, &error)));
    }
    let (number, text) = (value.as_f64(), value.as_str().unwrap_or_default());
    if key == "headers" {
        let mut headers = value.as_object().into_iter().flatten();
        return headers.find_map(|(name, value)| {
            let wrong = check_header(name, value.as_str().unwrap_or_default())?;
            Some(format!("has a header that cannot be sent: \"{}\" {wrong}", name.escape_debug()))
        });
    }
    let wrong = match key {
        "temperature" => number
            .is_some_and(|number| !(0.0..=2.0).contains(&number))
            .then_some("is not between 0 and 2"),
        "seed" | "reasoning" => None,
        "connect_timeout" | "read_timeout" if number == Some(0.0) => {
            Some("is 0; give a number of seconds above 0")
        }
        _ if number == Some(0.0) && !takes(key, json!(2.5)) => Some("is 0; it must be 1 or more"),
        _ if number.is_some_and(|number| !(0.0..=1e9).contains(&number))
            && takes(key, json!(2.5)) =>
        {
            Some("is not between 0 and 1000000000")
        }
        "key_command" if value.as_array().is_some_and(Vec::is_empty) => {
            Some("is empty; it must have the words of a command")
        }
        "server" if KnownServer::find_server(text).is_none() => {
            Some("unknown server; nagent --list-providers lists them")
        }
        "provider" | "model" | "shell" | "base_url" | "key_env" | "after_write" => {
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
        for header in
            [r#""Content-Length": "3""#, r#""Host": "x""#, r#""x": "a\r\nb: c""#, r#""a b": "x""#]
        {
            let error = parse(&format!(r#"{{"headers": {{{header}}}}}"#), None).unwrap_err();
            assert!(error.contains("\"headers\" has a header that cannot be sent"), "{error}");
        }
        assert!(parse("[1]", None).unwrap_err().contains("object"));
        assert!(parse("{", None).unwrap_err().contains("JSON"));
    }

    #[test]
    fn older_keys_are_reported() {
        let text = r#"{"provider":"openai","reasoning":3,"hook_per_run":"x","max_cost":1.5}"#;
        let parsed = parse(text, None).unwrap();
        assert_eq!(parsed.values["max_cost"], 1.5);
        assert_eq!(parsed.notes.len(), 1);
        assert_eq!(parse("{}", None).unwrap(), Parsed::default());
    }

    #[test]
    fn only_the_sandbox_cuts_the_network() {
        let config = |text: &str| {
            let Value::Object(values) = serde_json::from_str(text).unwrap() else { panic!() };
            Config::from_values(&values)
        };
        let refused = config(r#"{"no_network": true, "sandbox": "off"}"#).unwrap_err();
        assert!(refused.contains("--sandbox workspace"), "{refused}");
        assert_eq!(config("{}").unwrap().sandbox, None);
    }

    #[test]
    fn a_profile_lies_over_the_rest() {
        let text = r#"{"sandbox": "off", "max_turns": 9, "profile": "b",
            "profiles": {"a": {"sandbox": "workspace", "no_network": true}, "b": {"max_turns": 3}}}"#;
        let check = |profile, sandbox: &str, no_network, turns, keys: &[&str]| {
            let Parsed { values, profile_keys, .. } = parse(text, profile).unwrap();
            let config = Config::from_values(&values).unwrap();
            assert_eq!(
                (config.sandbox.unwrap().name(), config.no_network, config.limits.max_turns),
                (sandbox, no_network, turns)
            );
            assert_eq!(profile_keys, keys);
        };
        check(Some("a"), "workspace", true, 9, &["sandbox", "no_network"]);
        check(None, "off", false, 3, &["max_turns"]);
        let refused = |text: &str, profile, part: &str| {
            let error = parse(text, profile).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(text, Some("c"), "there are: a, b");
        refused("{}", Some("c"), "there are: azure, openrouter");
        refused(r#"{"profile": "x"}"#, None, "no profile \"x\"");
        refused(r#"{"profiles": {"a": 1}}"#, None, "profile \"a\"");
        refused(r#"{"profiles": {"a": {"sandbax": "off"}}}"#, None, "\"sandbox\"");
        refused(r#"{"profiles": {"a": {"profile": "a"}}}"#, None, "has no profiles");
        refused(r#"{"sandbox": "loose"}"#, None, "read-only");
    }
}
