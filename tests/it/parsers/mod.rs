//! Every parser on bytes that anybody may have written. Each file here is a target: what it is given, what must hold.
//!
//! The tests run the inputs that fuzzing has collected (`fuzz/corpus`) and variations of them, always the same ones.
//! `make fuzz` runs the same targets with coverage feedback and looks for new inputs; this file is a module of
//! `fuzz/src/main.rs` too.

mod input; // bytes taken apart

mod command;
mod context;
mod conversation;
mod cut_code;
mod cut_text;
mod diff;
mod edit;
mod engine;
mod failure;
mod fence;
mod history;
mod index;
mod look;
mod policy;
mod reply;
mod request;
mod script;
mod settings;
mod shown;
mod sse;
mod stops;
mod wire;

#[cfg(test)]
mod corpus;

/// The name of a corpus, and what checks one input of it.
type Target = (&'static str, fn(&[u8]));

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    ("command", command::run),
    ("context", context::run),
    ("conversation", conversation::run),
    ("cut_code", cut_code::run),
    ("cut_text", cut_text::run),
    ("diff", diff::run),
    ("edit", edit::run),
    ("engine", engine::run),
    ("failure", failure::run),
    ("fence", fence::run),
    ("history", history::run),
    ("index", index::run),
    ("look", look::run),
    ("policy", policy::run),
    ("reply", reply::run),
    ("request", request::run),
    ("script", script::run),
    ("settings", settings::run),
    ("shown", shown::run),
    ("sse", sse::run),
    ("stops", stops::run),
    ("wire", wire::run),
];
