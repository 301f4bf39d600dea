//! Checks that a model answers scripts.

use super::desk::Desk;
use crate::client::RequestError;
use crate::ops::scripts::think::choose_agent;
use crate::ops::setup::flags::{ModelArgs, RunArgs};
use crate::ops::setup::settings::Settings;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::model::{RequestMessage, Role};
use conversation::problem::Problem;
use models::ChatRequest;

/// Checks that the model of scripts answers.
pub fn setup(desk: &Desk, given: &ModelArgs) -> Result<Report, Problem> {
    let mut env = desk.env.clone();
    let model = choose_agent(&desk.home, given, &mut env)?;
    let settings = Settings::resolve_run(&RunArgs::for_model(model), &env)?;
    if settings.is_guess {
        return Err(Problem::usage(
            "no provider is set up: set THINKINGSCRIPT__ANTHROPIC__API_KEY, or the variable of another provider (nagent --list-providers)",
        ));
    }
    let provider = settings.provider;
    let mut client = settings.connect_client(&env, true)?;
    let model_id = client.model_id.clone().unwrap_or_default();
    let request = ChatRequest {
        max_output: Some(16),
        ..settings.build_request(
            &model_id,
            None,
            vec![RequestMessage { role: Role::User, parts: vec!["Say ok."] }],
        )
    };
    match client.request_reply(&request, &mut |_| (), &desk.interrupts) {
        Ok(_) => {
            let text = format!("{} answers, with model {model_id}", provider.name());
            Ok(Report::done(text).with("provider", provider.name()).with("model", model_id))
        }
        Err(RequestError::Interrupted(signal)) => Err(Problem::interrupted(signal)),
        Err(RequestError::Api(error)) => {
            Err(Problem::new(Exit::Provider, client.explain(&error, &model_id)))
        }
    }
}
