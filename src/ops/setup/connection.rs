//! Connects to the model, and has the values that depend on the provider and model in force.

use std::path::Path;
use std::time::Duration;

use super::settings::{READ_TIMEOUT, Settings};
use crate::client::{ModelClient, Program, RequestError, Server};
use crate::config;
use crate::drive::ShellRules;
use conversation::model::RequestMessage;
use conversation::problem::{Problem, ProblemKind};
use models::openai_chat::ChatCompletions;
use models::openai_responses::Responses;
use models::price::Price;
use models::provider::{Provider, ollama_address};
use models::server::GrammarForm;
use models::{ChatRequest, catalog};
use sys::env::{self, Env};
use sys::http::HttpClient;
use sys::interrupt::Interrupts;
use sys::key_command::KeyCommand;
use sys::names::name_some;
use sys::root::check_name;
use sys::{clock, fs};

/// The window, in tokens, that Ollama is asked for. Its default on a small machine is 4,096, and it drops the rest.
const OLLAMA_WINDOW: u64 = 32_768;
/// Maximum number of models in an error.
const MAX_NAMED: usize = 12;

impl Settings {
    /// The variables that may have the credential; the first one that is set is used.
    fn key_variables(&self) -> Vec<&str> {
        match (&self.config.key_env, self.server()) {
            (Some(name), _) => vec![name],
            // A custom address of a known server: accept either variable.
            (None, Some(server)) if self.config.server.is_none() => {
                let own = [server.key_variable].into_iter();
                own.chain(self.provider.credential_variables().iter().copied()).collect()
            }
            (None, Some(server)) => vec![server.key_variable],
            (None, None) => self.provider.credential_variables().to_vec(),
        }
    }

    /// Whether every request needs a credential. A server of the user's own may need none.
    fn needs_key(&self) -> bool {
        if self.config.key_command.is_some() || self.provider.preset().is_some() {
            return false;
        }
        match self.named_server() {
            _ if self.config.key_env.is_some() => true,
            Some(server) => server.needs_key,
            None => self.provider.needs_credential() && self.config.base_url.is_none(),
        }
    }

    /// The credential and the variable that it came from; `None` where the provider needs none.
    fn find_key(&self, env: &Env) -> Result<Option<(String, String)>, Problem> {
        if let Some(name) = self.config.key_env.as_deref().filter(|name| !Env::is_credential(name))
        {
            return Err(Problem::usage(format!(
                "\"key_env\": {name} does not look like a credential, so commands would get it: use a name that ends in _KEY or _TOKEN"
            )));
        }
        let variables = self.key_variables();
        let found = variables
            .iter()
            .map(|name| (env.get(name).unwrap_or_default().trim().to_owned(), (*name).to_owned()))
            .find(|(key, _)| !key.is_empty());
        let needed = self.needs_key();
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
            let name = self.provider_name();
            let from = self.source_of("provider");
            let (chosen, other) = if from == "flag" {
                (String::new(), None)
            } else {
                let mut others = Provider::iter().filter(|other| *other != self.provider);
                let other = others.find_map(|other| {
                    let set =
                        other.credential_variables().iter().find(|name| env.get(name).is_some());
                    Some(format!("; {} is set: --provider {} uses it", set?, other.name()))
                });
                (format!(" (chosen by {from})"), other)
            };
            return Err(Problem {
                kind: ProblemKind::NoCredential,
                hint: format!("set {}{}{hint}", variables.join(" or "), other.unwrap_or_default()),
                ..Problem::usage(format!("no credential for provider {name}{chosen}"))
            });
        }
        Ok(found)
    }

    /// The connection to the model, which is the only one of the server where none is named. With `sends` false nothing is
    /// sent, and a missing credential is not an error.
    pub fn connect_model(
        &self,
        env: &Env,
        interrupts: &Interrupts,
        sends: bool,
    ) -> Result<ModelClient, Problem> {
        if self.is_guess && !sends {
            return Err(no_provider());
        }
        let mut client = self.connect_client(env, sends)?;
        let named = client.model_id.clone();
        self.choose_model(&mut client, sends, interrupts)?;
        // Nobody chose a provider, so Ollama is tried for a model that the user named: one request for the list of models,
        // instead of a prompt with all its retries.
        if let Some(model) = named.filter(|_| self.is_guess)
            && let Err(RequestError::Api(_)) = client.list_models(interrupts)
        {
            let address = ollama_address(self.config.base_url.as_deref().unwrap_or_default());
            let address = address.trim_start_matches("http://");
            return Err(Problem::usage(format!(
                "no API key is set, so Ollama at {address} was asked for {model}: it does not answer; start it, or set the key of \
                 another provider (nagent --list-providers)"
            )));
        }
        Ok(client)
    }

    /// Chooses the only model of the server, where none is named and the provider has no default. `sends`: a request may be sent.
    pub fn choose_model(
        &self,
        source: &mut ModelClient,
        sends: bool,
        interrupts: &Interrupts,
    ) -> Result<(), Problem> {
        if source.model_id.is_some() || !self.provider.is_server() {
            return Ok(());
        }
        let name = self.provider_name();
        if !sends {
            return Err(Problem::usage(format!(
                "--show-request sends nothing, so it cannot ask {name} which models it has: give --model NAME"
            )));
        }
        let models = match source.list_models(interrupts) {
            Err(RequestError::Api(_)) if self.is_guess => return Err(no_provider()),
            models => {
                models.map_err(|error| error.map_message(|error| source.explain(error, "")))?
            }
        };
        match models.as_slice() {
            [only] => source.model_id = Some(only.id.clone()),
            [] if name == "ollama" => {
                return Err(Problem::usage(
                    "Ollama has no model yet: pull one (ollama pull NAME), then give --model NAME",
                ));
            }
            [] => return Err(Problem::usage(format!("{name} lists no model: give --model NAME"))),
            several => {
                let names: Vec<&str> = several.iter().map(|model| model.id.as_str()).collect();
                let names = name_some(&names, MAX_NAMED, ", ");
                let shown = if name == "ollama" { "Ollama" } else { name };
                return Err(Problem::usage(format!(
                    "{shown} has several models, choose one with --model: {names}; nagent --list-models shows all"
                )));
            }
        }
        Ok(())
    }

    /// The connection to the model. Without `needs_key` a missing credential is not an error: nothing will be sent.
    pub fn connect_client(&self, env: &Env, needs_key: bool) -> Result<ModelClient, Problem> {
        let key = match self.find_key(env) {
            Err(_) if !needs_key => None,
            key => key?,
        };
        let (key, credential) = key.unzip();
        let has_token = credential.as_deref().is_some_and(Provider::is_token);
        let credential = credential.map(|name| env.source_of(&name).to_owned());
        let mut client = self.connect(key, has_token, env)?;
        client.model_id.clone_from(&self.config.model);
        let is_printed = self.config.key_command.is_some();
        client.credential =
            if is_printed { Some("\"key_command\" in the config".to_owned()) } else { credential };
        Ok(client)
    }

    fn connect(
        &self,
        key: Option<String>,
        has_token: bool,
        env: &Env,
    ) -> Result<ModelClient, Problem> {
        let provider = self.provider;
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
            return Ok(ModelClient::program(Program::new(preset, words, env, &folder, timeout)));
        }
        if provider == Provider::Replay {
            let path = self.config.model.as_ref().ok_or_else(|| {
                Problem::usage("provider replay needs --model FILE, the recording that it plays")
            })?;
            let named = self.root.conversation(path);
            let is_name = !fs::exists(Path::new(path)) && check_name(path).is_ok();
            let path = if is_name && fs::exists(&named) { &named } else { Path::new(path) };
            let lineage = env.get(sys::env::LINEAGE).unwrap_or("0").to_owned();
            return Ok(ModelClient::replay(path, lineage)?);
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
                    return Err(Problem::usage(format!(
                        "\"api\": \"{other}\" in {}: it must be \"responses\" or \"chat\"",
                        self.config_path.display()
                    )));
                }
            };
        }
        endpoint.server = self.server();
        endpoint.has_token = has_token || self.config.key_command.is_some();
        endpoint.headers = self.headers(env, endpoint.official)?;
        endpoint.body.clone_from(&self.config.body);
        let key_command = self.config.key_command.clone().map(|words| {
            let folder = env.folder.clone().unwrap_or_else(|_| "/".into());
            KeyCommand { words, env: env.clone(), folder }
        });
        endpoint.key = endpoint.key.filter(|_| key_command.is_none());
        let connect = Duration::from_secs_f64(self.config.connect_timeout);
        let read = Duration::from_secs_f64(read(READ_TIMEOUT));
        let client = HttpClient::new(connect, read);
        Ok(ModelClient::server(Server::new(endpoint, client, key_command)))
    }

    /// The form in which the server takes a grammar; for OpenAI's Responses a custom tool.
    pub(crate) fn grammar_form(&self) -> GrammarForm {
        let base_url = self.config.base_url.as_deref();
        let official = || {
            let endpoint = self.provider.endpoint(base_url, None);
            endpoint.is_some_and(|endpoint| endpoint.official)
        };
        match (self.server(), self.config.api.as_deref()) {
            (Some(server), _) => server.grammar,
            _ if self.provider != Provider::OpenAi => GrammarForm::None,
            (None, Some("responses")) => GrammarForm::CustomTool,
            (None, None) if official() => GrammarForm::CustomTool,
            _ => GrammarForm::None,
        }
    }

    /// The headers of the config and of flags, with the values of variables; for OpenAI also organization and project.
    fn headers(&self, env: &Env, is_official: bool) -> Result<Vec<(String, String)>, Problem> {
        let mut headers = Vec::new();
        let own =
            [("OpenAI-Organization", "OPENAI_ORG_ID"), ("OpenAI-Project", "OPENAI_PROJECT_ID")];
        for (header, variable) in own {
            let value =
                env.get(variable).filter(|_| is_official && self.provider == Provider::OpenAi);
            headers.extend(value.map(|value| (header.to_owned(), value.to_owned())));
        }
        for (name, value) in &self.config.headers {
            let value = match value.strip_prefix('$') {
                Some(variable) => env.get(variable).ok_or_else(|| {
                    Problem::usage(format!("the header {name} needs ${variable}, which is not set"))
                })?,
                None => value,
            };
            if let Some(wrong) = config::check_header(name, value) {
                let flag = self.source_of(&format!("header {name}"));
                let from = if flag == "--header" { flag } else { self.source_of("headers") };
                return Err(Problem::usage(format!("the header {name} (from {from}) {wrong}")));
            }
            headers.push((name.clone(), value.to_owned()));
        }
        Ok(headers)
    }

    /// A request for a reply to these messages.
    pub fn build_request<'a>(
        &'a self,
        model: &'a str,
        system: Option<&'a str>,
        messages: Vec<RequestMessage<'a>>,
    ) -> ChatRequest<'a> {
        ChatRequest {
            model,
            system,
            messages,
            files: Vec::new(),
            cache_key: None,
            max_output: self.config.max_output_tokens,
            window: self.window(model),
            options: &self.options,
        }
    }

    /// The price of a model: that of the config, else the one in the table, if the provider's own server or a known one
    /// is asked: any other may have other prices.
    pub fn price(&self, model: &str) -> Option<Price> {
        let own = self.config.prices.get(model).copied();
        let tier = self.config.service_tier.as_deref();
        own.or_else(|| {
            catalog::find_price(self.find_seller()?, model, clock::now().get(..10)?, tier)
        })
    }

    /// The price in the server's own list. Of the servers that nagent knows, OpenRouter's has prices.
    pub fn listed_price(
        &self,
        client: &mut ModelClient,
        model: &str,
        interrupts: &Interrupts,
    ) -> Result<Option<Price>, Problem> {
        let is_special = self.config.service_tier.as_deref().is_some_and(catalog::is_special_tier);
        if is_special || self.server().is_none_or(|server| server.name != "openrouter") {
            return Ok(None);
        }
        let models = client.list_models(interrupts)?;
        Ok(models.into_iter().find(|one| one.id == model).and_then(|one| one.price))
    }

    /// The seller of the tokens, if it is known.
    fn find_seller(&self) -> Option<&'static str> {
        let provider = self.provider;
        let endpoint = provider.endpoint(self.config.base_url.as_deref(), None)?;
        let server = self.server().map(|server| server.name);
        server.or_else(|| endpoint.official.then(|| provider.name()))
    }

    /// The name of the provider, or of the known server that is asked through it.
    pub fn provider_name(&self) -> &'static str {
        self.named_server().map_or(self.provider.name(), |server| server.name)
    }

    /// Whether requests to it are billed.
    pub fn is_billed(&self) -> bool {
        self.config.base_url.is_none() && !self.provider.credential_variables().is_empty()
    }

    /// The model's window in tokens, when it is known.
    pub fn window(&self, model: &str) -> Option<u64> {
        let is_ollama = self.provider == Provider::Ollama;
        self.config
            .context_window_tokens
            .or_else(|| catalog::find_model(model)?.window)
            .or_else(|| is_ollama.then_some(OLLAMA_WINDOW))
    }

    /// Maximum time to keep retrying a busy provider.
    pub fn retry_patience(&self) -> Duration {
        Duration::from_secs_f64(self.config.patience)
    }

    /// The rules for commands.
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

pub(crate) fn no_provider() -> Problem {
    let first = |provider: Provider| provider.credential_variables().first().copied();
    let mut variables: Vec<&str> =
        Provider::iter().filter(|provider| provider.preset().is_none()).filter_map(first).collect();
    let last = variables.pop().unwrap_or_default();
    let message = format!(
        "no API key found: set {} or {last}, or start Ollama\n\
         nagent --list-providers has all, and nagent --doctor checks your setup",
        variables.join(", ")
    );
    Problem { kind: ProblemKind::NoCredential, ..Problem::usage(message) }
}
