//! The flags and the inputs of `nagent-each`, and the prompt of each. Pure: texts in, values out.
//!
//! `{}` in the prompt is the input: the path of a file, a line, a JSON value. `{name}` is a key of a JSON object. `{{}}` and
//! `{{name}}` stand for `{}` and `{name}`. A prompt without any of them is followed by the input, and a file is shown to the model.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::ValueHint;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::ops::setup::flags::parse_count;
use sys::fs::sha256;

/// `{}`, `{name}`, and both in double braces.
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{([A-Za-z_][\w.-]*)?\}\}|\{([A-Za-z_][\w.-]*)?\}").expect("a constant pattern")
});

/// The flags of `nagent-each` in addition to those of every run
#[derive(Debug, Clone, clap::Args)]
pub struct EachArgs {
    /// The inputs: files, or folders if the prompt has {}
    #[arg(index = 2, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["input_lines", "jsonl"])]
    pub files: Vec<PathBuf>,
    /// Take each line of stdin, or of this file, as an input
    #[arg(id = "input_lines", long = "lines", value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "jsonl", help_heading = "Inputs")]
    pub lines: Option<PathBuf>,
    /// Take each line of stdin, or of this file, as an input that is JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Inputs")]
    pub jsonl: Option<PathBuf>,
    /// Work on each file in the file's own conversation, which may write it
    #[arg(long, help_heading = "Inputs")]
    pub own: bool,
    /// Take only the inputs of worker I of N, by their hashes; continues what this worker has done before
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = "Inputs")]
    pub shard: Option<Shard>,
    /// Continue the last call of this command: inputs that have an answer are not asked about again
    #[arg(long, help_heading = "Results")]
    pub resume: bool,
    /// Start no more inputs after N failures
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    pub max_failures: Option<u64>,
}

/// An input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A file or folder, as it was named.
    File(PathBuf),
    /// A line, without its end.
    Line(String),
    /// The value of a line of JSON.
    Json(Value),
}

/// An input with its place and key.
#[derive(Debug, Clone, PartialEq)]
pub struct EachInput {
    /// Its place among all inputs, from 0.
    pub index: usize,
    /// The key of its result.
    pub key: String,
    /// The input itself.
    pub input: Input,
}

/// The prompt for an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its text.
    pub text: String,
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
    pub fn contains_input(self, input: &Input) -> bool {
        let digits = u64::from_str_radix(&input.hash()[..15], 16).unwrap_or(0);
        digits % self.of == self.part - 1
    }
}

impl Input {
    /// Its hash, which distinguishes it from other inputs.
    fn hash(&self) -> String {
        match self {
            Self::File(path) => sha256(path.as_os_str().as_bytes()),
            other => sha256(other.to_value().to_string().as_bytes()),
        }
    }

    /// The key of its result: its hash, with that of its file's content where an answer depends on it.
    pub fn key(&self, content: Option<&str>) -> String {
        content.map_or_else(|| self.hash(), |content| format!("{} {content}", self.hash()))
    }

    /// The value of the input in results.
    pub fn to_value(&self) -> Value {
        match self {
            Self::File(path) => path.display().to_string().into(),
            Self::Line(line) => line.as_str().into(),
            Self::Json(value) => value.clone(),
        }
    }
}

/// The lines of a text, blank ones left out, as texts or as JSON.
///
/// # Errors
/// A line is not JSON; the message names it.
pub fn read_lines(text: &str, is_json: bool) -> Result<Vec<Input>, String> {
    // Some programs put a mark before UTF-8.
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let read = |(at, line): (usize, &str)| {
        if !is_json {
            return Ok(Input::Line(line.to_owned()));
        }
        let value = serde_json::from_str(line);
        value.map(Input::Json).map_err(|error| format!("line {} is not JSON: {error}", at + 1))
    };
    lines.filter(|(_, line)| !line.trim().is_empty()).map(read).collect()
}

/// The prompt for an input.
///
/// # Errors
/// The prompt names a key that the input does not have.
pub fn expand(prompt: &str, input: &Input) -> Result<Prompt, String> {
    let (mut is_used, mut missing) = (false, None);
    let text = PLACE.replace_all(prompt, |found: &Captures<'_>| {
        let place = &found[0];
        let value = match (found.get(2), input) {
            _ if place.starts_with("{{") => return place[1..place.len() - 1].to_owned(),
            (None, input) => show(&input.to_value()),
            (Some(name), input) => {
                let field = match input {
                    Input::Json(value) => value.get(name.as_str()),
                    _ => None,
                };
                missing = missing.take().or(field.is_none().then(|| name.as_str().to_owned()));
                field.map(show).unwrap_or_default()
            }
        };
        is_used = true;
        value
    });
    if let Some(name) = missing {
        return Err(format!(
            "it has no key \"{name}\", as objects of --jsonl may; {{{{{name}}}}} in the prompt stands for {{{name}}} itself"
        ));
    }
    let text = text.into_owned();
    Ok(match input {
        _ if is_used => Prompt { text, read: None },
        Input::File(path) => Prompt { text, read: Some(path.clone()) },
        other => Prompt { text: format!("{text}\n\n{}", show(&other.to_value())), read: None },
    })
}

/// A text as it is, anything else as JSON.
fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts() {
        let line = || Input::Line("a {}".to_owned());
        let file = || Input::File("b.md".into());
        let json = || Input::Json(json!({"name": "Ada", "n": 3, "x.y-z": [1]}));
        let check = |prompt: &str, input: Input, expect: &str, read: Option<&str>| {
            let got = expand(prompt, &input).unwrap();
            assert_eq!(got, Prompt { text: expect.to_owned(), read: read.map(PathBuf::from) });
        };
        check("of {}: {}!", line(), "of a {}: a {}!", None);
        check("sum up", line(), "sum up\n\na {}", None);
        check("sum up", file(), "sum up", Some("b.md"));
        check("look at {}", file(), "look at b.md", None);
        check("{name} is {n}, {x.y-z}", json(), "Ada is 3, [1]", None);
        check("all: {}", Input::Json(json!("text")), "all: text", None);
        check("sum up", Input::Json(json!([1, 2])), "sum up\n\n[1,2]", None);
        // Other braces stay, as in code or JSON.
        check(
            "{{}} {{name}} {a b} {\"x\": {}}",
            json(),
            r#"{} {name} {a b} {"x": {"name":"Ada","n":3,"x.y-z":[1]}}"#,
            None,
        );
        check("{{name}} {{}}", line(), "{name} {}\n\na {}", None);
        assert!(
            expand("{x}", &file()).unwrap_err().contains("no key \"x\", as objects of --jsonl")
        );
        assert!(
            expand("{nam}", &json())
                .unwrap_err()
                .contains("no key \"nam\", as objects of --jsonl may; {{nam}}")
        );
    }

    #[test]
    fn inputs_are_read_and_shared_out() {
        let read = read_lines("\u{feff}one\n\n two \r\none\n", false).unwrap();
        assert_eq!(read, ["one", " two ", "one"].map(|line| Input::Line(line.to_owned())));
        assert_eq!(
            read_lines("{}\n\n{", true),
            Err("line 3 is not JSON: EOF while parsing an object at line 1 column 1".to_owned())
        );
        let lines: String = (0..200).map(|n| format!("line {n}\n")).collect();
        let inputs = read_lines(&lines, false).unwrap();
        let takes = |part| {
            inputs.iter().filter(|input| Shard { part, of: 4 }.contains_input(input)).count()
        };
        let counts: Vec<usize> = (1..=4).map(takes).collect();
        assert!(counts.iter().all(|count| (30..=70).contains(count)), "{counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 200);
        for wrong in ["", "0/4", "5/4", "1", "a/b", "1/0", "1/200000"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Shard::parse("2/4"), Ok(Shard { part: 2, of: 4 }));
    }
}
