//! The values of flags that a shell offers: providers, models, conversations.
//!
//! Called by the shell's completion script while somebody types, so nothing here asks a server, and nothing fails.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;

use super::find_root::find_root;
use crate::ops::conversations::Catalog;
use conversation::approve::Approve;
use models::catalog::list_models;
use models::provider::Provider;
use models::server::SERVERS;
use sandbox::SandboxMode;
use sys::env::Env;
use sys::root::Root;
use view::overview::ConversationKind;

/// Completes `--provider`.
pub fn providers() -> Vec<CompletionCandidate> {
    let servers = SERVERS.iter().map(|server| server.name);
    Provider::iter().map(Provider::name).chain(servers).map(CompletionCandidate::new).collect()
}

/// Completes `--sandbox`.
pub fn sandbox_modes() -> Vec<CompletionCandidate> {
    SandboxMode::ALL.map(|mode| CompletionCandidate::new(mode.name())).into()
}

/// Completes `--approve`.
pub fn approvals() -> Vec<CompletionCandidate> {
    Approve::ALL.map(|approve| CompletionCandidate::new(approve.name())).into()
}

/// Completes `--model`: the models that nagent knows.
pub fn models() -> Vec<CompletionCandidate> {
    let mut names: BTreeSet<String> = list_models().map(|model| model.id.to_owned()).collect();
    names.extend(Provider::iter().filter_map(Provider::default_model).map(str::to_owned));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Completes the name of a conversation: the twenty newest that begin so, each with its first prompt.
pub fn conversations(begun: &OsStr) -> Vec<CompletionCandidate> {
    let env = Env::read();
    let Ok((root, _)) = find_root(None, &env) else { return Vec::new() };
    let begun = begun.to_string_lossy();
    let catalog = Catalog::read_indexes(root, env);
    let mut names = catalog.newest_names().unwrap_or_default();
    names.retain(|name| {
        let is_of_a_person = ConversationKind::from_name(name).is_of_a_person();
        name.starts_with(&*begun) && (is_of_a_person || !begun.is_empty())
    });
    names.truncate(20);
    let offer = |(at, name): (usize, String)| {
        let words = catalog.read_conversation(&name).map(|one| one.overview.first_words);
        CompletionCandidate::new(name).display_order(Some(at)).help(words.map(Into::into))
    };
    names.into_iter().enumerate().map(offer).collect()
}

/// The names of the conversations below a root, the one that was used last first.
pub(crate) fn conversation_names(root: &Root) -> Vec<String> {
    Catalog::read_indexes(root.clone(), Env::read()).newest_names().unwrap_or_default()
}
