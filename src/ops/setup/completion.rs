//! The values of flags that a shell offers: providers, models, conversations, scripts.
//!
//! Called by the shell's completion script while somebody types, so nothing here asks a server, and nothing fails.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use serde_json::Value;

use super::find_root::find_root;
use crate::ops::conversations::Catalog;
use conversation::limits;
use models::catalog::list_models;
use models::provider::Provider;
use models::server::SERVERS;
use sandbox::script::thoughts::Home;
use sys::env::Env;
use view::overview::ConversationKind;

/// Completes a flag with these words.
pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<CompletionCandidate> {
    words.into_iter().map(|word| CompletionCandidate::new(word.to_owned())).collect()
}

/// Completes `--provider`.
pub fn providers() -> Vec<CompletionCandidate> {
    words(Provider::iter().map(Provider::name).chain(SERVERS.iter().map(|server| server.name)))
}

/// Completes `--profile`: those of the config, and the servers.
pub fn profiles() -> Vec<CompletionCandidate> {
    let env = Env::read();
    let own = find_root(None, &env).ok().and_then(|(root, _)| {
        let path = root.path().join("config.json");
        let text = sys::fs::read_text(&path, limits::CONFIG).ok()??;
        Some(serde_json::from_str::<Value>(&text).ok()?.get("profiles")?.as_object()?.clone())
    });
    let (own, servers) = (own.unwrap_or_default(), SERVERS.iter().map(|server| server.name));
    words(own.keys().map(String::as_str).chain(servers))
}

/// Completes the name of an installed script.
pub fn scripts() -> Vec<CompletionCandidate> {
    let home = Home::from_env(&Env::read()).ok();
    let names = home.and_then(|home| sys::fs::list_names(&home.folder.join("bin")).ok());
    words(names.iter().flatten().map(String::as_str))
}

/// Completes an installed script, or a file.
pub fn scripts_and_files(begun: &OsStr) -> Vec<CompletionCandidate> {
    let is_meant = |it: &CompletionCandidate| {
        let name = it.get_value().as_encoded_bytes();
        name.starts_with(begun.as_encoded_bytes())
    };
    let mut found = scripts();
    found.retain(is_meant);
    found.extend(PathCompleter::file().complete(begun));
    found
}

/// Completes `--model`: the models that nagent knows.
pub fn models() -> Vec<CompletionCandidate> {
    let mut names: BTreeSet<String> = list_models().map(|model| model.id.to_owned()).collect();
    names.extend(Provider::iter().filter_map(Provider::default_model).map(str::to_owned));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The names of the twenty newest conversations that begin so; without a beginning those that a person continues.
pub fn newest_of_person(catalog: &Catalog, begun: &str) -> Vec<String> {
    let mut names = catalog.newest_names().unwrap_or_default();
    names.retain(|name| {
        let kind = ConversationKind::from_name(name);
        let is_offered = kind.is_of_a_person() && kind != ConversationKind::New;
        name.starts_with(begun) && (is_offered || !begun.is_empty())
    });
    names.truncate(20);
    names
}

/// Completes the name of a conversation: the twenty newest that begin so, each with its first prompt.
pub fn conversations(begun: &OsStr) -> Vec<CompletionCandidate> {
    let env = Env::read();
    let Ok((root, _)) = find_root(None, &env) else { return Vec::new() };
    let begun = begun.to_string_lossy();
    // Bash shows values only. While it offers several, it inserts no more than they begin with; 37 is its menu.
    let shows_values = env.get("_CLAP_COMPLETE_COMP_TYPE").is_some_and(|kind| kind != "37");
    let catalog = Catalog::read_indexes(root, env);
    let names = newest_of_person(&catalog, &begun);
    let is_one = names.len() == 1;
    let offer = |(at, name): (usize, String)| {
        let words = catalog.read_conversation(&name).map(|one| one.overview.first_words);
        let value = match &words {
            Some(words) if shows_values && !is_one => format!("{name}  ({words})"),
            _ => name,
        };
        CompletionCandidate::new(value).display_order(Some(at)).help(words.map(Into::into))
    };
    names.into_iter().enumerate().map(offer).collect()
}
