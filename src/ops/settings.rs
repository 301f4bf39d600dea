//! Which settings are in force, and where each came from: flag, environment, config file, default.
//!
//! Shared by every tool that talks to a model. It reads the config file and the environment, and starts nothing.

use super::flags::{ModelArgs, RunArgs};
use crate::config::{self, Config};
use crate::limits;
use crate::llm::provider::Provider;
use crate::problem::Problem;
use crate::sandbox::SandboxMode;
use crate::sys::env::Env;
use crate::sys::fs;
use crate::sys::names::expand_home;
use crate::sys::root::Root;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Seconds to wait for a connection.
pub(super) const CONNECT_TIMEOUT: f64 = 10.0;
/// Seconds to wait for the next piece of a reply.
pub(super) const READ_TIMEOUT: f64 = 300.0;
/// Seconds that a command may run.
pub(super) const SHELL_TIMEOUT: u64 = 600;

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// `flag`, the name of a variable, the path of the config file, or `default`.
    pub from: String,
}

/// What is in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The root folder.
    pub root: Setting<Root>,
    /// The path of the config file, which need not exist.
    pub config_path: Setting<PathBuf>,
    /// The content of the config file; a setting that has a field here is to be taken from that.
    pub config: Config,
    /// The profile in force.
    pub profile: Option<Setting<String>>,
    /// The keys that the profile sets.
    profile_keys: Vec<String>,
    /// The provider, when one was chosen or a credential is set.
    pub provider: Option<Setting<Provider>>,
    /// The model, when one was chosen or the provider has a default.
    pub model: Option<Setting<String>>,
    /// Another address of the API.
    pub base_url: Option<Setting<String>>,
    /// How long to keep retrying a busy provider, in seconds.
    pub patience: Setting<f64>,
    /// Folders that may be written besides the usual ones.
    pub write: Setting<Vec<PathBuf>>,
    /// How commands are restricted.
    pub sandbox: Setting<SandboxMode>,
    /// Whether commands are kept off the network.
    pub no_network: Setting<bool>,
    /// Whether text that looks like a credential is masked in results.
    pub redact: Setting<bool>,
    /// Whether no progress is shown.
    pub quiet: Setting<bool>,
    /// Whether a model may be asked for summaries of a file and its commits.
    pub file_summaries: Setting<bool>,
    /// The most replies of a run.
    pub max_turns: Setting<u64>,
    /// The longest run, in seconds.
    pub max_seconds: Setting<Option<f64>>,
    /// The most tokens of a run.
    pub max_tokens: Setting<Option<u64>>,
    /// The most US dollars of a run.
    pub max_cost: Setting<Option<f64>>,
    /// The most child conversations at the same time.
    pub jobs: Setting<u64>,
    /// How long to wait for a conversation that another run is using, in seconds.
    pub lock_timeout: Setting<f64>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Settings {
    /// Decides everything that does not need the network, for a tool that sends single requests.
    pub fn resolve(args: &ModelArgs, env: &Env) -> Result<Self, Problem> {
        Self::resolve_run(&RunArgs { model: args.clone(), ..RunArgs::default() }, env)
    }

    /// Decides everything that does not need the network, for a run of the loop.
    pub fn resolve_run(run: &RunArgs, env: &Env) -> Result<Self, Problem> {
        let args = &run.model;
        let root = find_root(args.root.as_deref(), env)?;
        let config_path = config_path(args, env, root.value.path());
        let path = config_path.value.display().to_string();
        let text = fs::read_text(&config_path.value, limits::CONFIG)
            .map_err(|error| Problem::usage(format!("{error:#}")))?;
        if text.is_none() && config_path.from != "default" {
            let how = if config_path.from == "flag" { "--config" } else { "NAGENT_CONFIG" };
            return Err(Problem::usage(format!("{how} {path}: no such file")));
        }
        let flag = args.profile.as_deref().map(|name| (name, "flag"));
        let chosen = flag.or_else(|| Some((env.get("NAGENT_PROFILE")?, "NAGENT_PROFILE")));
        let config::Parsed { config, notes, profile_keys } =
            config::parse(text.as_deref().unwrap_or("{}"), chosen.map(|(name, _)| name))
                .map_err(|error| Problem::usage(format!("{path}: {error}")))?;
        let profile = chosen
            .or_else(|| Some((config.profile.as_deref()?, path.as_str())))
            .map(|(name, from)| Setting::new(name.to_owned(), from));
        let from = |key: &str| source(&path, profile.as_ref(), &profile_keys, key);
        let (c, limits) = (&config, &run.limits);
        let sandbox = c.sandbox.as_deref().and_then(|name| SandboxMode::parse(name).ok());
        let folders = c.write.iter().map(PathBuf::from);
        let write: Vec<PathBuf> = run.write.iter().cloned().chain(folders).collect();
        let write_from = match (run.write.is_empty(), c.write.is_empty()) {
            (false, _) => "flag".to_owned(),
            (true, false) => from("write"),
            (true, true) => "default".to_owned(),
        };
        let no_summaries = run.no_summaries.then_some(false);
        let mut settings = Self {
            provider: provider(args, env, c, &from("provider"))?,
            model: None,
            base_url: None,
            patience: choose(args.patience, c.patience, 30.0, from("patience")),
            write: Setting { value: write, from: write_from },
            sandbox: choose(run.sandbox, sandbox, SandboxMode::Off, from("sandbox")),
            no_network: choose(run.no_network, c.no_network, false, from("no_network")),
            redact: choose(run.redact.then_some(true), c.redact, false, from("redact")),
            quiet: choose(run.quiet.then_some(true), c.quiet, false, from("quiet")),
            file_summaries: choose(no_summaries, c.file_summaries, true, from("file_summaries")),
            max_turns: choose(limits.max_turns, c.max_turns, 200, from("max_turns")),
            max_seconds: choose_optional(limits.max_seconds, c.max_seconds, from("max_seconds")),
            max_tokens: choose_optional(limits.max_tokens, c.max_tokens, from("max_tokens")),
            max_cost: choose_optional(limits.max_cost, c.max_cost, from("max_cost")),
            jobs: choose(limits.jobs, c.jobs, 4, from("jobs")),
            lock_timeout: choose(run.lock_timeout, c.lock_timeout, 30.0, from("lock_timeout")),
            notes: notes.into_iter().map(|note| format!("{path}: {note}")).collect(),
            root,
            profile,
            profile_keys,
            config,
            config_path,
        };
        settings.choose_model(args, env);
        settings.choose_base_url(args, env);
        if let Some(base_url) = &settings.base_url {
            check_url(settings.provider.as_ref().map(|provider| provider.value), base_url)?;
        }
        Ok(settings)
    }

    /// Every setting in force with its value and where it came from, for `--status`.
    pub fn list_values(&self) -> Vec<(&'static str, Value, String)> {
        fn list_row<T: serde::Serialize>(
            key: &'static str,
            setting: &Setting<T>,
        ) -> (&'static str, Value, String) {
            (key, json!(setting.value), setting.from.clone())
        }
        let c = &self.config;
        let own = |key: &'static str, value: Option<Value>, default: Value| match value {
            Some(value) => (key, value, self.source_of(key)),
            None => (key, default, "default".to_owned()),
        };
        let some = |values: &Vec<String>| (!values.is_empty()).then(|| json!(values));
        let provider = self.provider.as_ref();
        let provider = provider.map(|p| Setting::new(p.value.name(), &p.from));
        let mut rows = vec![
            list_row("root", &Setting::new(self.root.value.path(), &self.root.from)),
            list_row("config", &self.config_path),
        ];
        rows.extend(self.profile.as_ref().map(|setting| list_row("profile", setting)));
        rows.extend(provider.as_ref().map(|setting| list_row("provider", setting)));
        rows.extend(self.model.as_ref().map(|setting| list_row("model", setting)));
        rows.extend(self.base_url.as_ref().map(|setting| list_row("base_url", setting)));
        rows.extend([
            list_row("patience", &self.patience),
            list_row("sandbox", &Setting::new(self.sandbox.value.name(), &self.sandbox.from)),
            list_row("no_network", &self.no_network),
            own("api", c.api.as_ref().map(|api| json!(api)), Value::Null),
            own("shell", c.shell.as_ref().map(|shell| json!(shell)), json!("bash, else sh")),
            own("shell_timeout", c.shell_timeout.map(Value::from), json!(SHELL_TIMEOUT)),
            own("pass_env", some(&c.pass_env), json!([])),
            list_row("write", &self.write),
            list_row("max_turns", &self.max_turns),
            list_row("max_seconds", &self.max_seconds),
            list_row("max_tokens", &self.max_tokens),
            list_row("max_cost", &self.max_cost),
            list_row("jobs", &self.jobs),
            own("connect_timeout", c.connect_timeout.map(Value::from), json!(CONNECT_TIMEOUT)),
            own("read_timeout", c.read_timeout.map(Value::from), json!(READ_TIMEOUT)),
            list_row("lock_timeout", &self.lock_timeout),
            list_row("redact", &self.redact),
            list_row("file_summaries", &self.file_summaries),
        ]);
        rows
    }

    /// Where the config's value of a key came from: the file's path, with the profile's name where that has set it.
    pub fn source_of(&self, key: &str) -> String {
        let config_name = self.config_path.value.display().to_string();
        source(&config_name, self.profile.as_ref(), &self.profile_keys, key)
    }

    /// Whether the config file's model and address speak of the provider in force.
    fn config_is_for(&self, provider: Provider) -> bool {
        match &self.config.provider {
            Some(name) => Provider::parse(name) == Ok(provider),
            None => self
                .provider
                .as_ref()
                .is_some_and(|p| p.from != "flag" && p.from != "NAGENT_PROVIDER"),
        }
    }

    fn choose_model(&mut self, args: &ModelArgs, env: &Env) {
        let Some(provider) = self.provider.as_ref().map(|p| p.value) else { return };
        let config = self.config.model.as_deref();
        let chosen =
            self.choose_text("model", args.model.as_deref(), env, Some("NAGENT_MODEL"), config);
        let default =
            provider.default_model().map(|model| Setting::new(model.to_owned(), "default"));
        self.model = chosen.or(default);
    }

    fn choose_base_url(&mut self, args: &ModelArgs, env: &Env) {
        let Some(provider) = self.provider.as_ref().map(|p| p.value) else { return };
        let (flag, config) = (args.base_url.as_deref(), self.config.base_url.as_deref());
        self.base_url =
            self.choose_text("base_url", flag, env, provider.base_url_variable(), config);
    }

    /// Chooses a text: that of the flag, else that of the variable, else that of the config if it is for this provider.
    fn choose_text(
        &self,
        key: &str,
        flag: Option<&str>,
        env: &Env,
        variable: Option<&'static str>,
        config: Option<&str>,
    ) -> Option<Setting<String>> {
        let from_config = self.source_of(key);
        let is_for = |provider: &Setting<Provider>| self.config_is_for(provider.value);
        let config = config.filter(|_| self.provider.as_ref().is_some_and(is_for));
        let (value, from) = flag
            .map(|value| (value, "flag"))
            .or_else(|| variable.and_then(|name| Some((env.get(name)?, name))))
            .or_else(|| config.map(|value| (value, from_config.as_str())))?;
        Some(Setting::new(value.to_owned(), from))
    }

    /// Uses a provider that nobody chose, because no credential is set.
    pub fn try_provider(&mut self, provider: Provider, args: &ModelArgs, env: &Env) {
        self.provider = Some(Setting::new(provider, "default"));
        self.choose_model(args, env);
        self.choose_base_url(args, env);
    }
}

impl<T> Setting<T> {
    fn new(value: T, from: &str) -> Self {
        Self { value, from: from.to_owned() }
    }
}

/// Refuses what is not an address. Ollama's may lack the scheme.
fn check_url(provider: Option<Provider>, base_url: &Setting<String>) -> Result<(), Problem> {
    let url = base_url.value.trim();
    let has_scheme = url.starts_with("http://") || url.starts_with("https://");
    if !url.is_empty() && (has_scheme || provider == Some(Provider::Ollama)) {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "\"{}\" is not the address of a server (from {}); one looks like http://127.0.0.1:8080/v1",
        base_url.value.escape_debug(),
        base_url.from
    )))
}

/// Where a value of the config came from.
fn source(config: &str, profile: Option<&Setting<String>>, keys: &[String], key: &str) -> String {
    match profile.filter(|_| keys.iter().any(|known| known == key)) {
        Some(profile) => format!("{config}, profile {}", profile.value),
        None => config.to_owned(),
    }
}

/// Chooses a value: that of the flag, else that of the config, which came from `config_from`, else the default.
fn choose<T>(flag: Option<T>, config: Option<T>, default: T, config_from: String) -> Setting<T> {
    match (flag, config) {
        (Some(value), _) => Setting { value, from: "flag".to_owned() },
        (None, Some(value)) => Setting { value, from: config_from },
        (None, None) => Setting { value: default, from: "default".to_owned() },
    }
}

fn choose_optional<T>(
    flag: Option<T>,
    config: Option<T>,
    config_from: String,
) -> Setting<Option<T>> {
    choose(flag.map(Some), config.map(Some), None, config_from)
}

fn config_path(args: &ModelArgs, env: &Env, root: &Path) -> Setting<PathBuf> {
    match (&args.config, env.get_os("NAGENT_CONFIG")) {
        (Some(path), _) => Setting::new(path.clone(), "flag"),
        (None, Some(path)) => Setting::new(PathBuf::from(path), "NAGENT_CONFIG"),
        (None, None) => Setting::new(root.join("config.json"), "default"),
    }
}

/// The root: that of the flag, else that of the environment, else `~/.nagent`.
pub fn find_root(flag: Option<&Path>, env: &Env) -> Result<Setting<Root>, Problem> {
    let home = env.home();
    let (path, from) = if let Some(path) = flag {
        (path.to_owned(), "flag")
    } else if let Some(path) = env.get_os("NAGENT_ROOT") {
        (PathBuf::from(path), "NAGENT_ROOT")
    } else if let Some(home) = &home {
        (home.join(".nagent"), "default")
    } else {
        return Err(Problem::usage(
            "there is no home folder: set HOME or NAGENT_ROOT, or give --root DIR",
        ));
    };
    let path = expand_home(&path, home.as_deref());
    let path = match &env.folder {
        Ok(folder) => folder.join(path),
        Err(_) => path,
    };
    Ok(Setting::new(Root { folder: path }, from))
}

fn provider(
    args: &ModelArgs,
    env: &Env,
    config: &Config,
    config_name: &str,
) -> Result<Option<Setting<Provider>>, Problem> {
    let named = args
        .provider
        .as_deref()
        .map(|name| (name, "flag"))
        .or_else(|| env.get("NAGENT_PROVIDER").map(|name| (name, "NAGENT_PROVIDER")))
        .or_else(|| config.provider.as_deref().map(|name| (name, config_name)));
    if let Some((name, from)) = named {
        let value = Provider::parse(name)
            .map_err(|message| Problem::usage(format!("{message} (from {from})")))?;
        return Ok(Some(Setting::new(value, from)));
    }
    let by_credential = Provider::all().find_map(|provider| {
        let name = provider.credential_variables().iter().find(|name| env.get(name).is_some())?;
        Some(Setting::new(provider, name))
    });
    Ok(by_credential)
}
