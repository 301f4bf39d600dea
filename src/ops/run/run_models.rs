//! Connects a run to its model, and records the replies.

use std::time::Duration;

use super::call::Call;
use crate::client::ModelClient;
use crate::drive::Runner;
use crate::drive::asker::Asker;
use crate::ops::setup::settings::Settings;
use conversation::problem::Problem;
use conversation::protocol;
use models::catalog::is_special_tier;
use models::error::too_long_advice;
use models::options::ChatOptions;
use models::price::Price;
use models::provider::Provider;
use models::server::GrammarForm;
use sys::names::refuse_link_out;
use sys::{env, fs};

/// Makes the asker for the model of a run, within the limits of the call.
///
/// # Errors
/// A limit needs a price that is not known, or the server takes no grammar.
pub(crate) fn make_asker(
    call: &Call<'_>,
    mut client: ModelClient,
    is_streaming: bool,
) -> Result<Asker, Problem> {
    let settings = &call.settings;
    let model_id = client.model_id.clone().unwrap_or_default();
    let limits = &settings.config.limits;
    let mut price = settings.price(&model_id);
    if limits.max_cost.is_some() {
        if price.is_none() && !call.args.show_request {
            price = settings.listed_price(&mut client, &model_id, &call.interrupts)?;
        }
        check_price(settings, &model_id, price.as_ref())?;
    }
    if let Some(seconds) = limits.max_seconds {
        client.limit_time(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let grammar = grammar(call)?;
    Ok(Asker {
        is_streaming,
        asks_for_window: settings.provider.is_server(),
        max_output: settings.config.max_output_tokens,
        options: ChatOptions { grammar, ..settings.options.clone() },
        too_long_advice: too_long_advice(&call.name, call.which.file_edit.is_some()),
        tags: settings.tags,
        client,
        // Replays ignore the window: a compaction would shift the turn numbers.
        window: settings.window(&model_id).filter(|_| settings.provider != Provider::Replay),
        model_id,
        price,
    })
}

/// Refuses `--max-cost` for a model whose price is not known.
fn check_price(settings: &Settings, model: &str, price: Option<&Price>) -> Result<(), Problem> {
    if price.is_some() {
        return Ok(());
    }
    if model.is_empty() {
        return Err(Problem::usage(
            "--max-cost needs the price of the model: name the model with --model, and give its price in the config",
        ));
    }
    let tier = settings.config.service_tier.as_deref().filter(|tier| is_special_tier(tier));
    let tier = tier.map(|tier| format!(" in service tier {tier}")).unwrap_or_default();
    Err(Problem::usage(format!(
        "--max-cost needs the price of model {model}{tier}, which nagent does not know: \"prices\": {{\"{model}\": {{\"input\": 1.25, \"output\": 10}}}} \
         (US dollars per million tokens) in {}",
        settings.config_path.display()
    )))
}

/// The grammar of the tags, where `--grammar` asks for it and the server takes one.
fn grammar(call: &Call<'_>) -> Result<Option<String>, Problem> {
    if !call.args.grammar {
        return Ok(None);
    }
    match call.settings.grammar_form() {
        GrammarForm::None => Err(Problem::usage(
            "--grammar needs a server that takes one: --provider llama.cpp or vllm, or \"server\" in a profile says that it is one; \
             or OpenAI's Responses API",
        )),
        GrammarForm::CustomTool => Ok(Some(protocol::write_lark(call.settings.tags))),
        GrammarForm::Gbnf | GrammarForm::Vllm => Ok(Some(protocol::write_gbnf(call.settings.tags))),
    }
}

/// Records the replies in the file of `--record`.
pub(crate) fn start_recording(call: &Call<'_>, runner: &mut Runner<'_>) -> Result<(), Problem> {
    let Some(path) = call.args.record.as_ref().filter(|_| !call.args.show_request) else {
        return Ok(());
    };
    refuse_link_out(path).map_err(|why| Problem::usage(format!("--record: {why}")))?;
    let file = fs::open_to_append(&runner.context.folder.join(path))?;
    let lineage = call.env.get(env::LINEAGE).unwrap_or("0").to_owned();
    runner.asker.client.record(file, lineage);
    Ok(())
}
