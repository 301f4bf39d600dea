//! From settings to a connection to the model, and what else depends on which provider and model are in force.

use std::path::Path;
use std::time::Duration;

use super::settings::{READ_TIMEOUT, Settings};
use crate::client::{ModelClient, Program};
use crate::drive::ShellRules;
use crate::llm::limits;
use crate::llm::openai_chat::ChatCompletions;
use crate::llm::openai_responses::Responses;
use crate::llm::price::{self, BuiltInPrice, Price};
use crate::llm::provider::Provider;
use crate::llm::{ChatRequest, Message};
use crate::problem::Problem;
use crate::sys::env::{self, Env};
use crate::sys::{clock, fs};

/// The window, in tokens, that Ollama is asked for; by itself it takes 4,096 on a small machine, and drops what does not fit.
const OLLAMA_WINDOW: u64 = 32_768;

impl Settings {
    /// The provider, or an error that lists the choices.
    pub fn provider(&self) -> Result<Provider, Problem> {
        self.provider.ok_or_else(no_provider)
    }

    /// The credential and the variable that it came from; `None` where the provider needs none.
    fn find_key(
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
            !variables.is_empty() && provider.preset().is_none() && self.config.base_url.is_none();
        let withheld = env.get(env::WITHHELD).unwrap_or_default();
        let withheld =
            variables.iter().find(|name| withheld.split(',').any(|other| other == **name));
        if found.is_none() && (needed || withheld.is_some()) {
            let hint = withheld.map_or_else(String::new, |name| {
                format!(
                    ". This command was started by nagent, which keeps credentials from commands; \"pass_env\": \
                     [\"{name}\"] in {} lets it through",
                    self.config_path.display()
                )
            });
            let name = provider.name();
            let from = self.source_of("provider");
            let (chosen, other) = if from == "flag" {
                (String::new(), None)
            } else {
                let mut others = Provider::all().filter(|other| *other != provider);
                let other = others.find_map(|other| {
                    let set =
                        other.credential_variables().iter().find(|name| env.get(name).is_some());
                    Some(format!("; {} is set: --provider {} uses it", set?, other.name()))
                });
                (format!(" (chosen by {from})"), other)
            };
            return Err(Problem::usage(format!(
                "no credential for provider {name}{chosen}: set {}{}{hint}",
                variables.join(" or "),
                other.unwrap_or_default()
            )));
        }
        Ok(found)
    }

    /// The connection to the model. Without `needs_key` a missing credential is not an error: nothing will be sent.
    pub fn source(&self, env: &Env, needs_key: bool) -> Result<ModelClient, Problem> {
        let provider = self.provider()?;
        let key = match self.find_key(env, provider) {
            Err(_) if !needs_key => None,
            key => key?,
        };
        let (key, credential) = key.map(|(key, name)| (key, name.to_owned())).unzip();
        let mut client = self.connect(provider, key, env)?;
        client.model_id.clone_from(&self.config.model);
        client.credential = credential;
        Ok(client)
    }

    fn connect(
        &self,
        provider: Provider,
        key: Option<String>,
        env: &Env,
    ) -> Result<ModelClient, Problem> {
        let read = |default| self.config.read_timeout.unwrap_or(default);
        if let Some(preset) = provider.preset() {
            let words = self.config.command.clone().unwrap_or_default();
            if provider == Provider::Command && words.is_empty() {
                return Err(Problem::usage(format!(
                    "provider command needs \"command\": [\"program\", \"argument\", …] in {}",
                    self.config_path.display()
                )));
            }
            // A program may give all of its reply at its end.
            let timeout = Duration::from_secs_f64(read(1800.0));
            let folder = env.folder.clone().unwrap_or_else(|_| "/".into());
            let program = Program::new(preset, words, env, &folder, timeout);
            return Ok(ModelClient::program(program));
        }
        if provider == Provider::Replay {
            let path = self.config.model.as_ref().ok_or_else(|| {
                Problem::usage("provider replay needs --model FILE, the recording that it plays")
            })?;
            let lineage = env.get(crate::sys::env::LINEAGE).unwrap_or("0").to_owned();
            return Ok(ModelClient::replay(Path::new(path), lineage)?);
        }
        let base_url = self.config.base_url.as_deref();
        let mut endpoint = provider.endpoint(base_url, key).ok_or_else(no_provider)?;
        if provider == Provider::OpenAi
            && let Some(api) = &self.config.api
        {
            endpoint.api = match api.as_str() {
                "responses" => &Responses,
                "chat" => &ChatCompletions,
                other => {
                    let path = self.config_path.display();
                    return Err(Problem::usage(format!(
                        "\"api\": \"{other}\" in {path}: it is \"responses\" or \"chat\""
                    )));
                }
            };
        }
        let connect = Duration::from_secs_f64(self.config.connect_timeout);
        Ok(ModelClient::server(endpoint, connect, Duration::from_secs_f64(read(READ_TIMEOUT))))
    }

    /// A request for a reply to these messages.
    pub fn build_request<'a>(
        &self,
        model: &'a str,
        system: Option<&'a str>,
        messages: Vec<Message<'a>>,
    ) -> ChatRequest<'a> {
        ChatRequest {
            model,
            system,
            messages,
            file: None,
            cache_key: None,
            max_output: self.config.max_output_tokens,
            window: self.window(model),
        }
    }

    /// The price of a model: that of the config, else the built-in one where the provider's own server is asked.
    pub fn price(&self, model: &str) -> Option<Price> {
        let own = self.config.prices.get(model).copied();
        own.or_else(|| Some(self.built_in_price(model)?.price))
    }

    /// The built-in price of a model, where the provider's own server is asked: any other may charge what it likes.
    pub fn built_in_price(&self, model: &str) -> Option<&'static BuiltInPrice> {
        let base_url = self.config.base_url.as_deref();
        let endpoint = self.provider?.endpoint(base_url, None)?;
        let day = clock::now();
        price::find_built_in(model, day.get(..10)?).filter(|_| endpoint.official)
    }

    /// Whether the provider is one that asks for money, at its own address.
    pub fn is_billed(&self) -> bool {
        let is_paid = |provider: Provider| !provider.credential_variables().is_empty();
        self.config.base_url.is_none() && self.provider.is_some_and(is_paid)
    }

    /// The model's window in tokens, when it is known.
    pub fn window(&self, model: &str) -> Option<u64> {
        let is_ollama = self.provider == Some(Provider::Ollama);
        self.config
            .context_window_tokens
            .or_else(|| limits::find_limits(model).map(|limits| limits.window))
            .or_else(|| is_ollama.then_some(OLLAMA_WINDOW))
    }

    /// How long to keep retrying a busy provider.
    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.config.patience)
    }

    /// How commands are run.
    pub fn shell(&self) -> ShellRules {
        let program = self.config.shell.clone().unwrap_or_else(|| {
            let bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
            bash.into_iter()
                .find(|path| fs::is_executable(Path::new(path)))
                // Not looked up: a `sh` of the working folder must not replace it.
                .unwrap_or("/bin/sh")
                .to_owned()
        });
        ShellRules {
            program,
            timeout: Duration::from_secs(self.config.shell_timeout),
            pass_env: self.config.pass_env.clone(),
        }
    }
}

pub(super) fn no_provider() -> Problem {
    let first = |provider: Provider| provider.credential_variables().first().copied();
    let mut variables: Vec<&str> =
        Provider::all().filter(|provider| provider.preset().is_none()).filter_map(first).collect();
    let last = variables.pop().unwrap_or_default();
    Problem::usage(format!(
        "no API key found: set {} or {last}, or start Ollama\n\
         To try it without one: make demo, in nagent's source. More: nagent --list-providers, nagent --doctor",
        variables.join(", ")
    ))
}

/// The error when nobody chose a provider, Ollama was tried for a model that the user named, and it is not there.
pub(super) fn no_provider_for(model: &str, address: &str) -> Problem {
    let families = [
        ("gpt-", Provider::OpenAi),
        ("claude-", Provider::Anthropic),
        ("gemini-", Provider::Google),
    ];
    let family = families.iter().find(|(start, _)| model.starts_with(start));
    let Some(variable) = family.and_then(|(_, provider)| provider.credential_variables().first())
    else {
        return Problem::usage(format!(
            "no API key is set, so Ollama at {address} was asked for {model}: it does not answer; start it, or set the key of \
             another provider (nagent --list-providers)"
        ));
    };
    Problem::usage(format!(
        "no API key is set, so Ollama at {address} was asked: it does not answer. For {model} set {variable}"
    ))
}
