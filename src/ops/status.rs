//! The conversation, and every setting in force with where it came from. Creates nothing.

use serde_json::{Map, Value, json};

use super::call::Call;
use super::sandbox;
use crate::out::Report;
use crate::sys::fs;

/// Reports the conversation, the settings in force and where each came from.
pub fn report_status(call: &Call<'_>) -> Report {
    let (settings, root) = (&call.settings, call.root());
    let path = root.conversation(&call.name);
    let size = fs::file_size(&path).unwrap_or(0);
    let root_size = fs::bytes_below(root.path());
    let sandbox = sandbox::inspect(call);
    let provider = settings.provider.as_ref().map(|provider| provider.value.name());
    let model = settings.model.as_ref().map(|model| model.value.as_str());
    let mut text = format!(
        "conversation:{} size:{size}\nprovider:{} model:{}\nroot:{} root_size_bytes:{root_size}\n{}",
        path.display(),
        provider.unwrap_or("(none)"),
        model.unwrap_or("(none)"),
        root.path().display(),
        sandbox.text
    );
    let mut list = Map::new();
    for (key, value, from) in settings.list_values() {
        if !value.is_null() {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("{key} = {shown} ({from})\n"));
        }
        list.insert(key.to_owned(), json!({ "value": value, "from": from }));
    }
    Report::done(text)
        .with("conversation_path", path.display().to_string())
        .with("conversation", call.name.as_str())
        .with("size", size)
        .with("provider", provider)
        .with("model", model)
        .with("root", root.path().display().to_string())
        .with("root_size_bytes", root_size)
        .with("sandbox", settings.sandbox.value.name())
        .with("sandbox_kind", sandbox.kind)
        .with("sandbox_writable", sandbox.writable)
        .with("sandbox_gaps", sandbox.gaps)
        .with("sandbox_error", sandbox.error)
        .with("settings", Value::Object(list))
}
