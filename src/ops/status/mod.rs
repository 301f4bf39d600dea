//! The conversation, and every setting in force with where it came from. Creates nothing.

pub mod doctor;
pub mod message;
pub mod runs;

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ops::run::call::Call;
use crate::ops::run::sandbox as run_sandbox;
use crate::out::Report;
use conversation::format::numbers::{format_count, format_tokens};
use conversation::model;
use sandbox::SandboxMode;
use sys::conversation_file::ConversationFile;
use sys::fs;
use view::figures::figures_words;
use view::overview::Overview;

/// Reports the conversation, the settings in force and where each came from.
pub fn report_status(call: &Call<'_>) -> Report {
    let (settings, root) = (&call.settings, call.root());
    let path = root.conversation(&call.name).display().to_string();
    let size = fs::file_size(Path::new(&path)).unwrap_or(0);
    let root_size = fs::bytes_below(root.path());
    let provider = (!settings.is_guess).then(|| settings.provider_name());
    let model = settings.config.model.as_deref();
    // The prompts of a damaged one cannot be counted; a run reports the damage.
    let conversation = ConversationFile::read_only(root, &call.name).ok();
    let overview = conversation.as_ref().map(|it| Overview::read(it.text(), it.pieces()));
    let Overview { prompts, usage, .. } = overview.unwrap_or_default();
    let tokens = conversation.as_ref().map_or(0, |it| model::estimate(it.text()));
    let window = settings.window(model.unwrap_or_default());
    let mut text = format!(
        "conversation:{path} size:{size} prompts:{prompts} tokens:{tokens}{}\nprovider:{} model:{}\nroot:{} root_size_bytes:{root_size}",
        window.map(|window| format!(" window:{window}")).unwrap_or_default(),
        provider.unwrap_or("(none)"),
        model.unwrap_or("(none)"),
        root.path().display(),
    );
    let (sandbox, mut error) = match run_sandbox::inspect(call) {
        Ok(sandbox) => (sandbox, None),
        Err(problem) => (None, Some(problem.to_string())),
    };
    let chosen = settings.config.sandbox.unwrap_or(SandboxMode::Workspace);
    let mode = sandbox.as_ref().map_or(chosen, |sandbox| sandbox.request.mode).name();
    text.push_str(&format!("\nsandbox:{mode}"));
    if settings.config.no_network {
        text.push_str(" network:off");
    }
    let (mut writable, mut gaps, mut kind) = (Vec::new(), Vec::new(), None);
    if let Some(sandbox) = &sandbox {
        writable = sandbox.policy().name_writable();
        match sandbox.mechanism() {
            Ok(mechanism) => {
                text.push_str(&format!(" by:{}", mechanism.name()));
                if mechanism.bwrap.is_none() {
                    text.push_str(&format!(" (no bwrap: {})", mechanism.no_bwrap));
                }
                gaps = mechanism.describe_gaps(&sandbox.request);
                kind = Some(mechanism.name());
            }
            Err(why) => error = Some(format!("{why:#}")),
        }
    }
    if let Some(error) = &error {
        text.push_str(&format!("\nsandbox cannot be built: {error}"));
    }
    for gap in gaps.iter().filter(|_| call.args.verbose) {
        text.push_str(&format!("\nsandbox gap: {gap}"));
    }
    text.push('\n');
    let list = list_settings(call, &mut text);
    if prompts > 0 {
        let window = window.map(|window| format!(" of {}", format_tokens(window)));
        let (count, window) = (format_count(prompts, "prompt"), window.unwrap_or_default());
        let tokens = format_tokens(tokens);
        text.push_str(&format!("the conversation: {count}, about {tokens}{window} tokens\n"));
        let took = figures_words(&usage.billed(settings.is_billed()));
        text.push_str(&format!("it took {took}\n"));
    }
    Report::wrapped(&text)
        .with("conversation_path", path)
        .with("conversation", call.name.as_str())
        .with("size", size)
        .with("prompts", prompts)
        .with("tokens", tokens)
        .with("window", window)
        .with("provider", provider)
        .with("model", model)
        .with("root", root.path().display().to_string())
        .with("root_size_bytes", root_size)
        .with("sandbox", mode)
        .with("sandbox_kind", kind)
        .with("sandbox_writable", writable)
        .with("sandbox_gaps", gaps)
        .with("sandbox_error", error)
        .with("settings", Value::Object(list))
}

/// Adds the settings that are not the default to the text, with `-v` all of them; returns all.
fn list_settings(call: &Call<'_>, text: &mut String) -> Map<String, Value> {
    let mut list = Map::new();
    for (from, key, value) in call.settings.list_values() {
        if from != "default" || call.args.verbose {
            text.push_str(&format!("{key} = {} ({from})\n", show_value(&key, &value)));
        }
        list.insert(key, json!({ "value": value, "from": from }));
    }
    if let Some(check) = &call.args.check {
        text.push_str(&format!("check = {check} (flag)\n"));
    }
    if !call.args.verbose {
        text.push_str(
            "nagent --status -v shows the other settings, and what the sandbox does not stop\n",
        );
    }
    list
}

/// A setting's value, for a person.
fn show_value(key: &str, value: &Value) -> String {
    match (key, value) {
        ("tags", Value::Null) => "all".to_owned(),
        ("prices", Value::Object(prices)) if prices.is_empty() => "those built in".to_owned(),
        (_, Value::Null) => "not set".to_owned(),
        (_, Value::Array(list)) if list.is_empty() => "none".to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    }
}
