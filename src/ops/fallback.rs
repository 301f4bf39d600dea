//! Goes on with another model when a provider has failed for good, where a tool asks outside of the loop.

use std::collections::VecDeque;

use super::flags::RunArgs;
use super::settings::Settings;
use crate::client::{ModelClient, RequestError};
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;

/// The profiles that were not tried yet.
pub struct Fallbacks {
    run: RunArgs,
    env: Env,
    profiles: VecDeque<String>,
}

impl Fallbacks {
    /// Those of the settings.
    pub fn new(settings: &Settings, env: &Env) -> Self {
        let run = RunArgs::for_model(settings.model_args.clone());
        Self { run, env: env.clone(), profiles: settings.config.fallback.clone().into() }
    }

    /// Connects to the next one that can be used, if another model may go on after this error. `report` gets what happened.
    pub fn connect_next(
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
pub(super) fn connect_profile(
    run: &RunArgs,
    profile: &str,
    env: &Env,
    interrupts: &Interrupts,
) -> Result<(Settings, ModelClient), Problem> {
    let settings = Settings::of_fallback(run, profile, env)?;
    let mut client = settings.source(env, true)?;
    settings.choose_model(&mut client, true, false, interrupts)?;
    Ok((settings, client))
}

/// Says that a profile is left out.
pub(super) fn describe_unusable(profile: &str, problem: &Problem) -> String {
    format!("fallback {profile} cannot be used: {}", problem.message)
}
