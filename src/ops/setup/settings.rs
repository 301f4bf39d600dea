//! Decides which settings are in force, and where each came from: flag, environment, config file, default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::find_root::find_root;
use super::flags::{ModelArgs, RunArgs};
use crate::config::{self, Config};
use conversation::approve::Approve;
use conversation::limits;
use conversation::problem::Problem;
use conversation::protocol::TagSet;
use models::anthropic::takes_temperature;
use models::options::ChatOptions;
use models::provider::Provider;
use models::server::KnownServer;
use sandbox::SandboxMode;
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::root::{Root, check_name};
use view::look::{BUILT_IN, Look};

/// Seconds to wait for the next piece of a server's reply.
pub(crate) const READ_TIMEOUT: f64 = 300.0;

/// Seconds to keep retrying for a summary, which a run can do without.
const SUMMARY_PATIENCE: f64 = 5.0;

/// The settings in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The root folder.
    pub root: Root,
    /// The path of the config file, which need not exist.
    pub config_path: PathBuf,
    /// The values of flags, else of variables, else of the config file, else the defaults.
    pub config: Config,
    /// The provider.
    pub provider: Provider,
    /// Whether the provider is a guess: none was chosen, no credential is set. Then it is Ollama, which may run here.
    pub is_guess: bool,
    /// Folders of flags and of the config that may be written besides the usual ones.
    pub write: Vec<PathBuf>,
    /// The tags that the model may write.
    pub tags: TagSet,
    /// Files of the config and of flags whose text conversations start with.
    pub context: Vec<PathBuf>,
    /// Options of requests to the model, in addition to their texts.
    pub options: ChatOptions,
    /// The look that was asked for.
    pub look: Option<Look>,
    /// Notes for the user.
    pub notes: Vec<String>,
    sources: Sources,
}

/// Where the value of each key came from: `flag`, a variable's name, the config's path. A missing key has its default.
type Sources = BTreeMap<String, String>;

impl Settings {
    /// Decides everything that does not need the network, for a tool that sends single requests.
    pub fn resolve(args: &ModelArgs, env: &Env) -> Result<Self, Problem> {
        Self::resolve_run(&RunArgs { model: args.clone(), ..RunArgs::default() }, env)
    }

    /// Decides everything that does not need the network, for a run of the loop.
    pub fn resolve_run(run: &RunArgs, env: &Env) -> Result<Self, Problem> {
        let args = &run.model;
        let (root, root_from) = find_root(args.root.as_deref(), env)?;
        let (config_path, config_from, text) = read_config(args, &root, env)?;
        let path = config_path.display().to_string();
        let profile = args.profile.as_deref().or_else(|| env.get("NAGENT_PROFILE"));
        let parsed = config::parse(text.as_deref().unwrap_or("{}"), profile)
            .map_err(|error| Problem::usage(format!("{path}: {error}")))?;
        let mut values = parsed.values;
        let named = args.provider.as_deref().or_else(|| env.get("NAGENT_PROVIDER"));
        let server = named.and_then(KnownServer::find_server);
        if let Some(server) = server {
            config::merge_settings(&mut values, server.settings());
        }
        let name = profile.or_else(|| values.get("profile")?.as_str()).unwrap_or_default();
        let of_profile = format!("{path}, profile {name}");
        let source_of = |key: &String| {
            if parsed.profile_keys.contains(key) { of_profile.clone() } else { path.clone() }
        };
        let mut sources: Sources = values.keys().map(|key| (key.clone(), source_of(key))).collect();
        sources.extend(server.iter().flat_map(|server| {
            let source = format!("built in for {}", server.name);
            server.settings().into_iter().map(move |(key, _)| (key, source.clone()))
        }));
        sources.insert("root".to_owned(), root_from.to_owned());
        sources.insert("config".to_owned(), config_from.to_owned());
        let look = run.look.as_deref().map(|name| load_look(&root, name)).transpose()?;
        if let (Some(look), Some(name)) = (&look, &run.look) {
            let added = add_look_settings(look, &mut values).into_iter();
            sources.extend(added.map(|key| (key.to_owned(), format!("look {name}"))));
        }
        let provider = choose_provider(args, env, &mut values, &mut sources)?;
        let server =
            values.get("server").and_then(Value::as_str).and_then(KnownServer::find_server);
        if let Some(server) = server.filter(|server| !server.base_url.is_empty()) {
            values.entry("base_url").or_insert_with(|| server.base_url.into());
        }
        let addresses = find_address_variables(provider, server, &values, &parsed.profile_keys);
        let address = addresses.iter().copied().find(|name| env.get(name).is_some());
        let of_look = look.as_ref().and_then(|look| look.model_variable.as_deref());
        let variables = [
            ("profile", Some("NAGENT_PROFILE")),
            ("model", of_look),
            ("model", Some("NAGENT_MODEL")),
            ("base_url", address),
        ];
        take_variables(&variables, env, server, &mut values, &mut sources);
        take_flags(run, &mut values, &mut sources);
        let mut config = Config::from_values(&values).map_err(Problem::usage)?;
        let default = || provider.filter(|_| server.is_none())?.default_model().map(str::to_owned);
        config.model = config.model.or_else(default);
        if !run.write.is_empty() {
            sources.insert("write".to_owned(), "flag".to_owned());
        }
        let folders = config.write.iter().map(PathBuf::from);
        let tags = read_tags(&config, &sources)?;
        let mut settings = Self {
            tags,
            context: context_files(&config, &config_path, run),
            look,
            write: run.write.iter().cloned().chain(folders).collect(),
            options: chat_options(&config, run),
            notes: parsed.notes.into_iter().map(|note| format!("{path}: {note}")).collect(),
            root,
            config_path,
            config,
            provider: provider.unwrap_or(Provider::Ollama),
            is_guess: provider.is_none(),
            sources,
        };
        settings.check_url()?;
        settings.note_temperature();
        Ok(settings)
    }

    /// Notes that the temperature is not sent.
    fn note_temperature(&mut self) {
        let model = self.config.model.as_deref().unwrap_or_default();
        let is_sent = self.options.temperature.is_none() || takes_temperature(model, &self.options);
        if self.provider == Provider::Anthropic && !is_sent {
            self.notes.push(format!(
                "temperature ignored: {model} accepts none while reasoning (--reasoning off)"
            ));
        }
    }

    /// Every setting in force for `--status`: where it came from, its key, its value.
    pub fn list_values(&self) -> Vec<(&str, String, Value)> {
        let folders = self.write.iter().map(|path| path.to_string_lossy());
        let mut values = json!(self.config);
        values["provider"] = json!((!self.is_guess).then(|| self.provider.name()));
        values["write"] = folders.collect();
        let default = "workspace; read-only in the home folder";
        values["sandbox"] = json!(self.config.sandbox.map_or(default, SandboxMode::name));
        values["shell"] = json!(self.config.shell.as_deref().unwrap_or("bash, else sh"));
        values["read_timeout"] = json!(self.config.read_timeout.unwrap_or(READ_TIMEOUT));
        let mut all = json!({ "root": self.root.path(), "config": self.config_path });
        if let (Some(all), Value::Object(values)) = (all.as_object_mut(), values) {
            all.extend(values.into_iter().filter(|(key, _)| key != "profiles"));
        }
        let Value::Object(all) = all else { return Vec::new() };
        all.into_iter().map(|(key, value)| (self.source_of(&key), key, value)).collect()
    }

    /// Where the value of a key came from.
    pub fn source_of(&self, key: &str) -> &str {
        self.sources.get(key).map_or("default", String::as_str)
    }

    /// The settings for the summaries of a run: with its model, and little patience.
    pub(crate) fn for_summaries(&self, model: Option<&str>) -> Self {
        let mut settings = self.clone();
        settings.config.patience = settings.config.patience.min(SUMMARY_PATIENCE);
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            settings.config.model = Some(model.to_owned());
        }
        settings
    }

    /// The settings for the agent of a script in plain language, whose replies have at most `max_tokens` tokens.
    pub(crate) fn for_script(mut self, max_tokens: Option<u64>) -> Self {
        self.tags = TagSet::SCRIPTS;
        self.config.approve = Approve::None;
        let config = &mut self.config;
        config.max_output_tokens = max_tokens.or(config.max_output_tokens).or(Some(4096));
        self
    }

    /// The known server that the settings name.
    pub(crate) fn named_server(&self) -> Option<&'static KnownServer> {
        self.config.server.as_deref().and_then(KnownServer::find_server)
    }

    /// The known server that is asked: the one that the settings name, else the one at the address.
    pub fn server(&self) -> Option<&'static KnownServer> {
        let base_url = self.config.base_url.as_deref();
        self.named_server().or_else(|| self.provider.endpoint(base_url, None)?.server)
    }

    /// Refuses an invalid address. Ollama's may lack the scheme.
    fn check_url(&self) -> Result<(), Problem> {
        let server = self.named_server();
        let Some(given) = &self.config.base_url else {
            return match server {
                Some(server) => Err(Problem::usage(format!(
                    "{} has no address of its own: set {}, or \"base_url\" in a profile",
                    server.name, server.address_variable
                ))),
                None => Ok(()),
            };
        };
        let url = given.trim();
        let has_scheme = url.starts_with("http://") || url.starts_with("https://");
        let is_ollama = self.provider == Provider::Ollama;
        if !url.is_empty() && (has_scheme || is_ollama) {
            return Ok(());
        }
        let from = self.source_of("base_url");
        let from = if from == "flag" { "--base-url" } else { from };
        Err(Problem::usage(format!(
            "\"{}\" is not the address of a server (from {from}); one looks like http://127.0.0.1:8080/v1",
            given.escape_debug()
        )))
    }
}

fn read_tags(config: &Config, sources: &Sources) -> Result<TagSet, Problem> {
    let Some(names) = &config.tags else { return Ok(TagSet::ALL) };
    TagSet::parse(names.iter().map(String::as_str)).map_err(|error| {
        let source = sources.get("tags").map_or("", String::as_str);
        let source = if source == "flag" { "--tags" } else { source };
        Problem::usage(format!("{error} (from {source})"))
    })
}

/// The variables that name another address; the first that is set counts. That of OpenAI does not where a profile names a server: its
/// key would go to the wrong one.
fn find_address_variables(
    provider: Option<Provider>,
    server: Option<&'static KnownServer>,
    values: &Map<String, Value>,
    profile_keys: &[String],
) -> &'static [&'static str] {
    if let Some(server) = server {
        let is_default = values.get("base_url").is_none_or(|url| url == server.base_url);
        let has_one = is_default && !server.address_variable.is_empty();
        return if has_one { std::slice::from_ref(&server.address_variable) } else { &[] };
    }
    let is_of_profile = profile_keys.iter().any(|key| key == "base_url");
    if is_of_profile { &[] } else { provider.unwrap_or(Provider::Ollama).base_url_variables() }
}

/// The config file's path, where that came from, and its text; none where there is no such file.
fn read_config(
    args: &ModelArgs,
    root: &Root,
    env: &Env,
) -> Result<(PathBuf, &'static str, Option<String>), Problem> {
    let (path, from) = match (&args.config, env.get_os("NAGENT_CONFIG")) {
        (Some(path), _) => (path.clone(), "flag"),
        (None, Some(path)) => (PathBuf::from(path), "NAGENT_CONFIG"),
        (None, None) => (root.path().join("config.json"), "default"),
    };
    let input = InputFile::open(&path, &Interrupts::without_handlers()?)?;
    let mut text =
        input.read_text(limits::CONFIG).map_err(|error| Problem::usage(format!("{error:#}")))?;
    if input.is_copy() && text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        // `--config /dev/null` means no config; an empty file is probably damaged.
        text = Some("{}".to_owned());
    }
    if text.is_none() && from != "default" {
        let how = if from == "flag" { "--config" } else { from };
        return Err(Problem::usage(format!("{how} {}: no such file", path.display())));
    }
    Ok((path, from, text))
}

fn chat_options(config: &Config, run: &RunArgs) -> ChatOptions {
    ChatOptions {
        reasoning: config.reasoning,
        shows_reasoning: run.verbose,
        temperature: config.temperature,
        seed: config.seed,
        service_tier: config.service_tier.clone(),
        ..ChatOptions::default()
    }
}

/// The files that a conversation begins with. Those of the config are relative to it.
fn context_files(config: &Config, config_path: &Path, run: &RunArgs) -> Vec<PathBuf> {
    let folder = config_path.parent().unwrap_or(Path::new("."));
    let named = config.context.iter().map(|path| folder.join(path));
    named.chain(run.context.iter().cloned()).collect()
}

/// Loads a look by name: from a file in the root, else a built-in one.
fn load_look(root: &Root, name: &str) -> Result<Look, Problem> {
    let path = root.path().join("looks").join(format!("{name}.json"));
    let own = match check_name(name) {
        Ok(()) => fs::read_text(&path, limits::LOOK)
            .map_err(|error| Problem::usage(format!("--look {name}: {error:#}")))?,
        Err(_) => None,
    };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let Some(text) = own.as_deref().or(built_in) else {
        return Err(Problem::usage(format!(
            "there is no look \"{}\"; there are {}, and those in looks/ of the root",
            name.escape_debug(),
            BUILT_IN.map(|(name, _)| name).join(", ")
        )));
    };
    let look = Look::parse(text).and_then(|look| {
        config::parse(&Value::Object(look.settings.clone()).to_string(), None).map(|_| look)
    });
    look.map_err(|error| Problem::usage(format!("look {}: {error}", path.display())))
}

/// Adds the settings of a look that neither the config nor a profile has, and returns their keys. Its provider and model are for
/// users who have chosen neither.
fn add_look_settings<'a>(look: &'a Look, values: &mut Map<String, Value>) -> Vec<&'a str> {
    let connection = ["provider", "model", "base_url", "server"];
    let has_connection = connection.iter().any(|key| values.contains_key(*key));
    let is_new =
        |key: &str| !(values.contains_key(key) || has_connection && connection.contains(&key));
    let new: Vec<_> = look.settings.iter().filter(|(key, _)| is_new(key)).collect();
    values.extend(new.iter().map(|(key, value)| ((*key).clone(), (*value).clone())));
    new.into_iter().map(|(key, _)| key.as_str()).collect()
}

/// Applies the values of environment variables over those of the config.
fn take_variables(
    variables: &[(&str, Option<&str>)],
    env: &Env,
    server: Option<&KnownServer>,
    values: &mut Map<String, Value>,
    sources: &mut Sources,
) {
    for (key, variable) in variables {
        if let Some((name, value)) = variable.and_then(|name| Some((name, env.get(name)?))) {
            let value = server
                .filter(|_| *key == "base_url")
                .map_or(value.into(), |server| server.address(value));
            values.insert((*key).to_owned(), value.into());
            sources.insert((*key).to_owned(), name.to_owned());
        }
    }
}

/// Applies the values of flags over all others.
fn take_flags(run: &RunArgs, values: &mut Map<String, Value>, sources: &mut Sources) {
    for (key, value) in flag_values(run).into_iter().filter(|(_, value)| !value.is_null()) {
        sources.insert(key.clone(), "flag".to_owned());
        values.insert(key, value);
    }
    for (name, value) in &run.model.header {
        sources.insert(format!("header {name}"), "--header".to_owned());
        values.entry("headers").or_insert_with(|| json!({}))[name] = value.as_str().into();
    }
}

/// The settings that flags give, by their keys in the config; null where a flag is missing.
fn flag_values(run: &RunArgs) -> Map<String, Value> {
    let mut values = Map::from_iter([
        ("no_network".to_owned(), json!(run.no_network)),
        ("file_summaries".to_owned(), json!(run.no_summaries.then_some(false))),
    ]);
    let is_loud = run.verbose || run.progress;
    values.insert("quiet".to_owned(), json!((is_loud || run.quiet).then_some(!is_loud)));
    for (name, value) in run.given() {
        let key = name.replace('-', "_");
        // These are added to those of the config, or decided elsewhere.
        if !["provider", "write", "context", "header"].contains(&&*key) && config::is_key(&key) {
            values.entry(key).or_insert(value);
        }
    }
    values
}

/// Chooses the provider; drops a model and an address of the config that are for another one.
fn choose_provider(
    args: &ModelArgs,
    env: &Env,
    values: &mut Map<String, Value>,
    sources: &mut Sources,
) -> Result<Option<Provider>, Problem> {
    let in_config = values.get("provider").and_then(Value::as_str);
    let given = (args.provider.as_deref().map(|name| (name, "flag")))
        .or_else(|| Some((env.get("NAGENT_PROVIDER")?, "NAGENT_PROVIDER")));
    let is_chosen = given.is_some();
    let by_credential = || {
        Provider::iter().find_map(|provider| {
            let mut names = provider.credential_variables().iter();
            Some((provider.name(), *names.find(|name| env.get(name).is_some())?))
        })
    };
    let chosen = given
        .or_else(|| Some((in_config?, sources["provider"].as_str())))
        .or_else(by_credential)
        .map(|(name, from)| (Provider::parse(name), from.to_owned()));
    let Some((provider, from)) = chosen else { return Ok(None) };
    let provider = provider.map_err(|message| {
        let from = if from == "flag" { "--provider" } else { &from };
        Problem::usage(format!("{message} (from {from})"))
    })?;
    let is_of_config = match in_config {
        Some(name) => Provider::parse(name) == Ok(provider),
        None => !is_chosen,
    };
    for key in ["model", "base_url"].into_iter().filter(|_| !is_of_config) {
        values.remove(key);
        sources.remove(key);
    }
    sources.insert("provider".to_owned(), from);
    Ok(Some(provider))
}
