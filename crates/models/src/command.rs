//! Programs as providers: the conversation on stdin, the reply on stdout. This module starts no program.
//!
//! A program may print plain text, one JSON object with `result` (Claude Code, Cursor), or JSON lines that end in such
//! an object ([`output`]). Flags turn an agent's own tools off, since nagent performs the actions. What a program of the
//! user's gets is documented in docs/programs.md. Sources: `claude --help` and claude-agent-sdk-python; Cursor's documentation of
//! its CLI. The caller must close the program's stdin after writing, set a time limit, and run it in an empty folder.

use sha2::{Digest, Sha256};

use conversation::format::hex::encode_hex;

use self::output::read_json;
use super::attachment::Payload;
use super::{ChatRequest, Content, error};
use conversation::model::{ApiError, ErrorKind, Reply, StopReason, Usage};

mod output;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// `claude -p`.
    ClaudeCode,
    /// `cursor-agent -p`, in its read-only mode: it has no mode without tools.
    Cursor,
    /// The program set in the config.
    Command,
}

/// Maximum size of a system prompt that is passed as a flag, in bytes: Linux allows 128 KiB in one argument.
const MAX_FLAG: usize = 100 << 10;

/// The first words of `claude`. The two blanks in a row make an empty argument: no tools.
const CLAUDE_CODE: &str = "claude -p --output-format json --tools  --strict-mcp-config --disable-slash-commands \
    --setting-sources= --no-session-persistence --permission-prompts none";
const CURSOR: &str = "cursor-agent -p --output-format json --mode ask --trust";

/// The settings that turn Cursor's tools off: a path in the folder in which it runs, and the content. It has no flag
/// for that. Source: Cursor's documentation of its CLI, “Permissions”; denials here override what the user's own
/// settings allow.
pub const CURSOR_SETTINGS: (&str, &str) = (
    ".cursor/cli.json",
    r#"{"permissions": {"allow": [], "deny": ["Shell(**)", "Read(**)", "Read(/**)", "Write(**)", "Write(/**)", "WebFetch(*)", "Mcp(*:*)"]}}"#,
);

/// The program and its arguments. `from_config` is the argv of [`Preset::Command`], where `{model}` and `{system}` are
/// replaced; for the other presets it replaces the program's name, if the config has a path.
pub fn build_argv(
    preset: Preset,
    model: Option<&str>,
    system: Option<&str>,
    from_config: &[String],
) -> Vec<String> {
    let by_flag = system.filter(|_| system_by_flag(preset, system, from_config));
    let mut argv: Vec<&str> = from_config.iter().take(1).map(String::as_str).collect();
    match preset {
        Preset::Command => {
            let replace = |word: &String| match word.as_str() {
                "{system}" => by_flag.unwrap_or_default().to_owned(),
                word => word.replace("{model}", model.unwrap_or_default()),
            };
            return from_config.iter().map(replace).collect();
        }
        Preset::ClaudeCode => argv.extend(CLAUDE_CODE.split(' ').skip(argv.len())),
        Preset::Cursor => argv.extend(CURSOR.split(' ').skip(argv.len())),
    }
    argv.extend(model.iter().flat_map(|model| ["--model", model]));
    if preset == Preset::ClaudeCode {
        // Without a system prompt of ours, it would use its own, which talks about tools and files.
        let system = by_flag.unwrap_or("Reply with text. You have no tools.");
        argv.extend(["--system-prompt", system]);
    }
    argv.into_iter().map(str::to_owned).collect()
}

fn system_by_flag(preset: Preset, system: Option<&str>, from_config: &[String]) -> bool {
    // An argument cannot contain NUL.
    let fits = system.is_some_and(|system| system.len() <= MAX_FLAG && !system.contains('\0'));
    fits && match preset {
        Preset::ClaudeCode => true,
        Preset::Cursor => false,
        Preset::Command => from_config.iter().any(|word| word == "{system}"),
    }
}

/// The input of the program: the messages, each after its role in special marks, and the paths of files, which are marked
/// like that, too. A single message that belongs to no conversation is unchanged.
pub fn stdin(preset: Preset, ask: &ChatRequest<'_>, from_config: &[String]) -> Vec<u8> {
    let mut out = String::with_capacity(ask.text_bytes() + 64 * ask.messages.len() + 256);
    if let Some(system) = ask.system.filter(|_| !system_by_flag(preset, ask.system, from_config)) {
        out.push_str(system);
        out.push_str("\n\n");
    }
    if let ([one], None, []) = (ask.messages.as_slice(), ask.cache_key, ask.files.as_slice()) {
        out.push_str(&one.parts.join("\n\n"));
        return out.into_bytes();
    }
    let marker = role_marker(ask);
    out.push_str("A conversation follows. Write the assistant's next message, and nothing else.\n");
    for (role, contents) in ask.contents() {
        out.extend(["\n", &marker, " ", role.as_str(), " ", &marker, "\n"]);
        let texts = contents.iter().map(|content| match content {
            Content::Text(text) => (*text).to_owned(),
            Content::File(file) => format!("{marker} file {marker}\n{}", path_of(&file.payload)),
        });
        out.push_str(&texts.collect::<Vec<_>>().join("\n\n"));
        out.push('\n');
    }
    out.into_bytes()
}

fn path_of(payload: &Payload) -> String {
    match payload {
        Payload::Path(path) => path.display().to_string(),
        _ => String::new(),
    }
}

/// A word from the hash of the conversation's first words, so that each request begins with the previous one; another
/// word if a text contains it.
fn role_marker(ask: &ChatRequest<'_>) -> String {
    let mut hash = Sha256::new();
    hash.update(ask.cache_key.unwrap_or_default());
    let first = ask.messages.first().and_then(|message| message.parts.first());
    hash.update(first.copied().unwrap_or_default());
    loop {
        let word = encode_hex(&hash.finalize_reset())[..16].to_owned();
        if !ask.texts().any(|text| text.contains(&word)) {
            return format!("=== {word}");
        }
        hash.update(word);
    }
}

/// Reads the reply from the program's output. `exit` is `None` if a signal ended it.
pub fn parse(
    preset: Preset,
    exit: Option<i32>,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<Reply, ApiError> {
    let output = String::from_utf8_lossy(stdout);
    let text = output.trim();
    let stderr = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(8 << 10)..]);
    if let Some(found) = read_json(text) {
        let reply = found.map_err(|error| error.with_clean_message(None))?;
        // An agent that was cut off exits with an error.
        return if exit == Some(0) || reply.stop == StopReason::Length {
            Ok(reply)
        } else {
            Err(failure(preset, exit, &reply.text, &stderr))
        };
    }
    if exit != Some(0) {
        return Err(failure(preset, exit, text, &stderr));
    }
    if text.is_empty() {
        let message = format!("{} printed nothing{}", program_name(preset), last_line(&stderr));
        return Err(ApiError::new(ErrorKind::Cut, &message));
    }
    let text = output.strip_suffix('\n').unwrap_or(&output).to_owned();
    Ok(Reply { usage: Usage::estimate(&text), stop: StopReason::End, model: None, text })
}

fn program_name(preset: Preset) -> &'static str {
    match preset {
        Preset::ClaudeCode => "claude",
        Preset::Cursor => "cursor-agent",
        Preset::Command => "the command",
    }
}

fn last_line(stderr: &str) -> String {
    let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map(|line| format!(": {line}")).unwrap_or_default()
}

/// The error for a program that ended without a reply. `exit` is `None` if a signal ended it.
fn failure(preset: Preset, exit: Option<i32>, stdout: &str, stderr: &str) -> ApiError {
    let how = exit
        .map_or("was ended by a signal".to_owned(), |code| format!("failed with exit code {code}"));
    let why = match last_line(stderr) {
        why if why.is_empty() && !stdout.is_empty() => format!(": {stdout}"),
        why => why,
    };
    let reported = error::from_text(stderr);
    let kind = match (reported.kind, exit) {
        (ErrorKind::Broken, Some(_)) => ErrorKind::Other,
        (kind, _) => kind,
    };
    ApiError {
        retry_after: reported.retry_after,
        ..ApiError::new(kind, &format!("{} {how}{why}", program_name(preset)))
    }
}

#[cfg(test)]
mod tests;
