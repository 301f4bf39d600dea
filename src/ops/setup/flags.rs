//! The flags that several tools share. Which value is in force is decided in [`super::settings`].

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::completion;
use crate::drive::nagent_child::flag_word;
use conversation::approve::Approve;
use conversation::problem::Problem;
use conversation::protocol::tags::{TAGS, Tag};
use models::options::Reasoning;
use sandbox::SandboxMode;
use sys::root::check_name;
use view::look::BUILT_IN;

/// The place of a flag that comes after those that more people use.
const LAST: usize = 900;

/// The model, and the places of files
#[derive(Debug, Clone, Default, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelArgs {
    /// Use this provider: openai, anthropic, google, ollama, a server such as mistral, or a program (--list-providers)
    #[arg(long, value_name = "NAME", help_heading = "Model", add = ArgValueCandidates::new(completion::providers))]
    pub provider: Option<String>,
    /// Use this model; for replay, a conversation or the path of a recording
    #[arg(long, short, value_name = "ID", help_heading = "Model", add = ArgValueCandidates::new(completion::models))]
    pub model: Option<String>,
    /// Send requests to this address; with openai, any server that speaks Chat Completions
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub base_url: Option<String>,
    /// Reasoning effort: off, low, medium, high, max, a step from 1 to 5, or a number of tokens
    #[arg(long, value_name = "LEVEL", value_parser = Reasoning::parse, help_heading = "Model", add = ArgValueCandidates::new(|| completion::words(["off", "low", "medium", "high", "max"])))]
    pub reasoning: Option<Reasoning>,
    /// Sampling temperature, from 0 to 2; many newer models refuse it
    #[arg(long, value_name = "T", value_parser = parse_temperature, help_heading = "Model")]
    pub temperature: Option<f64>,
    /// Random seed, where the provider supports one
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub seed: Option<u64>,
    /// Use this service tier of the provider: flex, priority
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub service_tier: Option<String>,
    /// Send this header with every request (can be repeated)
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header, help_heading = "Model")]
    #[serde(serialize_with = "as_lines")]
    pub header: Vec<(String, String)>,
    /// Keep retrying a busy provider for S seconds in total [default: 30]
    #[arg(long, value_name = "S", value_parser = parse_amount, help_heading = "Model")]
    pub patience: Option<f64>,
    /// Use this config file instead of config.json in the root [env: NAGENT_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    #[serde(serialize_with = "as_bytes")]
    pub config: Option<PathBuf>,
    /// Use this profile: one of the config file, or a server such as openrouter [env: NAGENT_PROFILE]
    #[arg(long, value_name = "NAME", help_heading = "Configuration", add = ArgValueCandidates::new(completion::profiles))]
    pub profile: Option<String>,
    /// Keep conversations and everything else in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR", help_heading = "Configuration")]
    #[serde(serialize_with = "as_bytes")]
    pub root: Option<PathBuf>,
}

/// The form of an answer, and where it goes
#[derive(Debug, Clone, Default, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AnswerArgs {
    /// Require an answer that is valid against the JSON Schema in this file (- is stdin); on errors the model is asked again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "as_bytes")]
    pub schema: Option<PathBuf>,
    /// Write the answer to this file, in one step at the end, instead of stdout; - is stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(skip)]
    pub output: Option<PathBuf>,
}

/// The flags of a run of the loop, in every tool that runs it
#[derive(Debug, Clone, Default, Args, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
#[serde(rename_all = "kebab-case")]
pub struct RunArgs {
    /// The task. End with - to add stdin; with no words, stdin is the prompt
    #[arg(value_name = "PROMPT")]
    #[serde(skip)]
    pub prompt: Vec<String>,
    /// Show the model this file before the prompt; - is stdin (can be repeated)
    #[arg(long, short = 'f', value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "as_bytes")]
    pub read: Vec<PathBuf>,
    /// Also begin the conversation with the text of this file (can be repeated)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "as_bytes")]
    pub context: Vec<PathBuf>,
    /// Run this command after each reply that wrote files, and show the model its output
    #[arg(long, value_name = "CMD")]
    pub after_write: Option<String>,
    /// Accept an answer only when this command exits 0; the model gets up to five tries
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// Ask for a single code block, and print only what is in it
    #[arg(long, conflicts_with_all = ["show_request", "schema"])]
    pub code: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Constrain replies by a grammar, for small models (llama.cpp, vLLM, OpenAI's Responses)
    #[arg(long, help_heading = "Model", display_order = LAST)]
    pub grammar: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    /// Print events as JSON lines; the last line is the document of --json
    #[arg(long, conflicts_with_all = ["json", "show_request", "clear"])]
    #[serde(skip)]
    pub lines: bool,
    /// Print only the answer, when it is complete, and errors: no progress, diffs, notes or status line
    #[arg(long, short, conflicts_with_all = ["verbose", "progress"])]
    pub quiet: bool,
    /// Show the whole output of commands and whole diffs
    #[arg(long, short)]
    pub verbose: bool,
    /// Show progress where stderr is not a terminal too, as plain lines
    #[arg(long)]
    #[serde(skip)]
    pub progress: bool,
    /// Print the request that would be sent, byte for byte, and send nothing
    #[arg(long, conflicts_with = "clear")]
    #[serde(skip)]
    pub show_request: bool,
    /// Append every reply to a recording, which --provider replay plays
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "as_bytes")]
    pub record: Option<PathBuf>,

    /// Also allow writes below this folder (can be repeated)
    #[arg(long, value_name = "DIR", help_heading = "Permissions", value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "as_bytes")]
    pub write: Vec<PathBuf>,
    /// Also allow writes in this folder: --write .
    #[arg(short = 'w', help_heading = "Permissions")]
    #[serde(skip)]
    pub write_here: bool,
    /// Where commands may write: workspace (the working tree, temp folders, caches), read-only, or off, which is
    /// everywhere [default: workspace; read-only in the home folder]
    #[arg(long, value_name = "MODE", value_parser = SandboxMode::parse, help_heading = "Permissions",
        add = ArgValueCandidates::new(|| completion::words(SandboxMode::ALL.map(SandboxMode::name))))]
    pub sandbox: Option<SandboxMode>,
    /// Keep commands off the network, in the sandbox (workspace, if none is chosen); =false allows it where the config
    /// does not
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Permissions"
    )]
    #[serde(serialize_with = "as_word")]
    pub no_network: Option<bool>,
    /// Ask before commands (shell), or also before writes, edits and child conversations (ask) [default: none]
    #[arg(long, value_name = "WHAT", value_parser = Approve::parse, help_heading = "Permissions",
        add = ArgValueCandidates::new(|| completion::words(Approve::ALL.map(Approve::name))))]
    pub approve: Option<Approve>,
    /// Do not refuse commands such as rm -rf /, rm -rf .git, mkfs, shutdown
    #[arg(long, help_heading = "Permissions")]
    pub dangerous: bool,
    /// Let the model use these tags only, as in read,edit,shell [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Permissions", add = ArgValueCandidates::new(|| completion::words(TAGS.iter().map(Tag::short_name))))]
    pub tags: Option<Vec<String>>,
    /// Use this look, with the settings that it brings: plain, nano, pair, run, or one of looks/ in the root [default: plain]
    #[arg(long, value_name = "NAME", hide = true, add = ArgValueCandidates::new(|| completion::words(BUILT_IN.map(|(name, _)| name))))]
    pub look: Option<String>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) model: ModelArgs,

    /// Archive the conversation and start a new one
    #[arg(long, hide = true, help_heading = "Conversation", display_order = LAST)]
    pub clear: bool,
    /// Do not ask the model to summarize a file and its commits; cached summaries are still used
    #[arg(long, help_heading = "Conversation", display_order = LAST + 1)]
    pub no_summaries: bool,
    /// Wait up to S seconds for a conversation that another run is using [default: 30]
    #[arg(long, value_name = "S", value_parser = parse_amount, help_heading = "Conversation",
        display_order = LAST + 2)]
    pub lock_timeout: Option<f64>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) limits: LimitArgs,
}

/// The limits of a run
#[derive(Debug, Clone, Default, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LimitArgs {
    /// Stop after N replies of the model [default: 200]
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    pub max_turns: Option<u64>,
    /// Stop after S seconds
    #[arg(long, value_name = "S", value_parser = parse_amount, help_heading = "Limits")]
    pub max_seconds: Option<f64>,
    /// Stop after N tokens, input and output together
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    pub max_tokens: Option<u64>,
    /// Stop after spending this many US dollars; needs a model whose price is known
    #[arg(long, value_name = "USD", value_parser = parse_amount, help_heading = "Limits")]
    pub max_cost: Option<f64>,
    /// Run at most N child conversations, or files, at the same time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64), help_heading = "Limits")]
    pub jobs: Option<u64>,
}

/// The conversation, and what happens to it besides a prompt
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Conversation")]
pub struct ConversationArgs {
    /// Use the conversation of this name instead of this shell's own [env: NAGENT_CONVERSATION]
    #[arg(long, short, value_name = "NAME", add = ArgValueCompleter::new(completion::conversations))]
    pub conversation: Option<String>,
    /// Start a new, temporary conversation (removed by nagent-conversations prune)
    #[arg(long, short, conflicts_with_all = ["conversation", "continue_", "file_edit", "clear"])]
    pub new: bool,
    /// Continue the conversation whose name starts with NAME; without NAME, the one last used in this folder
    #[arg(long = "continue", value_name = "NAME", num_args = 0..=1, add = ArgValueCompleter::new(completion::conversations), conflicts_with_all = ["conversation", "file_edit", "clear"])]
    pub continue_: Option<Option<String>>,
    /// Use the conversation of the shell with this process ID
    #[arg(long, value_name = "ID", value_parser = parse_count)]
    pub pid: Option<u64>,
    /// Use the conversation that belongs to this file, which it may write
    #[arg(long, value_name = "FILE", conflicts_with = "conversation")]
    pub file_edit: Option<PathBuf>,
    /// Save a copy of the conversation under this name
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "show_request")]
    pub save_conversation: Option<String>,
    /// Archive the conversation and continue from a copy of a saved one, given by name or path
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "show_request", add = ArgValueCompleter::new(completion::conversations))]
    pub load_conversation: Option<String>,
    /// Archive the conversation and continue from a copy of another one, given by name
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "show_request", add = ArgValueCompleter::new(completion::conversations))]
    pub branch_conversation: Option<String>,
    /// Make the conversation shorter: a checkpoint takes the place of its older turns, which are archived
    #[arg(long, hide = true, conflicts_with_all = ["show_request", "clear", "new", "edit_conversation"])]
    pub compact: bool,
    /// Let the model edit a copy of the conversation as the prompt says, then continue from that copy
    #[arg(
        long, hide = true,
        conflicts_with_all = ["clear", "save_conversation", "load_conversation", "branch_conversation", "read", "check",
            "show_request"])]
    pub edit_conversation: bool,

    /// Who starts this run
    #[arg(long, value_enum, default_value_t = Invocation::User, hide = true)]
    pub invocation: Invocation,
    /// The conversation that starts this run
    #[arg(long, value_name = "NAME", hide = true)]
    pub parent_conversation: Option<String>,
}

/// The caller that starts a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Invocation {
    /// A person or a script
    #[default]
    User,
    /// Another conversation
    Delegated,
}

/// A number of turns or tokens from a flag.
pub fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("give a whole number, as in 50".to_owned()),
    }
}

/// A size from a flag, in bytes: `1024`, `64K`, `256M`, `1G`.
pub fn parse_bytes(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let unit = text.chars().last().and_then(|last| "kmg".find(last.to_ascii_lowercase()));
    let digits = &text[..text.len() - usize::from(unit.is_some())];
    let factor = 1_u64 << unit.map_or(0, |at| 10 * (at + 1));
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    bytes
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| format!("give a number of bytes, at least {least}, as in 256M or 1G"))
}

/// The file that a tool works on, with a flag or without.
#[derive(Debug, Clone, Args)]
pub struct InputArgs {
    /// The file; - is stdin
    #[arg(value_name = "FILE", required_unless_present = "file", value_hint = ValueHint::FilePath)]
    path: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE", conflicts_with = "path", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
}

impl InputArgs {
    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.file.as_deref()).unwrap_or(Path::new(""))
    }
}

/// A header from a flag.
fn parse_header(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let (name, value) = parts
        .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
        .ok_or_else(|| "give a name and a value, as in \"x-team: search\"".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_temperature(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=2.0).contains(value));
    value.ok_or_else(|| "give a number from 0 to 2".to_owned())
}

/// A limit of time from a flag, in seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 1e6);
    seconds.ok_or_else(|| "give a number of seconds above 0".to_owned())
}

/// A number of seconds or dollars from a flag.
pub(crate) fn parse_amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("give a number, 0 or more".to_owned()),
    }
}

impl RunArgs {
    /// Takes a word after --continue that cannot be a name for the beginning of the prompt.
    pub fn take_prompt(&mut self, continued: &mut Option<Option<String>>) {
        if let Some(word) = continued
            && word.as_deref().is_some_and(|word| check_name(word).is_err())
        {
            self.prompt.splice(0..0, word.take());
        }
    }

    /// Replaces `-w` with `--write .`. It takes no folder but `.`, so a prompt that begins with another one is refused, or
    /// with a word that may be meant as one: `-w scr "fix the typos"`.
    pub fn allow_working_folder(&mut self) -> Result<(), Problem> {
        if !std::mem::take(&mut self.write_here) {
            return Ok(());
        }
        self.write.push(PathBuf::from("."));
        match self.prompt.as_slice() {
            [folder, ..] if folder == "." => drop(self.prompt.remove(0)),
            [folder, rest @ ..]
                if !rest.is_empty() && Path::new(folder).is_dir()
                    || matches!(rest, [rest] if rest.contains(' ') && !folder.contains(' ')) =>
            {
                return Err(Problem::usage(format!(
                    "-w allows this folder and takes no other: --write {folder} allows {folder}; put a prompt that begins so in quotes"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    /// The flags that were given and their values, by their names: all but the prompt and how the answer is printed.
    pub(crate) fn given(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut given)) = serde_json::to_value(self) else { return Map::new() };
        given.retain(|_, value| !value.is_null() && *value != false && *value != json!([]));
        given
    }

    /// Writes these flags as words for another nagent. Each is one word, since values may begin with a dash.
    pub fn words(&self) -> Vec<OsString> {
        let word = |name: &str, value: &Value| match value {
            Value::Bool(_) => format!("--{name}").into(),
            Value::String(text) => flag_word(name, text),
            // Bytes, as `as_bytes` writes them.
            Value::Array(bytes) => {
                let bytes = bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
                flag_word(name, OsString::from_vec(bytes.collect()))
            }
            value => flag_word(name, value.to_string()),
        };
        let given = self.given();
        let words = given.iter().flat_map(|(name, value)| match value.as_array() {
            Some(values) if !values[0].is_u64() => values.iter().map(|it| word(name, it)).collect(),
            _ => vec![word(name, value)],
        });
        words.collect()
    }
}

/// Writes paths as they are, where they are not UTF-8 too.
fn as_bytes<'a, S: Serializer, P>(paths: &'a P, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a P: IntoIterator<Item = &'a PathBuf>,
{
    let value = |path: &PathBuf| match path.to_str() {
        Some(text) => json!(text),
        None => json!(path.as_os_str().as_bytes()),
    };
    serializer.collect_seq(paths.into_iter().map(value))
}

/// Writes headers as their flags give them.
fn as_lines<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(headers.iter().map(|(name, value)| format!("{name}: {value}")))
}

/// Writes a flag that has `=true` and `=false`.
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn as_word<S: Serializer>(value: &Option<bool>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|value| value.to_string()).serialize(serializer)
}
