//! The result of a call as text: pictures, sounds and other bytes become files, which the text names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conversation::format::harmless::{escape_line, quote_name};
use conversation::format::numbers::format_bytes;
use serde_json::{Value, json};

/// A result as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CallText {
    /// The text of all its parts.
    pub text: String,
    /// The files that were written, by their paths.
    pub files: Vec<String>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
}

/// Writes bytes to a new file with this ending, and returns its path.
pub type Store<'a> = dyn FnMut(&str, &[u8]) -> Result<String, String> + 'a;

/// Formats a result. `is_seen_by_model`: the text is for a model, which reads pictures by a tag.
pub fn format_result(
    result: &Value,
    is_seen_by_model: bool,
    store: &mut Store<'_>,
) -> Result<CallText, String> {
    if result["resultType"] == json!("input_required") {
        let text = "the server asks for input, which nagent refuses".to_owned();
        return Ok(CallText { text, is_error: true, ..CallText::default() });
    }
    let mut out = CallText { is_error: result["isError"] == json!(true), ..CallText::default() };
    let mut parts = Vec::new();
    for part in result["content"].as_array().into_iter().flatten() {
        let text = |name: &str| part[name].as_str().unwrap_or_default();
        let resource = &part["resource"];
        let uri = quote_name(resource["uri"].as_str().unwrap_or_default());
        let (label, kind, data) = match text("type") {
            "text" => {
                parts.push(text("text").to_owned());
                continue;
            }
            "resource_link" => {
                let about = [text("name"), text("description")].map(|text| escape_line(text, 200));
                parts.push(format!(
                    "[link {} {}]",
                    quote_name(text("uri")),
                    about.join(" ").trim()
                ));
                continue;
            }
            "resource" => match resource["text"].as_str() {
                Some(body) => {
                    parts.push(format!("[resource {uri}]\n{body}"));
                    continue;
                }
                None => (format!("resource {uri}"), &resource["mimeType"], &resource["blob"]),
            },
            kind => (escape_line(kind, 40), &part["mimeType"], &part["data"]),
        };
        let (kind, data) = (kind.as_str().unwrap_or_default(), data.as_str().unwrap_or_default());
        let bytes =
            STANDARD.decode(data).map_err(|_| format!("the {label} is not valid base64"))?;
        let path = store(ending(kind), &bytes)?;
        let mut line = format!(
            "[{label}, {}, {}: {path}",
            escape_line(kind, 60),
            format_bytes(bytes.len() as u64)
        );
        if is_seen_by_model && kind.starts_with("image/") {
            line.push_str("; nagent-read with this path shows it");
        }
        parts.push(line + "]");
        out.files.push(path);
    }
    if parts.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        parts.push(structured.to_string());
    }
    out.text = parts.join("\n");
    Ok(out)
}

/// The ending of a file with bytes of this type.
fn ending(kind: &str) -> &str {
    let name = kind.split(';').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    match name {
        "jpeg" => "jpg",
        "mpeg" => "mp3",
        "svg+xml" => "svg",
        "plain" => "txt",
        name if !name.is_empty()
            && name.len() <= 5
            && name.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            name
        }
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_shown() {
        let format = |value: Value| {
            let mut store = |ending: &str, bytes: &[u8]| Ok(format!("/t/{}.{ending}", bytes.len()));
            format_result(&value, true, &mut store)
        };
        let result = format(json!({"content": [
            {"type": "text", "text": "a\nb"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "../x"}, {"type": "resource_link", "uri": "file:///x\n", "name": "n"},
            {"type": "resource", "resource": {"uri": "u:1", "text": "t"}}, {"type": "resource", "resource": {"uri": "u:2", "blob": "AA=="}}]}));
        let result = result.unwrap();
        assert_eq!(
            result.text,
            "a\nb\n[image, image/png, 3 B: /t/3.png; nagent-read with this path shows it]\n\
            [audio, ../x, 1 B: /t/1.x]\n[link $'file:///x\\n' n]\n[resource u:1]\nt\n[resource u:2, , 1 B: /t/1.bin]"
        );
        assert_eq!(result.files.len(), 3);
        let structured = format(json!({"structuredContent": {"a": 1}, "isError": true})).unwrap();
        assert!(structured.is_error && structured.text == "{\"a\":1}");
        assert!(format(json!({"content": [{"type": "image", "data": "!"}]})).is_err());
        assert!(format(json!({"resultType": "input_required"})).unwrap().is_error);
    }
}
