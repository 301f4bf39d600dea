//! The inputs of `nagent-each`, and the prompt of each. Pure: texts in, values out.
//!
//! `{}` in the prompt is the input: the path of a file, a line, a JSON value. `{name}` is a key of a JSON object. `{{}}` and
//! `{{name}}` stand for themselves. A prompt without any of them is followed by the input, and a file is shown to the model.

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde::de::IgnoredAny;
use serde_json::Value;

use conversation::format::hex::encode_hex;
use sys::fs::sha256;

/// `{}`, `{name}`, and both in double braces.
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{([A-Za-z_][\w.-]*)?\}\}|\{([A-Za-z_][\w.-]*)?\}").expect("a constant pattern")
});

/// An input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A file or folder, as it was named.
    File(PathBuf),
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line of JSON, as it is: a number may have more digits than a program would keep.
    Json(String),
}

/// An input with its place and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct EachInput {
    /// Its place among all inputs, from 0.
    pub index: usize,
    /// Its hash.
    pub id: String,
    /// The key of its result: its hash, with that of its file's content.
    pub key: String,
    /// The input itself.
    pub input: Input,
    /// The first input with the same content, where this is not the first.
    pub same_as: Option<usize>,
}

/// The prompt for an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its text.
    pub text: Vec<u8>,
    /// The file that the model is shown before the text.
    pub read: Option<PathBuf>,
}

/// The share of a worker in the inputs: the `part`th of `of` workers, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Its number.
    pub part: u64,
    /// The number of workers.
    pub of: u64,
}

impl Shard {
    /// Parses `2/4`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "give its number and how many there are, as in 2/4".to_owned();
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let shard = Self { part: number(part)?, of: number(of)? };
        let is_one = (1..=shard.of).contains(&shard.part) && shard.of <= 100_000;
        if is_one { Ok(shard) } else { Err(wrong()) }
    }

    /// Whether an input is one of this shard, by its hash: so the order of the inputs may change.
    pub fn contains_item(self, item: &EachInput) -> bool {
        let digits = u64::from_str_radix(&item.id[..15], 16).unwrap_or(0);
        digits % self.of == self.part - 1
    }
}

impl EachInput {
    /// The key of an input's result.
    pub fn key_of(id: &str, content: Option<&str>) -> String {
        content.map_or_else(|| id.to_owned(), |content| format!("{id} {content}"))
    }
}

impl Input {
    /// The bytes that distinguish it from other inputs.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::File(path) => path.as_os_str().as_bytes().to_vec(),
            Self::Line(line) => line.clone(),
            Self::Json(text) => text.clone().into_bytes(),
        }
    }

    /// The value of the input in results.
    pub fn to_value(&self) -> Value {
        match self {
            Self::File(path) => path.display().to_string().into(),
            Self::Line(line) => String::from_utf8_lossy(line).into_owned().into(),
            Self::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        }
    }

    /// The JSON text of the input in a line of results.
    pub fn to_json(&self) -> String {
        match self {
            Self::Json(text) => text.clone(),
            other => other.to_value().to_string(),
        }
    }

    /// The bytes of a path or line that is not UTF-8, as hexadecimal digits.
    pub fn invalid_utf8_hex(&self) -> Option<String> {
        let bytes = self.bytes();
        std::str::from_utf8(&bytes).is_err().then(|| encode_hex(&bytes))
    }
}

/// The lines of a text, blank ones left out.
pub fn read_lines(text: &[u8]) -> Vec<Input> {
    let lines = strip_bom(text).split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| Input::Line(line.to_vec())).collect()
}

/// The values of JSON lines.
///
/// # Errors
/// A line is not JSON; the message names it.
pub fn read_json_lines(text: &[u8]) -> Result<Vec<Input>, String> {
    let lines = strip_bom(text).split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(at, line)| (at, line.trim_ascii()));
    let read = |(at, line): (usize, &[u8])| {
        let wrong = |error: &dyn Display| format!("line {} is not JSON: {error}", at + 1);
        let line = std::str::from_utf8(line).map_err(|error| wrong(&error))?;
        serde_json::from_str::<IgnoredAny>(line).map_err(|error| wrong(&error))?;
        Ok(Input::Json(line.to_owned()))
    };
    lines.filter(|(_, line)| !line.is_empty()).map(read).collect()
}

/// A text without the mark that some programs put before UTF-8.
fn strip_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// The inputs with their places and hashes. `true_path` gives the path that identifies a file with several names,
/// `content` the hash of a file's content where an answer depends on it.
pub fn number(
    inputs: Vec<Input>,
    true_path: &dyn Fn(&Path) -> PathBuf,
    content: &dyn Fn(&Path) -> Option<String>,
) -> Vec<EachInput> {
    let mut first: HashMap<String, usize> = HashMap::new();
    let items = inputs.into_iter().enumerate().map(|(index, input)| {
        let (id, content) = match &input {
            Input::File(path) => (sha256(true_path(path).as_os_str().as_bytes()), content(path)),
            other => (sha256(&other.bytes()), None),
        };
        let key = EachInput::key_of(&id, content.as_deref());
        let seen = *first.entry(id.clone()).or_insert(index);
        EachInput { index, id, key, input, same_as: (seen != index).then_some(seen) }
    });
    items.collect()
}

/// The prompt for an input.
///
/// # Errors
/// The prompt names a key that the input does not have.
pub fn expand(prompt: &str, input: &Input) -> Result<Prompt, String> {
    let (mut text, mut rest, mut is_used) = (Vec::new(), 0, false);
    for found in PLACE.captures_iter(prompt) {
        let Range { start, end } = found.get(0).map_or(0..0, |all| all.range());
        let value = match (prompt[start..].starts_with("{{"), found.get(2), input) {
            (true, ..) => {
                text.extend_from_slice(&prompt.as_bytes()[rest..start]);
                text.extend_from_slice(&prompt.as_bytes()[start + 1..end - 1]);
                rest = end;
                continue;
            }
            (false, None, Input::Json(text)) => show_json(text),
            (false, None, other) => other.bytes(),
            (false, Some(name), Input::Json(text)) => {
                let name = name.as_str();
                let field = find_field(text, name).ok_or_else(|| {
                    format!("it has no key \"{name}\"; {{{{{name}}}}} in the prompt stands for {{{name}}} itself")
                })?;
                show_json(field)
            }
            // Other inputs have no named values.
            (false, Some(_), _) => continue,
        };
        text.extend_from_slice(&prompt.as_bytes()[rest..start]);
        text.extend(value);
        (rest, is_used) = (end, true);
    }
    text.extend_from_slice(&prompt.as_bytes()[rest..]);
    let mut read = None;
    match input {
        _ if is_used => {}
        Input::File(path) => read = Some(path.clone()),
        other => {
            text.extend_from_slice(b"\n\n");
            text.extend(other.bytes());
        }
    }
    Ok(Prompt { text, read })
}

/// A text as it is, anything else as JSON.
fn show_json(text: &str) -> Vec<u8> {
    serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()).into_bytes()
}

/// The text of a key's value in an object; of several, that of the last.
fn find_field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let (mut rest, mut found) = (object.trim_start().strip_prefix('{')?, None);
    while let Some((key, after)) = take_value(rest) {
        let (value, after) = take_value(after.trim_start().strip_prefix(':')?)?;
        if serde_json::from_str::<String>(key).is_ok_and(|key| key == name) {
            found = Some(value);
        }
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    found
}

/// The text of the JSON value that a text begins with, and what comes after it.
fn take_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let (value, rest) = text.split_at(values.byte_offset());
    Some((value.trim(), rest))
}

/// The first digits of the hash of several texts.
pub fn short_hash(parts: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    sha256(&bytes)[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts() {
        let line = || Input::Line(b"a \xff{}".to_vec());
        let file = || Input::File("b.md".into());
        let json = || Input::Json("{\"name\": \"Ada\", \"n\":3, \"x.y-z\": [1]}".to_owned());
        let check = |prompt: &str, input: Input, expect: &[u8], read: Option<&str>| {
            let got = expand(prompt, &input).unwrap();
            assert_eq!(got, Prompt { text: expect.to_vec(), read: read.map(PathBuf::from) });
        };
        check("of {}: {}!", line(), b"of a \xff{}: a \xff{}!", None);
        check("sum up", line(), b"sum up\n\na \xff{}", None);
        check("sum up", file(), b"sum up", Some("b.md"));
        check("look at {}", file(), b"look at b.md", None);
        check("{name} is {n}, {x.y-z}", json(), b"Ada is 3, [1]", None);
        check("all: {}", Input::Json("\"text\"".to_owned()), b"all: text", None);
        check("sum up", Input::Json("[1, 2]".to_owned()), b"sum up\n\n[1, 2]", None);
        // Other braces stay, as in code or JSON.
        check(
            "{{}} {{name}} {a b} {\"x\": {}}",
            json(),
            br#"{} {name} {a b} {"x": {"name": "Ada", "n":3, "x.y-z": [1]}}"#,
            None,
        );
        check("{name} {{}}", line(), b"{name} {}\n\na \xff{}", None);
        assert!(expand("{nam}", &json()).unwrap_err().contains("no key \"nam\"; {{nam}}"));
    }

    #[test]
    fn fields_are_found_in_the_text_as_it_is() {
        let object = r#" {"a": 1e400 , "b\u0061": [ "}" , {"a": 2}], "z":0.10000000000000000555,"a":90071992547409931234567} "#;
        let check = |name: &str, expect: Option<&str>| assert_eq!(find_field(object, name), expect);
        check("a", Some("90071992547409931234567"));
        check("ba", Some(r#"[ "}" , {"a": 2}]"#));
        check("z", Some("0.10000000000000000555"));
        check("b", None);
        assert_eq!((find_field("{}", "a"), find_field("[1]", "a")), (None, None));
    }

    #[test]
    fn inputs_are_numbered_and_shared_out() {
        let number = |inputs| number(inputs, &Path::to_owned, &|_| None);
        let items = number(read_lines(b"\xef\xbb\xbfone\n\n two \r\none\n"));
        let seen: Vec<_> = items.iter().map(|it| (it.input.to_value(), it.same_as)).collect();
        assert_eq!(seen, [(json!("one"), None), (json!(" two "), None), (json!("one"), Some(0))]);
        assert_eq!(
            read_json_lines(b"{}\n\n{"),
            Err("line 3 is not JSON: EOF while parsing an object at line 1 column 1".to_owned())
        );
        let lines: String = (0..200).map(|n| format!("line {n}\n")).collect();
        let items = number(read_lines(lines.as_bytes()));
        let takes =
            |part| items.iter().filter(|item| Shard { part, of: 4 }.contains_item(item)).count();
        let counts: Vec<usize> = (1..=4).map(takes).collect();
        assert!(counts.iter().all(|count| (30..=70).contains(count)), "{counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 200);
        for wrong in ["", "0/4", "5/4", "1", "a/b", "1/0", "1/200000"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Shard::parse("2/4"), Ok(Shard { part: 2, of: 4 }));
    }
}
