//! The file of a script in plain language.
//!
//! ```text
//! script = [ "#!" line ] [ front ] prompt
//! front  = blank lines "---" LF yaml LF "---" LF        keys: agent, model, max_tokens
//! ```
//!
//! Without the second `---` on its own line, the whole text is the prompt.

use std::path::Path;

use serde_yaml::Value;

/// The content of a script's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The name of the agent, that is, of a file with settings for a provider.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Maximum number of tokens of a reply.
    pub max_tokens: Option<u64>,
    /// The task.
    pub prompt: String,
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// The fault in the text, with its line.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = str::from_utf8(bytes).map_err(|error| {
            let line =
                bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("it is not UTF-8 text (line {line})")
        })?;
        let text = text.replace("\r\n", "\n");
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let has_shebang = first.starts_with("#!");
        let body = if has_shebang { rest } else { &text };
        let mut script = Self::default();
        let start = body.trim_start_matches('\n');
        let front = start.strip_prefix("---\n").and_then(|rest| {
            let mut lines = rest.split_inclusive('\n');
            let yaml: usize =
                lines.by_ref().take_while(|it| it.trim_end() != "---").map(str::len).sum();
            let (yaml, closing) = rest.split_at(yaml);
            let (_, prompt) = closing.split_once('\n').unwrap_or((closing, ""));
            (!closing.is_empty()).then_some((yaml, prompt))
        });
        let prompt = match front {
            Some((yaml, prompt)) => {
                // The line offset of the YAML, for its errors.
                let before = text.len() - start.len();
                let lines = text[..before].matches('\n').count() + 1;
                script.read_front(yaml, lines)?;
                prompt
            }
            None => body,
        };
        prompt.trim().clone_into(&mut script.prompt);
        if script.prompt.is_empty() {
            return Err("it has no prompt: describe the task below the first line".to_owned());
        }
        Ok(script)
    }

    fn read_front(&mut self, yaml: &str, lines_before: usize) -> Result<(), String> {
        let value: Value = serde_yaml::from_str(yaml).map_err(|error| {
            let line = error.location().map_or(1, |place| place.line()) + lines_before;
            format!("its front matter is not YAML (line {line}): {error}")
        })?;
        let mapping = match value {
            Value::Null => return Ok(()),
            Value::Mapping(mapping) => mapping,
            _ => return Err("its front matter is not a list of keys and values".to_owned()),
        };
        let word = |key: &str| {
            let value = mapping.get(key);
            let word = value.map(|value| value.as_str().filter(|word| !word.is_empty()));
            let wrong = || format!("\"{key}\" in its front matter is not a word");
            word.map(|word| word.map(str::to_owned).ok_or_else(wrong)).transpose()
        };
        (self.agent, self.model) = (word("agent")?, word("model")?);
        if let Some(value) = mapping.get("max_tokens") {
            self.max_tokens = value.as_u64().filter(|number| *number > 0);
            if self.max_tokens.is_none() {
                let wrong = "\"max_tokens\" in its front matter is not a whole number from 1";
                return Err(wrong.to_owned());
            }
        }
        Ok(())
    }
}

/// A script's bytes without its first line, where that is for the kernel.
pub fn without_shebang(bytes: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| *byte == b'\n';
    match bytes.strip_prefix(b"#!") {
        Some(rest) => rest.iter().position(is_end).map_or(&[], |at| &rest[at + 1..]),
        None => bytes,
    }
}

/// The name of a script's thought: its base name without the last extension.
pub fn thought_name(place: &str) -> String {
    let stem = Path::new(place).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| !stem.is_empty() && stem != "." && stem != "..")
        .unwrap_or_else(|| "script".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_and_prompt() {
        let check = |text: &str, expect: (Option<&str>, Option<&str>, Option<u64>, &str)| {
            let script = Script::parse(text.as_bytes()).unwrap();
            let got = (
                script.agent.as_deref(),
                script.model.as_deref(),
                script.max_tokens,
                script.prompt.as_str(),
            );
            assert_eq!(got, expect, "{text}");
        };
        check("do it", (None, None, None, "do it"));
        check("#!/usr/bin/env think\n\ndo it\n", (None, None, None, "do it"));
        check(
            "\u{feff}#! x\r\n---\r\nmodel: m\r\n---\r\ndo\r\nit",
            (None, Some("m"), None, "do\nit"),
        );
        check("#!x\n\n---\nagent: a\nmax_tokens: 9\n---\n\ndo", (Some("a"), None, Some(9), "do"));
        check("---\n---\ndo", (None, None, None, "do"));
        check("---\nmodel: m\nno end", (None, None, None, "---\nmodel: m\nno end"));
        check("---\nmodel: m\n--- x\n", (None, None, None, "---\nmodel: m\n--- x"));
        check("a\n---\nb", (None, None, None, "a\n---\nb"));
        for (text, part) in [
            ("", "no prompt"),
            ("#!/usr/bin/env think", "no prompt"),
            ("---\nmodel: m\n---\n", "no prompt"),
            ("#!x\n---\nmodel: [\n---\nx", "not YAML (line"),
            ("---\nmodel: m\n---- a\n---\nx", "not YAML (line"),
            ("---\nmodel: 3\n---\nx", "is not a word"),
            ("---\nmax_tokens: 0\n---\nx", "whole number"),
            ("---\n- a\n---\nx", "not a list of keys"),
        ] {
            let error = Script::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let utf16: Vec<u8> =
            "do it\n".encode_utf16().flat_map(u16::to_le_bytes).chain([0xff, 0xfe]).collect();
        assert!(Script::parse(&utf16).unwrap_err().contains("not UTF-8"));
    }

    #[test]
    fn names() {
        for (place, name) in [
            ("weather.md", "weather"),
            ("/a/b/multiple.dots.in.name.md", "multiple.dots.in.name"),
            (".hidden.md", ".hidden"),
            (".hidden", ".hidden"),
            ("..", "script"),
        ] {
            assert_eq!(thought_name(place), name, "{place}");
        }
    }
}
