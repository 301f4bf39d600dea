//! Programs as providers: the conversation on stdin, the reply on stdout. Nothing is started here.
//!
//! A program may print plain text; one JSON object with `result` (Claude Code, Cursor); or JSON lines with `assistant` and
//! `result` objects (Claude Code's stream). An agent's own tools are switched off by flags, since nagent acts.
//! Sources: `claude --help` and claude-agent-sdk-python; Cursor's documentation of its CLI.
//! Whoever starts one of these closes its stdin after writing, sets a time limit, and runs it in an empty folder.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::format::hex::hex;

use super::{ApiError, ChatRequest, ErrorKind, Reply, StopReason, Usage, error};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// `claude -p`.
    ClaudeCode,
    /// `cursor-agent -p`, in its read-only mode: it has none without tools.
    Cursor,
    /// The program in the config.
    Command,
}

/// Maximum size of a system prompt that is passed as a flag, in bytes: Linux allows 128 KiB in one argument.
const MAX_FLAG: usize = 100 << 10;

/// The first words of `claude`. Between two blanks is an empty one: no tools.
const CLAUDE_CODE: &str = "claude -p --output-format json --tools  --strict-mcp-config --disable-slash-commands \
    --setting-sources= --no-session-persistence --permission-prompts none";
const CURSOR: &str = "cursor-agent -p --output-format json --mode ask --trust";

/// The program and its arguments. `from_config` is the argv of [`Preset::Command`], where `{model}` and `{system}`
/// are replaced; for the others it replaces the program's name, where the config has a path.
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
        // Without a system prompt of ours it would use its own, which talks about tools and files.
        let system = by_flag.unwrap_or("Reply with text. You have no tools.");
        argv.extend(["--system-prompt", system]);
    }
    argv.into_iter().map(str::to_owned).collect()
}

fn system_by_flag(preset: Preset, system: Option<&str>, from_config: &[String]) -> bool {
    // No argument can hold a NUL.
    let fits = system.is_some_and(|system| system.len() <= MAX_FLAG && !system.contains('\0'));
    fits && match preset {
        Preset::ClaudeCode => true,
        Preset::Cursor => false,
        Preset::Command => from_config.iter().any(|word| word == "{system}"),
    }
}

/// What the program reads: the messages with their roles before them, in marks of their own. A single message that belongs to
/// no conversation is unchanged.
pub fn stdin(preset: Preset, ask: &ChatRequest<'_>, from_config: &[String]) -> Vec<u8> {
    let mut out = String::with_capacity(ask.text_bytes() + 64 * ask.messages.len() + 256);
    if let Some(system) = ask.system.filter(|_| !system_by_flag(preset, ask.system, from_config)) {
        out.push_str(system);
        out.push_str("\n\n");
    }
    if let ([one], None) = (ask.messages.as_slice(), ask.cache_key) {
        out.push_str(&one.parts.join("\n\n"));
        return out.into_bytes();
    }
    let marker = role_marker(ask);
    out.push_str("A conversation follows. Write the assistant's next message, and nothing else.\n");
    for message in &ask.messages {
        out.extend(["\n", &marker, " ", message.role.as_str(), " ", &marker, "\n"]);
        out.push_str(&message.parts.join("\n\n"));
        out.push('\n');
    }
    out.into_bytes()
}

/// A word from the hash of the conversation's first words, so that each request begins with the one before it. Where a text
/// contains it, another one.
fn role_marker(ask: &ChatRequest<'_>) -> String {
    let mut hash = Sha256::new();
    hash.update(ask.cache_key.unwrap_or_default());
    let first = ask.messages.first().and_then(|message| message.parts.first());
    hash.update(first.copied().unwrap_or_default());
    loop {
        let word = hex(&hash.finalize_reset())[..16].to_owned();
        if !ask.texts().any(|text| text.contains(&word)) {
            return format!("=== {word}");
        }
        hash.update(word);
    }
}

/// Reads the reply from what the program printed. `exit` is `None` when a signal ended it.
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
        let reply = found.map_err(|error| error.cleaned(None))?;
        // An agent that was cut off ends with an error.
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

/// Reads the reply from JSON or JSON lines; `None`: it is neither, or has no known form, and so is plain text.
fn read_json(text: &str) -> Option<Result<Reply, ApiError>> {
    if !text.starts_with('{') {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let values = values.collect::<Result<Vec<_>, _>>().ok()?;
    let mut output = ProgramOutput::default();
    for value in values {
        match output.read_event(&value) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
    }
    output.is_known.then(|| output.finish())
}

/// What the events of a program have said so far.
#[derive(Default)]
struct ProgramOutput {
    text: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    is_cut: bool,
    is_known: bool,
    is_done: bool,
}

impl ProgramOutput {
    /// Reads an event; `false`: the object is not one, and so the output is plain text.
    fn read_event(&mut self, event: &Value) -> Result<bool, ApiError> {
        let get = |path: &str| event.pointer(path).and_then(Value::as_str);
        let kind = get("/type").unwrap_or("result");
        self.is_known |=
            event.get("type").is_some() && matches!(kind, "system" | "assistant" | "result");
        match kind {
            "result" => return self.read_result(event),
            "assistant" => {
                self.model = get("/message/model").map(str::to_owned);
                let blocks = event["message"]["content"].as_array().into_iter().flatten();
                let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
                if !text.is_empty() {
                    self.text = Some(text);
                }
            }
            "error" if !self.is_known => return Err(error::from_value(event, None)),
            _ => {}
        }
        Ok(true)
    }

    fn read_result(&mut self, event: &Value) -> Result<bool, ApiError> {
        let subtype = event["subtype"].as_str();
        let is_too_long = |text: &str| text.contains("output token maximum");
        if event["is_error"] == true && event["result"].as_str().is_some_and(is_too_long) {
            // The text so far is not part of the error.
            self.usage = read_usage(&event["usage"]);
            self.text = Some(String::new());
            (self.is_cut, self.is_known, self.is_done) = (true, true, true);
            return Ok(true);
        }
        if event.get("is_error").is_none() && event.get("result").is_none() && subtype.is_none() {
            return Ok(false);
        }
        if event["is_error"] == true || subtype.is_some_and(|it| it.starts_with("error")) {
            return Err(result_error(event));
        }
        match event["stop_reason"].as_str() {
            Some("refusal") => {
                return Err(ApiError::new(ErrorKind::Refused, "the model refused"));
            }
            Some("max_tokens" | "model_context_window_exceeded") => self.is_cut = true,
            _ => {}
        }
        self.text = event["result"].as_str().map(str::to_owned).or(self.text.take());
        self.usage = read_usage(&event["usage"]);
        (self.is_known, self.is_done) = (true, true);
        Ok(true)
    }

    fn finish(self) -> Result<Reply, ApiError> {
        let Some(text) = self.text.filter(|_| self.is_done) else {
            return Err(ApiError::new(ErrorKind::Cut, "the program ended before its last event"));
        };
        let usage = self.usage.unwrap_or_else(|| Usage::estimate(&text));
        let stop = if self.is_cut { StopReason::Length } else { StopReason::End };
        Ok(Reply { usage, stop, model: self.model, text })
    }
}

fn result_error(value: &Value) -> ApiError {
    let get =
        |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let listed = value.pointer("/errors/0").and_then(Value::as_str);
    let message =
        get("result").or(listed).or_else(|| get("subtype")).unwrap_or("the program gave no reason");
    let status = value["api_error_status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let body = serde_json::json!({ "error": { "message": message } });
    let mut error = error::from_value(&body, status);
    // The program has retried by itself before it gave up.
    if error.kind == ErrorKind::Broken {
        error.kind = ErrorKind::Other;
    }
    error
}

/// Reads token counts; input tokens are those that were not cached.
fn read_usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let (input, output) = (count("input_tokens")?, count("output_tokens")?);
    let cached = count("cache_read_input_tokens").unwrap_or(0);
    let cache_written = count("cache_creation_input_tokens").unwrap_or(0);
    Some(Usage {
        input: input.saturating_add(cached).saturating_add(cache_written),
        cached,
        cache_written,
        output,
        reasoning: 0,
        estimated: false,
    })
}

#[cfg(test)]
mod tests;
