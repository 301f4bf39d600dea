//! Switches to the next model when a provider has failed permanently, for tools that ask outside of the loop.

use std::collections::VecDeque;

use super::flags::RunArgs;
use super::settings::Settings;
use crate::client::{ModelClient, RequestError};
use conversation::model::{Reply, RequestMessage};
use conversation::problem::Problem;
use sys::env::Env;
use sys::interrupt::Interrupts;

/// The profiles that were not tried yet.
pub struct Fallbacks {
    run: RunArgs,
    env: Env,
    profiles: VecDeque<String>,
}

impl Fallbacks {
    /// The profiles of the setting `fallback`.
    pub fn new(settings: &Settings, env: &Env) -> Self {
        let run = RunArgs::for_model(settings.model_args.clone());
        Self { run, env: env.clone(), profiles: settings.config.fallback.clone().into() }
    }

    /// Asks the model of these settings, with retries while its provider is busy. When it fails permanently, the next
    /// model takes over: settings and client are replaced with its own.
    pub fn request_reply(
        &mut self,
        settings: &mut Settings,
        client: &mut ModelClient,
        (system, messages): (Option<&str>, &[RequestMessage<'_>]),
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Result<Reply, Problem> {
        loop {
            let model = client.model_id.clone().unwrap_or_default();
            let request = settings.build_request(&model, system, messages.to_vec());
            let reply =
                client.ask_with_retries(&request, settings.retry_patience(), interrupts, report);
            let error = match reply {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let next = self.connect_next(&error, &model, interrupts, report);
            let Some((mut next, next_client)) = next else { return Err(error.into()) };
            next.options.schema.clone_from(&settings.options.schema);
            next.options.shows_reasoning = settings.options.shows_reasoning;
            (*settings, *client) = (next, next_client);
        }
    }

    /// Connects to the next one that can be used, if another model may take over after this error.
    fn connect_next(
        &mut self,
        error: &RequestError,
        old: &str,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Option<(Settings, ModelClient)> {
        let RequestError::Api(error) = error else { return None };
        if !error.kind.may_switch() {
            return None;
        }
        while let Some(profile) = self.profiles.pop_front() {
            match connect_profile(&self.run, &profile, &self.env, interrupts) {
                Ok((settings, client)) => {
                    let new = client.model_id.as_deref().unwrap_or_default();
                    report(&format!(
                        "note: {old} failed ({error}); continuing with {new} (profile {profile})"
                    ));
                    return Some((settings, client));
                }
                Err(problem) => report(&format!("note: {}", describe_unusable(&profile, &problem))),
            }
        }
        None
    }
}

/// Connects to the model of a profile.
pub(crate) fn connect_profile(
    run: &RunArgs,
    profile: &str,
    env: &Env,
    interrupts: &Interrupts,
) -> Result<(Settings, ModelClient), Problem> {
    let settings = Settings::of_fallback(run, profile, env)?;
    let client = settings.connect_model(env, interrupts, true)?;
    Ok((settings, client))
}

/// Note that a profile cannot be used.
pub(crate) fn describe_unusable(profile: &str, problem: &Problem) -> String {
    format!("fallback {profile} cannot be used: {problem}")
}
