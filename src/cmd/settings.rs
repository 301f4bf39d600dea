//! Which settings are in force, and where each came from: flag, environment, config file, default.
//!
//! Shared by every tool that talks to a model. It reads the config file and the environment, and starts nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::model_args::ModelArgs;
use crate::client::ModelClient;
use crate::config::{self, Config};
use crate::drive::ShellRules;
use crate::llm::api::Api;
use crate::llm::limits;
use crate::llm::openai_chat::ChatCompletions;
use crate::llm::openai_responses::Responses;
use crate::llm::price::Price;
use crate::llm::provider::Provider;
use crate::problem::Problem;
use crate::sys::env::{self, Env};
use crate::sys::fs;
use crate::sys::root::Root;

/// The largest config file that is read, in bytes.
const CONFIG_LIMIT: u64 = 1 << 20;

/// The window that an Ollama server is asked for where the config names none, in tokens. Without a word it takes
/// 4,096 on a small machine, and drops what does not fit.
const OLLAMA_WINDOW: u64 = 32_768;

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
    /// The config file, whether it is there or not.
    pub config_path: Setting<PathBuf>,
    /// What it says.
    pub config: Config,
    /// The profile in force, and where its choice came from.
    pub profile: Option<Setting<String>>,
    /// The keys that the profile has set.
    of_profile: Vec<String>,
    /// The provider, when one was chosen or a credential tells it.
    pub provider: Option<Setting<Provider>>,
    /// The model, when it was chosen or the provider has a default.
    pub model: Option<Setting<String>>,
    /// Another address of the API.
    pub base_url: Option<Setting<String>>,
    /// How long to wait for a provider in all.
    pub patience: Setting<Duration>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Settings {
    /// Settles everything that does not need the network.
    pub fn resolve(args: &ModelArgs, env: &Env) -> Result<Self, Problem> {
        let root = root_folder(args, env)?;
        let config_path = match (&args.config, env.get_os("NAGENT_CONFIG")) {
            (Some(path), _) => Setting { value: path.clone(), from: "flag".to_owned() },
            (None, Some(path)) => {
                Setting { value: PathBuf::from(path), from: "NAGENT_CONFIG".to_owned() }
            }
            (None, None) => {
                Setting { value: root.value.path().join("config.json"), from: "default".to_owned() }
            }
        };
        let text = fs::read_text(&config_path.value, CONFIG_LIMIT)
            .map_err(|error| Problem::usage(format!("{error:#}")))?;
        if text.is_none() && config_path.from != "default" {
            return Err(Problem::usage(format!(
                "the config file {} (from {}) is not there",
                config_path.value.display(),
                config_path.from
            )));
        }
        let chosen = args
            .profile
            .as_deref()
            .map(|name| (name, "flag"))
            .or_else(|| Some((env.get("NAGENT_PROFILE")?, "NAGENT_PROFILE")));
        let name = chosen.map(|(name, _)| name);
        let config::Parsed { config, notes, of_profile } =
            config::parse(text.as_deref().unwrap_or("{}"), name).map_err(|error| {
                Problem::usage(format!("{}: {error}", config_path.value.display()))
            })?;
        let config_name = config_path.value.display().to_string();
        let profile = chosen
            .or_else(|| Some((config.profile.as_deref()?, config_name.as_str())))
            .map(|(name, from)| Setting { value: name.to_owned(), from: from.to_owned() });
        let notes = notes
            .into_iter()
            .map(|note| format!("{}: {note}", config_path.value.display()))
            .collect();
        let source = |key: &str| source(&config_name, profile.as_ref(), &of_profile, key);
        let mut settings = Self {
            provider: provider(args, env, &config, &source("provider"))?,
            model: None,
            base_url: None,
            patience: pick(args.patience, None, config.patience, 30.0, &source("patience"))
                .map(Duration::from_secs_f64),
            root,
            config_path,
            config,
            profile,
            of_profile,
            notes,
        };
        settings.choose_model(args, env);
        settings.choose_base_url(args, env);
        if let Some(base_url) = &settings.base_url {
            check_url(settings.provider.as_ref().map(|provider| provider.value), base_url)?;
        }
        Ok(settings)
    }

    /// Where the config's value of a key came from: the file's path, with the profile's name where that has set it.
    pub fn source_of(&self, key: &str) -> String {
        let config_name = self.config_path.value.display().to_string();
        source(&config_name, self.profile.as_ref(), &self.of_profile, key)
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
        let source = self.source_of("model");
        let Some(provider) = self.provider.as_ref().map(|p| p.value) else { return };
        let from_config = self.config.model.clone().filter(|_| self.config_is_for(provider));
        let found = args
            .model
            .clone()
            .map(|value| (value, "flag"))
            .or_else(|| env.get("NAGENT_MODEL").map(|value| (value.to_owned(), "NAGENT_MODEL")))
            .or_else(|| from_config.map(|value| (value, source.as_str())))
            .or_else(|| provider.default_model().map(|value| (value.to_owned(), "default")));
        self.model = found.map(|(value, from)| Setting { value, from: from.to_owned() });
    }

    fn choose_base_url(&mut self, args: &ModelArgs, env: &Env) {
        let source = self.source_of("base_url");
        let Some(provider) = self.provider.as_ref().map(|p| p.value) else { return };
        let variable = provider.base_url_variable();
        let from_env = variable.and_then(|name| Some((env.get(name)?.to_owned(), name)));
        let from_config = self.config.base_url.clone().filter(|_| self.config_is_for(provider));
        let found = args
            .base_url
            .clone()
            .map(|value| (value, "flag"))
            .or(from_env)
            .or_else(|| from_config.map(|value| (value, source.as_str())));
        self.base_url = found.map(|(value, from)| Setting { value, from: from.to_owned() });
    }

    /// Takes a provider that nobody chose, because no credential tells of another.
    pub fn try_provider(&mut self, provider: Provider, args: &ModelArgs, env: &Env) {
        self.provider = Some(Setting { value: provider, from: "default".to_owned() });
        self.choose_model(args, env);
        self.choose_base_url(args, env);
    }

    /// The provider, or an error that lists the choices.
    pub fn provider(&self) -> Result<Provider, Problem> {
        self.provider
            .as_ref()
            .map(|provider| provider.value)
            .ok_or_else(|| Problem::usage(no_provider()))
    }

    /// The credential and the variable that it came from; `None` where the provider needs none.
    fn key(
        &self,
        env: &Env,
        provider: Provider,
    ) -> Result<Option<(String, &'static str)>, Problem> {
        let variables = provider.credential_variables();
        let found = variables
            .iter()
            .map(|name| (env.get(name).unwrap_or_default().trim().to_owned(), *name))
            .find(|(key, _)| !key.is_empty());
        // A server of the user's own may need none.
        let needed =
            !variables.is_empty() && provider.preset().is_none() && self.base_url.is_none();
        let withheld = env.get(env::WITHHELD).unwrap_or_default();
        let withheld =
            variables.iter().find(|name| withheld.split(',').any(|other| other == **name));
        if found.is_none() && (needed || withheld.is_some()) {
            let hint = withheld.map_or_else(String::new, |name| {
                format!(
                    ". This command was started by nagent, which keeps credentials from commands; \"pass_env\": \
                     [\"{name}\"] in {} lets it through",
                    self.config_path.value.display()
                )
            });
            return Err(Problem::usage(format!(
                "no credential for provider {}: set {}{hint}",
                provider.name(),
                variables.join(" or ")
            )));
        }
        Ok(found)
    }

    /// The connection to the model, and what names its credential.
    /// Without `needs_key` a missing credential is no error: nothing will be sent.
    pub fn source(
        &self,
        env: &Env,
        folder: &Path,
        needs_key: bool,
    ) -> Result<ModelClient, Problem> {
        let provider = self.provider()?;
        let key = match self.key(env, provider) {
            Err(_) if !needs_key => None,
            key => key?,
        };
        let credential = key.as_ref().map(|(_, name)| (*name).to_owned());
        let model = self.model.as_ref().map(|model| model.value.clone());
        let mut client = self.connect(provider, key.map(|(key, _)| key), env, folder)?;
        client.model_id = model;
        client.credential = credential;
        Ok(client)
    }

    fn connect(
        &self,
        provider: Provider,
        key: Option<String>,
        env: &Env,
        folder: &Path,
    ) -> Result<ModelClient, Problem> {
        if let Some(preset) = provider.preset() {
            let words = self.config.command.clone().unwrap_or_default();
            if provider == Provider::Command && words.is_empty() {
                return Err(Problem::usage(format!(
                    "provider command needs \"command\": [\"program\", \"argument\", …] in {}",
                    self.config_path.value.display()
                )));
            }
            return Ok(ModelClient::program(preset, words, env, folder, self.program_timeout()));
        }
        if provider == Provider::Replay {
            let path = self.model.as_ref().ok_or_else(|| {
                Problem::usage("provider replay needs --model FILE, the recording that it plays")
            })?;
            let lineage = env.get(crate::sys::env::LINEAGE).unwrap_or("0").to_owned();
            return Ok(ModelClient::replay(Path::new(&path.value), lineage)?);
        }
        let base_url = self.base_url.as_ref().map(|setting| setting.value.as_str());
        let mut endpoint =
            provider.endpoint(base_url, key).ok_or_else(|| Problem::usage(no_provider()))?;
        if provider == Provider::OpenAi
            && let Some(api) = &self.config.api
        {
            endpoint.api = self.parse_api(api)?;
        }
        let connect = Duration::from_secs_f64(self.config.connect_timeout.unwrap_or(10.0));
        let read = Duration::from_secs_f64(self.config.read_timeout.unwrap_or(300.0));
        Ok(ModelClient::server(endpoint, connect, read))
    }

    /// How long a command-line program may take for a reply, which it may give all at once at its end.
    fn program_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.config.read_timeout.unwrap_or(1800.0))
    }

    /// The API that `api` names.
    fn parse_api(&self, api: &str) -> Result<&'static dyn Api, Problem> {
        match api {
            "responses" => Ok(&Responses),
            "chat" => Ok(&ChatCompletions),
            other => Err(Problem::usage(format!(
                "\"api\": \"{other}\" in {}: it is \"responses\" or \"chat\"",
                self.config_path.value.display()
            ))),
        }
    }

    /// The price of a model, when the config tells it.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.config.prices.get(model).copied()
    }

    /// The model's window in tokens, when it is known.
    pub fn window(&self, model: &str) -> Option<u64> {
        let is_ollama =
            self.provider.as_ref().is_some_and(|provider| provider.value == Provider::Ollama);
        self.config
            .context_window_tokens
            .or_else(|| limits::find_limits(model).map(|limits| limits.window))
            .or_else(|| is_ollama.then_some(OLLAMA_WINDOW))
    }

    /// How commands are run.
    pub fn shell(&self) -> ShellRules {
        let program = self.config.shell.clone().unwrap_or_else(|| {
            let bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
            bash.into_iter()
                .find(|path| fs::is_executable(Path::new(path)))
                // Not looked up: a `sh` of the working folder must not stand in for it.
                .unwrap_or("/bin/sh")
                .to_owned()
        });
        ShellRules {
            program,
            timeout: Duration::from_secs(self.config.shell_timeout.unwrap_or(600)),
            pass_env: self.config.pass_env.clone(),
        }
    }
}

impl<T> Setting<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), from: self.from }
    }
}

/// Refuses an address that is none. Ollama's may lack the scheme.
fn check_url(provider: Option<Provider>, base_url: &Setting<String>) -> Result<(), Problem> {
    let url = base_url.value.trim();
    let has_scheme = url.starts_with("http://") || url.starts_with("https://");
    if !url.is_empty() && (has_scheme || provider == Some(Provider::Ollama)) {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "\"{}\" is no address of a server (from {}); it looks like http://127.0.0.1:8080/v1",
        base_url.value.escape_debug(),
        base_url.from
    )))
}

/// The error for a provider that nothing tells of, with the shortest way to each.
fn no_provider() -> String {
    let ways: Vec<String> = Provider::all()
        .filter_map(|provider| {
            let variable = provider.credential_variables().first()?;
            Some(format!("{} (set {variable})", provider.name()))
        })
        .collect();
    format!(
        "no provider is chosen and no credential is set: {}, ollama (start it), or --provider command with a program of \
         your own in the config; --list-providers shows all",
        ways.join(", ")
    )
}

/// Where a value of the config came from.
fn source(config: &str, profile: Option<&Setting<String>>, keys: &[String], key: &str) -> String {
    match profile.filter(|_| keys.iter().any(|known| known == key)) {
        Some(profile) => format!("{config}, profile {}", profile.value),
        None => config.to_owned(),
    }
}

/// Flag, environment, config file, default.
pub fn pick<T>(
    flag: Option<T>,
    variable: Option<(T, &str)>,
    config: Option<T>,
    default: T,
    name: &str,
) -> Setting<T> {
    if let Some(value) = flag {
        return Setting { value, from: "flag".to_owned() };
    }
    if let Some((value, name)) = variable {
        return Setting { value, from: name.to_owned() };
    }
    match config {
        Some(value) => Setting { value, from: name.to_owned() },
        None => Setting { value: default, from: "default".to_owned() },
    }
}

fn root_folder(args: &ModelArgs, env: &Env) -> Result<Setting<Root>, Problem> {
    let home = env.home();
    let (path, from) = if let Some(path) = &args.root {
        (path.clone(), "flag")
    } else if let Some(path) = env.get_os("NAGENT_ROOT") {
        (PathBuf::from(path), "NAGENT_ROOT")
    } else if let Some(home) = &home {
        (home.join(".nagent"), "default")
    } else {
        return Err(Problem::usage(
            "there is no home folder to keep conversations in: set HOME or NAGENT_ROOT, or give --root DIR",
        ));
    };
    let path = match (path.strip_prefix("~"), &home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    };
    let path = match &env.folder {
        Ok(folder) => folder.join(path),
        Err(_) => path,
    };
    Ok(Setting { value: Root { folder: path }, from: from.to_owned() })
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
        return Ok(Some(Setting { value, from: from.to_owned() }));
    }
    let by_credential = Provider::all().find_map(|provider| {
        let name = provider.credential_variables().iter().find(|name| env.get(name).is_some())?;
        Some(Setting { value: provider, from: (*name).to_owned() })
    });
    Ok(by_credential)
}
