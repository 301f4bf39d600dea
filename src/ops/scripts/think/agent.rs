//! Chooses the model of a script in plain language: by variable, front matter, home, nagent's own settings.

use super::request::ThinkRequest;
use crate::ops::setup::flags::ModelArgs;
use conversation::format::nearest::nearest;
use conversation::problem::{Problem, ProblemKind};
use models::provider::Provider;
use script::thought::script::Script;
use script::thoughts::{Agent, Home, HomeConfig};
use sys::env::Env;

/// The settings of a run's agent; nagent's own settings decide those that are `None`.
#[derive(Debug, Default)]
pub(super) struct AgentSettings {
    /// Its name.
    agent: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    /// The variable with the provider's credential, and its value.
    key: Option<(&'static str, String)>,
    /// Maximum number of tokens in a reply.
    pub(super) max_tokens: Option<u64>,
    /// Maximum number of requests in the run.
    pub(super) max_iterations: Option<u64>,
}

/// Variables with credentials, and the provider of each.
const KEYS: [(&str, Provider); 2] = [
    ("THINKINGSCRIPT__ANTHROPIC__API_KEY", Provider::Anthropic),
    ("THINKINGSCRIPT__OPENAI__API_KEY", Provider::OpenAi),
];

/// The agent where nothing names another.
const DEFAULT: &str = "anthropic";

impl AgentSettings {
    pub(super) fn resolve(
        home: &Home,
        config: &HomeConfig,
        script: &Script,
        request: &ThinkRequest,
        env: &Env,
    ) -> Result<Self, Problem> {
        let max_tokens = env.get("THINKINGSCRIPT__MAX_TOKENS").map(|text| {
            text.parse::<u64>().ok().filter(|count| *count > 0).ok_or_else(|| {
                let text = text.escape_debug();
                Problem::usage(format!(
                    "THINKINGSCRIPT__MAX_TOKENS is \"{text}\"; it is a whole number from 1"
                ))
            })
        });
        let max_tokens = max_tokens.transpose()?.or(script.max_tokens).or(config.max_tokens);
        let max_iterations = Some(config.max_iterations.unwrap_or(50));
        let model =
            env.get("THINKINGSCRIPT__MODEL").map(str::to_owned).or_else(|| script.model.clone());
        let settings = Self { model, max_tokens, max_iterations, ..Self::default() };
        // A flag is meant for this run, whatever the script says.
        if request.model.provider.is_some() {
            return Ok(settings);
        }
        let named = env.get("THINKINGSCRIPT__AGENT").map(str::to_owned);
        let named = named.or_else(|| script.agent.clone()).or_else(|| config.agent.clone());
        match named {
            Some(name) => settings.with_agent(home, &name, env),
            None if KEYS[0..1].iter().any(|(name, _)| env.get(name).is_some())
                || home.read_agent(DEFAULT)?.is_some() =>
            {
                settings.with_agent(home, DEFAULT, env)
            }
            None if env.get(KEYS[1].0).is_some() => settings.with_agent(home, "openai", env),
            None => Ok(settings),
        }
    }

    fn with_agent(self, home: &Home, name: &str, env: &Env) -> Result<Self, Problem> {
        let path = home.agent_path(name)?;
        let agent = match home.read_agent(name)? {
            Some(agent) => agent,
            None if Provider::parse(name).is_ok() => Agent::default(),
            None => {
                let mut known: Vec<String> =
                    Provider::iter().map(|other| other.name().to_owned()).collect();
                let files = sys::fs::list_names(&home.folder.join("agents")).unwrap_or_default();
                known.extend(
                    files.iter().filter_map(|name| name.strip_suffix(".json")).map(str::to_owned),
                );
                let near = nearest(name, known.iter().map(String::as_str));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let name = name.escape_debug();
                return Err(Problem::usage(format!(
                    "there is no agent \"{name}\": {} is missing{near}",
                    path.display()
                )));
            }
        };
        let word = agent.provider.as_deref().filter(|word| !word.is_empty());
        let word = word.unwrap_or(if Provider::parse(name).is_ok() { name } else { DEFAULT });
        let provider = Provider::parse(word)
            .map_err(|error| Problem::usage(format!("{}: {error}", path.display())))?;
        let filled = |value: Option<String>| value.filter(|value| !value.is_empty());
        let own = KEYS.iter().find(|(_, other)| *other == provider);
        let key = own
            .and_then(|(variable, _)| env.get(variable).map(str::to_owned))
            .or(filled(agent.api_key));
        let base =
            (provider == Provider::OpenAi).then(|| env.get("THINKINGSCRIPT__OPENAI__API_BASE"));
        Ok(Self {
            agent: Some(name.to_owned()),
            provider: Some(provider.name().to_owned()),
            model: self.model.or(filled(agent.model)),
            base_url: base.flatten().map(str::to_owned).or(filled(agent.api_base)),
            key: provider.credential_variables().first().copied().zip(key),
            ..self
        })
    }

    /// Adds to an error where to set the key of an agent.
    pub(super) fn explain(&self, problem: Problem, home: &Home) -> Problem {
        let (Some(agent), ProblemKind::NoCredential) = (&self.agent, problem.kind) else {
            return problem;
        };
        let provider = |(_, of): &&(&str, Provider)| Some(of.name()) == self.provider.as_deref();
        let variable = KEYS.iter().find(provider).map(|(name, _)| format!(" or {name}"));
        let hint = format!(
            "{}{}, or store a key in {}/{agent}.json: nagent-thought setup --store {agent}",
            problem.hint,
            variable.unwrap_or_default(),
            home.folder.join("agents").display()
        );
        Problem { hint, ..problem }
    }

    /// Sets the credential in a copy of the environment, where the provider looks for it.
    pub(super) fn set_key(&self, env: &mut Env) {
        if let Some((variable, key)) = &self.key {
            env.set(variable, key);
        }
    }

    /// The flags for the model; those that were given win.
    pub(super) fn model_args(&self, given: &ModelArgs) -> ModelArgs {
        let mut args = given.clone();
        args.provider = args.provider.or_else(|| self.provider.clone());
        args.model = args.model.or_else(|| self.model.clone());
        args.base_url = args.base_url.or_else(|| self.base_url.clone());
        args
    }
}

/// The agent that runs would have, as arguments for the model; its credential is set in `env`.
///
/// # Errors
/// Settings are damaged, or name something that is missing.
pub fn choose_agent(home: &Home, given: &ModelArgs, env: &mut Env) -> Result<ModelArgs, Problem> {
    let request = ThinkRequest { model: given.clone(), ..ThinkRequest::default() };
    let settings =
        AgentSettings::resolve(home, &home.read_config()?, &Script::default(), &request, env)?;
    settings.set_key(env);
    Ok(settings.model_args(given))
}
