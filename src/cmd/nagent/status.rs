//! `--status`: the conversation, and every setting in force with where it came from. Creates nothing.

use serde_json::{Value, json};

use super::{Call, sandbox};
use crate::out::Report;
use crate::sys::fs;

/// Tells how things stand.
pub(super) fn report(call: &Call<'_>) -> Report {
    let settings = &call.settings;
    let root = &settings.root.value;
    let path = root.conversation(&call.name);
    let size = fs::file_size(&path).unwrap_or(0);
    let root_size = fs::bytes_below(root.path());
    let provider = settings.provider.as_ref().map(|provider| provider.value.name());
    let model = settings.model.as_ref().map(|model| model.value.as_str());
    let sandbox = sandbox::sandbox_status(call);
    let text = format!(
        "conversation:{} size:{size}\nprovider:{} model:{}\nroot:{} root_size_bytes:{root_size}\n{}",
        path.display(),
        provider.unwrap_or("(none)"),
        model.unwrap_or("(none)"),
        root.path().display(),
        sandbox.text
    );
    Report::done(text)
        .with("conversation_path", path.display().to_string())
        .with("conversation", call.name.as_str())
        .with("size", size)
        .with("provider", provider)
        .with("model", model)
        .with("root", root.path().display().to_string())
        .with("root_size_bytes", root_size)
        .with("sandbox", sandbox.mode.name())
        .with("sandbox_kind", sandbox.kind)
        .with("sandbox_writable", sandbox.writable)
        .with("sandbox_gaps", sandbox.gaps)
        .with("sandbox_error", sandbox.error)
        .with("settings", in_force(call))
}

/// Everything for `--status --json`: the value in force and where it came from.
fn in_force(call: &Call<'_>) -> Value {
    let settings = &call.settings;
    let mut object = serde_json::Map::new();
    let mut put = |key: &str, value: Value, from: &str| {
        object.insert(key.to_owned(), json!({ "value": value, "from": from }));
    };
    put("root", json!(settings.root.value.path()), &settings.root.from);
    put("config", json!(settings.config_path.value), &settings.config_path.from);
    if let Some(profile) = &settings.profile {
        put("profile", json!(profile.value), &profile.from);
    }
    if let Some(provider) = &settings.provider {
        put("provider", json!(provider.value.name()), &provider.from);
    }
    if let Some(model) = &settings.model {
        put("model", json!(model.value), &model.from);
    }
    if let Some(base_url) = &settings.base_url {
        put("base_url", json!(base_url.value), &base_url.from);
    }
    put("patience", json!(settings.patience.value.as_secs_f64()), &settings.patience.from);
    let sandbox = &call.args.sandbox;
    let mode = sandbox.mode(settings);
    put("sandbox", json!(mode.value.name()), &mode.from);
    let no_network = sandbox.no_network(settings);
    put("no_network", json!(no_network.value), &no_network.from);
    let c = &settings.config;
    let mut or = |key: &str, set: Option<Value>, default: Value| match set {
        Some(value) => put(key, value, &settings.source_of(key)),
        None => put(key, default, "default"),
    };
    or("api", c.api.as_ref().map(|v| json!(v)), Value::Null);
    or("shell", c.shell.as_ref().map(|v| json!(v)), json!("bash, else sh"));
    or("shell_timeout", c.shell_timeout.map(|v| json!(v)), json!(600));
    or("pass_env", Some(&c.pass_env).filter(|v| !v.is_empty()).map(|v| json!(v)), json!([]));
    or("write", Some(&c.write).filter(|v| !v.is_empty()).map(|v| json!(v)), json!([]));
    or("max_turns", c.max_turns.map(|v| json!(v)), json!(200));
    or("max_seconds", c.max_seconds.map(|v| json!(v)), Value::Null);
    or("max_tokens", c.max_tokens.map(|v| json!(v)), Value::Null);
    or("max_cost", c.max_cost.map(|v| json!(v)), Value::Null);
    or("jobs", c.jobs.map(|v| json!(v)), json!(4));
    or("connect_timeout", c.connect_timeout.map(|v| json!(v)), json!(10));
    or("read_timeout", c.read_timeout.map(|v| json!(v)), json!(300));
    or("lock_timeout", c.lock_timeout.map(|v| json!(v)), json!(30));
    or("redact", c.redact.map(|v| json!(v)), json!(false));
    or("file_summaries", c.file_summaries.map(|v| json!(v)), json!(true));
    if call.args.redact {
        object.insert("redact".to_owned(), json!({ "value": true, "from": "flag" }));
    }
    Value::Object(object)
}
