//! `--list-providers`, `--list-models`, `--list-conversations`: what there is to choose from.

use serde_json::{Value, json};

use super::{Call, upkeep};
use crate::client::RequestError;
use crate::exit::Exit;
use crate::llm::provider::Provider;
use crate::out::Report;
use crate::problem::Problem;
use crate::sys::fs;

/// Every provider: name, default model, credential. Needs no credential, no network, no root.
pub(super) fn providers() -> Report {
    let mut text = String::new();
    let mut list = Vec::new();
    for provider in Provider::all() {
        let credentials = provider.credential_variables();
        let model = provider.default_model().unwrap_or("-");
        let shown =
            if credentials.is_empty() { "(none)".to_owned() } else { credentials.join(" or ") };
        let aliases = provider.aliases();
        let alias = if aliases.is_empty() {
            String::new()
        } else {
            format!("  (alias: {})", aliases.join(", "))
        };
        text.push_str(&format!("{:<12}  {model:<18}  {shown}{alias}\n", provider.name()));
        list.push(json!({
            "provider": provider.name(),
            "default_model": provider.default_model(),
            "credentials": credentials,
            "aliases": aliases,
        }));
    }
    Report::done(text).with("providers", list)
}

/// The provider's models, sorted.
pub(super) fn models(call: &Call<'_>) -> Result<Report, Problem> {
    let folder = call.env.folder.clone().map_err(Problem::usage)?;
    let provider = call.settings.provider()?;
    let mut source = call.settings.source(call.env, &folder, true)?;
    let mut models = source.list_models(call.interrupts).map_err(|error| match error {
        RequestError::Interrupted(signal) => Problem::interrupted(signal),
        RequestError::Api(error) => Problem {
            exit: if provider.preset().is_some() { Exit::Failed } else { Exit::Provider },
            message: source.explain(&error, ""),
        },
    })?;
    models.sort_by(|a, b| a.id.cmp(&b.id));
    models.dedup_by(|a, b| a.id == b.id);
    let names: Vec<Value> = models.iter().map(|model| model.id.as_str().into()).collect();
    let text: String = models.iter().map(|model| format!("{}\n", model.id)).collect();
    Ok(Report::done(text).with("provider", provider.name()).with("models", names))
}

/// The saved conversations, those of older tools' indexes too.
pub(super) fn conversations(call: &Call<'_>) -> Result<Report, Problem> {
    let root = &call.settings.root.value;
    let path = root.saved_index();
    let mut index = upkeep::read_index(&path)?;
    let folder = root.conversations();
    for name in fs::list_names(&folder)?
        .iter()
        .filter(|name| name.starts_with("index-saved-conversations-"))
    {
        let older = upkeep::read_index(&folder.join(name))?.conversations;
        let new: Vec<_> = older
            .into_iter()
            .filter(|entry| !index.conversations.iter().any(|e| e.name == entry.name))
            .collect();
        index.conversations.extend(new);
    }
    let mut text = format!("saved_conversations_index:{}\n", path.display());
    for entry in &index.conversations {
        text.push_str(&format!("{}\t{}\t{}\n", entry.name, entry.path, entry.summary));
    }
    let list = serde_json::to_value(&index.conversations)
        .map_err(|error| Problem::usage(error.to_string()))?;
    Ok(Report::done(text)
        .with("index_path", path.display().to_string())
        .with("conversations", list))
}
