//! From settings to a connection to the model, and what else depends on which provider and model are in force.

use std::path::Path;
use std::time::Duration;

use super::settings::{READ_TIMEOUT, Settings};
use crate::client::ModelClient;
use crate::drive::ShellRules;
use crate::llm::limits;
use crate::llm::openai_chat::ChatCompletions;
use crate::llm::openai_responses::Responses;
use crate::llm::price::Price;
use crate::llm::provider::Provider;
use crate::llm::{ChatRequest, Message};
use crate::problem::Problem;
use crate::sys::env::{self, Env};
use crate::sys::fs;

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
            return Err(Problem::usage(format!(
                "no credential for provider {}: set {}{hint}",
                provider.name(),
                variables.join(" or ")
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
            return Ok(ModelClient::program(preset, words, env, &folder, timeout));
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

    /// The price of a model, when the config has it.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.config.prices.get(model).copied()
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
    let ways: Vec<String> = Provider::all()
        .filter_map(|provider| {
            let variable = provider.credential_variables().first()?;
            Some(format!("{} (set {variable})", provider.name()))
        })
        .collect();
    Problem::usage(format!(
        "no provider is chosen and no credential is set: {}, ollama (start it), or --provider command with a program of \
         your own in the config; --list-providers shows all",
        ways.join(", ")
    ))
}
