//! Chooses the model if nobody named one: the only one that the server has.

use super::connection::no_provider;
use super::settings::Settings;
use crate::client::{ModelClient, RequestError};
use conversation::problem::Problem;
use sys::interrupt::Interrupts;
use sys::names::name_some;

/// Maximum number of models in an error.
const MAX_NAMED: usize = 12;

impl Settings {
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
}
