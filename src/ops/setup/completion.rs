//! The values of flags that a shell offers: providers, models, conversations.
//!
//! Called by the shell's completion script while somebody types, so nothing here asks a server, and nothing fails.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;

use super::find_root::find_root;
use crate::ops::conversations::Catalog;
use crate::overview::ConversationKind;
use conversation::approve::Approve;
use models::catalog::list_models;
use models::provider::Provider;
use models::server::SERVERS;
use sandbox::SandboxMode;
use sys::env::Env;
use sys::root::Root;
use sys::{fs, root};

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
    let mut names = conversation_names(&root);
    names.retain(|name| {
        let kind = ConversationKind::from_name(name);
        let is_old = matches!(kind, ConversationKind::Child | ConversationKind::Archive);
        name.starts_with(&*begun) && !(is_old && begun.is_empty())
    });
    names.truncate(20);
    let catalog = Catalog::read_indexes(root, env);
    let offer = |(at, name): (usize, String)| {
        let words = catalog.read_conversation(&name).map(|one| one.overview.first_words);
        CompletionCandidate::new(name).display_order(Some(at)).help(words.map(Into::into))
    };
    names.into_iter().enumerate().map(offer).collect()
}

/// The names of the conversations below a root, the one that was used last first.
pub(crate) fn conversation_names(root: &Root) -> Vec<String> {
    let folder = root.conversations();
    let mut names = fs::list_names(&folder).unwrap_or_default();
    names.retain(|name| root::check_name(name).is_ok());
    names.sort_by_cached_key(|name| Reverse(fs::modified(&folder.join(name))));
    names
}
