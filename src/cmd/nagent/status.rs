//! `--status`: the conversation, and every setting in force with where it came from. Creates nothing.

use super::Call;
use crate::out::Report;
use crate::sys::fs;

/// Tells how things stand.
pub(super) fn report(call: &Call<'_>) -> Report {
    let settings = &call.settings;
    let root = &settings.root.value;
    let path = root.conversation(&call.name);
    let size = fs::size(&path).unwrap_or(0);
    let root_size = fs::bytes_below(root.path());
    let provider = settings.provider.as_ref().map(|provider| provider.value.name());
    let model = settings.model.as_ref().map(|model| model.value.as_str());
    let text = format!(
        "conversation:{} size:{size}\nprovider:{} model:{}\nroot:{} root_size_bytes:{root_size}\nsandbox:off\n",
        path.display(),
        provider.unwrap_or("(none)"),
        model.unwrap_or("(none)"),
        root.path().display()
    );
    Report::done(text)
        .with("conversation_path", path.display().to_string())
        .with("conversation", call.name.as_str())
        .with("size", size)
        .with("provider", provider)
        .with("model", model)
        .with("root", root.path().display().to_string())
        .with("root_size_bytes", root_size)
        .with("settings", settings.status())
}
