//! Chooses the model of a script in plain language: by variable, front matter, home, nagent's own settings.

use std::num::NonZero;

use super::request::ThinkRequest;
use crate::ops::setup::flags::ModelArgs;
use conversation::problem::{Problem, ProblemKind};
use models::provider::Provider;
use sandbox::script::thought::script::Script;
use sandbox::script::thoughts::{Agent, Home, HomeConfig};
use sys::env::Env;

/// The settings of a run's agent; nagent's own settings decide those that are `None`.
#[derive(Debug, Default)]
pub(super) struct AgentSettings {
    /// Its name.
    agent: Option<String>,
    /// The flags for the model.
    pub(super) model: ModelArgs,
    /// The variable with the provider's credential, and its value with the place that it came from.
    pub(super) key: Option<(&'static str, (String, String))>,
    /// Maximum number of tokens in a reply.
    pub(super) max_tokens: Option<u64>,
    /// Maximum number of requests in the run.
    pub(super) max_iterations: Option<u64>,
}

/// Variables with credentials, and the provider of each, whose name is also that of an agent.
const KEYS: [(&str, Provider); 2] = [
    ("THINKINGSCRIPT__ANTHROPIC__API_KEY", Provider::Anthropic),
    ("THINKINGSCRIPT__OPENAI__API_KEY", Provider::OpenAi),
];

impl AgentSettings {
    pub(super) fn resolve(
        home: &Home,
        config: &HomeConfig,
        script: &Script,
        request: &ThinkRequest,
        env: &Env,
    ) -> Result<Self, Problem> {
        let variable = |name: &str| env.get(name).map(str::to_owned);
        let max_tokens = variable("THINKINGSCRIPT__MAX_TOKENS").map(|text| {
            text.parse::<NonZero<u64>>().map_err(|_| {
                let text = text.escape_debug();
                Problem::usage(format!(
                    "THINKINGSCRIPT__MAX_TOKENS is \"{text}\"; it is a whole number from 1"
                ))
            })
        });
        let of_home = config.max_tokens.map(NonZero::get);
        let max_tokens =
            max_tokens.transpose()?.map(NonZero::get).or(script.max_tokens).or(of_home);
        let max_iterations = Some(config.max_iterations.map_or(50, NonZero::get));
        let model = variable("THINKINGSCRIPT__MODEL").or_else(|| script.model.clone());
        let mut settings =
            Self { model: request.model.clone(), max_tokens, max_iterations, ..Self::default() };
        settings.model.model = settings.model.model.or(model);
        // A flag is meant for this run, whatever the script says.
        if request.model.provider.is_some() {
            return Ok(settings);
        }
        let named = variable("THINKINGSCRIPT__AGENT").or_else(|| script.agent.clone());
        if let Some(name) = named.or_else(|| config.agent.clone()) {
            return settings.with_agent(home, &name, env);
        }
        for (variable, provider) in KEYS {
            if env.get(variable).is_some() || home.read_agent(provider.name())?.is_some() {
                return settings.with_agent(home, provider.name(), env);
            }
        }
        Ok(settings)
    }

    fn with_agent(self, home: &Home, name: &str, env: &Env) -> Result<Self, Problem> {
        let path = home.agent_path(name)?.display().to_string();
        let wrong = |error| Problem::usage(format!("{path}: {error}"));
        let named = Provider::parse(name);
        let (agent, provider) = match (home.read_agent(name)?, named) {
            (None, Ok(provider)) => (Agent::default(), provider),
            (None, Err(error)) => {
                return Err(Problem::usage(format!("{path} is missing, and {error}")));
            }
            (Some(agent), named) => {
                let word = agent.provider.as_deref().filter(|word| !word.is_empty());
                let provider =
                    word.map_or(Ok(named.unwrap_or(Provider::Anthropic)), Provider::parse);
                (agent, provider.map_err(wrong)?)
            }
        };
        let filled = |value: Option<String>| value.filter(|value| !value.is_empty());
        let own = KEYS.iter().find(|(_, other)| *other == provider);
        let key = own.and_then(|(name, _)| Some((env.get(name)?.to_owned(), (*name).to_owned())));
        let base = env.get("THINKINGSCRIPT__OPENAI__API_BASE").map(str::to_owned);
        let base = base.filter(|_| provider == Provider::OpenAi);
        let key = key.or_else(|| Some((filled(agent.api_key)?, format!("api_key in {path}"))));
        Ok(Self {
            agent: Some(name.to_owned()),
            model: ModelArgs {
                provider: Some(provider.name().to_owned()),
                model: self.model.model.or(filled(agent.model)),
                base_url: self.model.base_url.or(base).or(filled(agent.api_base)),
                ..self.model
            },
            key: provider.credential_variables().first().copied().zip(key),
            ..self
        })
    }

    /// Adds to an error where to set the key of an agent.
    pub(super) fn explain(&self, problem: Problem, home: &Home) -> Problem {
        if problem.kind != ProblemKind::NoCredential {
            return problem;
        }
        let Some(agent) = &self.agent else {
            let hint = format!("{} is for scripts alone", KEYS[0].0);
            return Problem { hint, ..problem };
        };
        let is_own =
            |(_, of): &&(&str, Provider)| Some(of.name()) == self.model.provider.as_deref();
        let variable = KEYS.iter().find(is_own).map(|(name, _)| format!(" or {name}"));
        let hint = format!(
            "{}{}, or write api_key into {}/{agent}.json",
            problem.hint,
            variable.unwrap_or_default(),
            home.folder.join("agents").display()
        );
        Problem { hint, ..problem }
    }
}
