//! Lists the providers, the provider's models, and the files that have conversations, and prints the protocol.

use serde_json::{Value, json};

use crate::client::RequestError;
use crate::ops::run::call::Call;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::connection::no_provider;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::file_index::FileIndexEntry;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use conversation::protocol::{self, TagSet};
use history::file_index;
use models::catalog::{ReasoningWords, find_model};
use models::provider::Provider;
use models::server::SERVERS;
use sys::{fs, root};
use view::table::format_table;

/// The protocol of all tags, or of those that `--tags` names.
pub fn print_protocol(names: Option<&[String]>) -> Result<Report, Problem> {
    let tags = match names {
        Some(names) => TagSet::parse(names.iter().map(String::as_str)).map_err(Problem::usage)?,
        None => TagSet::ALL,
    };
    Ok(Report::keyed("protocol", protocol::protocol_text(tags)))
}

/// Every provider: name, default model, credential. Needs no credential, no network, no root.
pub fn list_providers() -> Report {
    let mut text = String::new();
    let mut list = Vec::new();
    for provider in Provider::iter() {
        let credentials = provider.credential_variables();
        let model = provider.default_model().unwrap_or("-");
        let shown =
            if credentials.is_empty() { "(none)".to_owned() } else { credentials.join(" or ") };
        let aliases = provider.aliases();
        text.push_str(&format!("{:<12}  {model:<18}  {shown}\n", provider.name()));
        list.push(json!({
            "provider": provider.name(),
            "default_model": provider.default_model(),
            "credentials": credentials,
            "aliases": aliases,
        }));
    }
    let mut servers = Vec::new();
    text.push_str("\nServers that speak OpenAI's API, also as --profile:\n");
    for server in SERVERS {
        let optional = if server.needs_key { "" } else { " if it wants one" };
        let address =
            if server.base_url.is_empty() { server.address_variable } else { server.base_url };
        let (name, key) = (server.name, server.key_variable);
        text.push_str(&format!("{name:<12}  {address:<32}  {key}{optional}\n"));
        servers.push(json!({"provider": server.name, "address": address, "credentials": [server.key_variable]}));
    }
    Report::wrapped(&text).with("providers", list).with("servers", servers)
}

/// The provider's models, sorted.
pub fn list_models(call: &Call<'_>) -> Result<Report, Problem> {
    let provider = call.settings.provider;
    let mut source = call.settings.connect_client(&call.env, true)?;
    let spinner = Spinner::new(call.shows_progress);
    let listed = spinner.during(provider.name(), || source.list_models(&call.interrupts));
    let mut models = listed.map_err(|error| match error {
        RequestError::Interrupted(signal) => Problem::interrupted(signal),
        RequestError::Api(_) if call.settings.is_guess => no_provider(),
        RequestError::Api(error) => Problem::new(
            if provider.preset().is_some() { Exit::Failed } else { Exit::Provider },
            source.explain(&error, ""),
        ),
    })?;
    models.sort_by(|a, b| a.id.cmp(&b.id));
    models.dedup_by(|a, b| a.id == b.id);
    let names: Vec<Value> = models.iter().map(|model| model.id.as_str().into()).collect();
    let mut rows: Vec<[String; 5]> = Vec::new();
    let mut details = Vec::new();
    for model in &models {
        let price = model.price.or_else(|| call.settings.price(&model.id));
        let reasoning = find_model(&model.id).map(|known| known.reasoning).unwrap_or_default();
        let words = describe_reasoning(&reasoning);
        rows.push([
            model.id.clone(),
            model.window.map(|window| format!("{window} tokens")).unwrap_or_default(),
            price.map(|price| format!("${}/${}", price.input, price.output)).unwrap_or_default(),
            words.as_ref().map(|words| format!("reasoning {words}")).unwrap_or_default(),
            model.ends.as_ref().map(|day| format!("ends {day}")).unwrap_or_default(),
        ]);
        details.push(json!({
            "id": model.id,
            "window": model.window,
            "max_output": model.max_output,
            "price": price,
            "reasoning": words,
            "ends": model.ends,
        }));
    }
    let text = format_table(&rows, &[1, 2]);
    let name = call.settings.provider_name();
    Ok(Report::done(text).with("provider", name).with("models", names).with("details", details))
}

/// The words that a model takes, or its range of tokens.
fn describe_reasoning(reasoning: &ReasoningWords) -> Option<String> {
    match reasoning {
        ReasoningWords::Unknown => None,
        ReasoningWords::Words(words) => Some(words.join("|")),
        ReasoningWords::Budget(least, most) => Some(format!("{least}-{most}")),
    }
}

/// The files that have conversations.
pub fn list_file_edits(call: &Call<'_>) -> Result<Report, Problem> {
    let root = call.root();
    let loaded = file_index::load_index(root)?;
    for note in &loaded.notes {
        call.print_note(note);
    }
    let path = root.file_index().display().to_string();
    let mut text = format!("file_index:{path}\n");
    let mut files = Vec::new();
    for entry in loaded.index.by_file_id.values() {
        let fields =
            [quote_name(&entry.file_id), quote_name(&entry.path), quote_name(&entry.conversation)];
        let gone = if entry.is_gone() { "\tgone" } else { "" };
        text.push_str(&format!("{}{gone}\n", fields.join("\t")));
        files.push(describe_entry(call, entry));
    }
    Ok(Report::wrapped(&text).with("file_index_path", path).with("files", files))
}

fn describe_entry(call: &Call<'_>, entry: &FileIndexEntry) -> Value {
    // An invalid name must not become a part of a path.
    let conversation = root::check_name(&entry.conversation)
        .ok()
        .map(|()| call.root().conversation(&entry.conversation).display().to_string());
    let mut value = json!({
        "file_id": entry.file_id,
        "path": entry.path.to_string_lossy(),
        "conversation": entry.conversation,
        "conversation_path": conversation,
        "exists": !entry.is_gone() && fs::file_size(&entry.path).is_some(),
    });
    if let Some(bytes) = entry.path_bytes() {
        value["path_bytes"] = bytes.into();
    }
    value
}
