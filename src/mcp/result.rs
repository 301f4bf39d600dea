//! The result of a call as text: pictures, sounds and other bytes become files, which the text names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conversation::format::harmless::{escape_line, quote_name};
use conversation::format::numbers::format_bytes;
use serde_json::Value;

/// Writes bytes to a new file with this ending, and returns its path.
pub type Store<'a> = dyn FnMut(&str, &[u8]) -> Result<String, String> + 'a;

/// Formats a result, and names the files that were written. `is_seen_by_model`: the text is for a model, which reads pictures by
/// a tag.
pub fn format_result(
    result: &Value,
    is_seen_by_model: bool,
    store: &mut Store<'_>,
) -> Result<(String, Vec<String>), String> {
    let (mut parts, mut files) = (Vec::new(), Vec::new());
    for part in result["content"].as_array().into_iter().flatten() {
        let body = part.get("resource").unwrap_or(part);
        let uri = body["uri"].as_str().map(quote_name).unwrap_or_default();
        if let Some(text) = body["text"].as_str() {
            let head = if uri.is_empty() { uri } else { format!("[resource {uri}]\n") };
            parts.push(head + text);
        } else if let Some(data) = body["data"].as_str().or(body["blob"].as_str()) {
            let kind = body["mimeType"].as_str().unwrap_or_default();
            let bytes = STANDARD
                .decode(data)
                .map_err(|_| format!("its {} is not valid base64", escape_line(kind, 60)))?;
            let path = store(ending(kind), &bytes)?;
            let (kind, size) = (escape_line(kind, 60), format_bytes(bytes.len() as u64));
            let is_for_tag = is_seen_by_model && kind.starts_with("image/");
            let hint = if is_for_tag { "; nagent-read with this path shows it" } else { "" };
            parts.push(format!("[{kind}, {size}: {path}{hint}]"));
            files.push(path);
        } else {
            let name = escape_line(body["name"].as_str().unwrap_or_default(), 200);
            parts.push(format!("[link {uri} {name}]"));
        }
    }
    if parts.is_empty() {
        parts.extend(result.get("structuredContent").map(Value::to_string));
    }
    Ok((parts.join("\n"), files))
}

/// The ending of a file with bytes of this type.
fn ending(kind: &str) -> &str {
    let name = kind.rsplit('/').next().unwrap_or_default();
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    if name.is_empty() { "bin" } else { name }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_is_shown() {
        let format = |value: Value| {
            let mut store = |ending: &str, bytes: &[u8]| Ok(format!("/t/{}.{ending}", bytes.len()));
            format_result(&value, true, &mut store)
        };
        let (text, files) = format(json!({"content": [
            {"type": "text", "text": "a\nb"}, {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
            {"type": "audio", "data": "AA==", "mimeType": "../x"}, {"type": "resource_link", "uri": "file:///x\n", "name": "n"},
            {"type": "resource", "resource": {"uri": "u:1", "text": "t"}}, {"type": "resource", "resource": {"uri": "u:2", "blob": "AA=="}}]})).unwrap();
        assert_eq!(
            text,
            "a\nb\n[image/svg+xml, 3 B: /t/3.svg; nagent-read with this path shows it]\n\
            [../x, 1 B: /t/1.x]\n[link $'file:///x\\n' n]\n[resource u:1]\nt\n[, 1 B: /t/1.bin]"
        );
        assert_eq!(files.len(), 3);
        assert_eq!(format(json!({"structuredContent": {"a": 1}})).unwrap().0, "{\"a\":1}");
        assert!(format(json!({"content": [{"type": "image", "data": "!"}]})).is_err());
    }
}
