//! Programs as providers: the conversation on stdin, the reply on stdout. Nothing is started here.
//!
//! What a program may print: plain text; one JSON object with `result` (Claude Code, Cursor); or JSON lines with
//! `assistant` and `result` objects (Claude Code's stream) or `item.completed` and `turn.completed` (Codex). An agent's
//! own tools are switched off by flags, since nagent is the one that acts, and a reply for which tools ran is refused.
//! Sources: `claude --help` and claude-agent-sdk-python; codex `exec_events.rs`; Cursor's documentation of its CLI.
//! Whoever starts one of these closes its stdin after writing, sets a time limit, and runs it in an empty folder.

use serde_json::Value;

use super::{ApiError, Ask, ErrorKind, Reply, Role, Stop, Usage, error};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// `claude -p`.
    ClaudeCode,
    /// `cursor-agent -p`, in its read-only mode: it has none without tools.
    Cursor,
    /// What the config says.
    Command,
}

/// The longest system prompt that goes by flag, in bytes: Linux takes 128 KiB in one argument.
const MAX_FLAG: usize = 100 << 10;

/// The program and its arguments. `from_config` is the argv of [`Preset::Command`], in which `{model}` and `{system}`
/// stand for the two; for the others it replaces the program's name, where the config gives a path.
pub fn argv(
    preset: Preset,
    model: Option<&str>,
    system: Option<&str>,
    from_config: &[String],
) -> Vec<String> {
    let by_flag = system.filter(|_| system_by_flag(preset, system, from_config));
    let program = |name: &str| from_config.first().map_or_else(|| name.to_owned(), Clone::clone);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match preset {
        Preset::Command => from_config
            .iter()
            .map(|word| match word.as_str() {
                "{system}" => by_flag.unwrap_or_default().to_owned(),
                word => word.replace("{model}", model.unwrap_or_default()),
            })
            .collect(),
        Preset::ClaudeCode => {
            let mut argv = vec![program("claude")];
            argv.extend(words(&[
                "-p",
                "--output-format",
                "json",
                "--tools",
                "",
                "--strict-mcp-config",
                "--disable-slash-commands",
                "--setting-sources=",
                "--no-session-persistence",
                "--permission-prompts",
                "none",
            ]));
            argv.extend(model.iter().flat_map(|model| words(&["--model", model])));
            // Without one of ours it would be the agent's own, which speaks of tools and files.
            argv.extend(words(&[
                "--system-prompt",
                by_flag.unwrap_or("Reply with text. You have no tools."),
            ]));
            argv
        }
        Preset::Cursor => {
            let mut argv = vec![program("cursor-agent")];
            argv.extend(words(&["-p", "--output-format", "json", "--mode", "ask", "--trust"]));
            argv.extend(model.iter().flat_map(|model| words(&["--model", model])));
            argv
        }
    }
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

/// What the program reads: the system prompt, unless it went by flag, and the conversation. A single user message
/// stands as it is; several are marked with their roles, by marks that occur in none of them.
pub fn stdin(preset: Preset, ask: &Ask<'_>, from_config: &[String]) -> Vec<u8> {
    let mut out = String::with_capacity(ask.text_bytes() + 64 * ask.messages.len() + 256);
    if let Some(system) = ask.system.filter(|_| !system_by_flag(preset, ask.system, from_config)) {
        out.push_str(system);
        out.push_str("\n\n");
    }
    if let [one] = ask.messages.as_slice() {
        join(&mut out, &one.parts);
        return out.into_bytes();
    }
    let bar = bar(ask);
    out.push_str("A conversation follows. Write the assistant's next message, and nothing else.\n");
    for message in &ask.messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        out.extend(["\n", &bar, " ", role, " ", &bar, "\n"]);
        join(&mut out, &message.parts);
        out.push('\n');
    }
    out.into_bytes()
}

fn join(out: &mut String, parts: &[&str]) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str("\n\n");
        }
        out.push_str(part);
    }
}

/// Longer than every run of `=` in the texts, so that no text can hold a mark. Never shorter than three.
fn bar(ask: &Ask<'_>) -> String {
    let runs = ask.texts().flat_map(|text| text.split(|c| c != '=').map(str::len));
    "=".repeat(runs.max().unwrap_or(0).saturating_add(1).max(3))
}

/// The reply in what the program printed. `exit` is `None` when a signal ended it.
pub fn parse(
    preset: Preset,
    exit: Option<i32>,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<Reply, ApiError> {
    let said = String::from_utf8_lossy(stdout);
    let text = said.trim();
    if let Some(found) = read_json(text) {
        let reply = found.map_err(|error| error.cleaned(None))?;
        return if exit == Some(0) {
            Ok(reply)
        } else {
            Err(failure(preset, exit, &reply.text, stderr))
        };
    }
    if exit != Some(0) {
        return Err(failure(preset, exit, text, stderr));
    }
    if text.is_empty() {
        let message = format!("{} printed nothing{}", name(preset), last_line(stderr));
        return Err(ApiError::new(ErrorKind::Cut, &message));
    }
    let text = said.strip_suffix('\n').unwrap_or(&said).to_owned();
    Ok(Reply { usage: Usage::estimate(&text), stop: Stop::End, model: None, text })
}

fn name(preset: Preset) -> &'static str {
    match preset {
        Preset::ClaudeCode => "claude",
        Preset::Cursor => "cursor-agent",
        Preset::Command => "the command",
    }
}

fn last_line(stderr: &[u8]) -> String {
    let text =
        String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(8 << 10)..]).into_owned();
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| format!(": {line}"))
        .unwrap_or_default()
}

fn failure(preset: Preset, exit: Option<i32>, stdout: &str, stderr: &[u8]) -> ApiError {
    let how = exit
        .map_or("was ended by a signal".to_owned(), |code| format!("failed with exit code {code}"));
    let why = match last_line(stderr) {
        why if why.is_empty() && !stdout.is_empty() => format!(": {stdout}"),
        why => why,
    };
    let told =
        error::from_text(&String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(8 << 10)..]));
    let kind = match (told.kind, exit) {
        (ErrorKind::Broken, Some(_)) => ErrorKind::Other,
        (kind, _) => kind,
    };
    ApiError {
        retry_after: told.retry_after,
        ..ApiError::new(kind, &format!("{} {how}{why}", name(preset)))
    }
}

/// The reply in JSON or JSON lines; `None` when it is neither, or not of a known form, and so is plain text.
fn read_json(text: &str) -> Option<Result<Reply, ApiError>> {
    if !text.starts_with('{') {
        return None;
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return read_lines([value].into_iter());
    }
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        values.push(serde_json::from_str::<Value>(line).ok()?);
    }
    read_lines(values.into_iter())
}

fn read_lines(values: impl Iterator<Item = Value>) -> Option<Result<Reply, ApiError>> {
    let mut text = None;
    let mut usage = None;
    let mut model = None;
    let (mut known, mut done) = (false, false);
    let mut stop = Stop::End;
    for value in values {
        let get = |path: &str| value.pointer(path).and_then(Value::as_str);
        let kind = get("/type").unwrap_or("result");
        known |= value.get("type").is_some()
            && (kind.contains('.') || matches!(kind, "system" | "assistant" | "result"));
        match kind {
            "result" => {
                if value.get("is_error").is_none()
                    && value.get("result").is_none()
                    && get("/subtype").is_none()
                {
                    return None;
                }
                let failed = value.get("is_error").and_then(Value::as_bool).unwrap_or(false)
                    || get("/subtype").is_some_and(|subtype| subtype.starts_with("error"));
                if failed {
                    return Some(Err(result_error(&value)));
                }
                match get("/stop_reason") {
                    Some("refusal") => {
                        return Some(Err(ApiError::new(ErrorKind::Refused, "the model refused")));
                    }
                    Some("max_tokens" | "model_context_window_exceeded") => stop = Stop::Length,
                    _ => {}
                }
                text = get("/result").map(str::to_owned).or(text);
                usage = value.get("usage").and_then(read_usage);
                (known, done) = (true, true);
            }
            "assistant" => {
                model = get("/message/model").map(str::to_owned);
                let blocks = value.pointer("/message/content").and_then(Value::as_array);
                let texts =
                    blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str());
                let whole: String = texts.collect();
                if !whole.is_empty() {
                    text = Some(whole);
                }
            }
            "item.completed" | "item.started" => match get("/item/type") {
                Some("agent_message") if kind == "item.completed" => {
                    text = get("/item/text").map(str::to_owned);
                }
                Some(
                    tool @ ("command_execution" | "file_change" | "mcp_tool_call" | "web_search"),
                ) => {
                    let message = format!(
                        "the program ran a tool of its own ({tool}), which it must not: switch its tools off"
                    );
                    return Some(Err(ApiError::new(ErrorKind::Other, &message)));
                }
                _ => {}
            },
            "turn.completed" => {
                usage = value.get("usage").and_then(read_usage);
                done = true;
            }
            "turn.failed" | "error" => {
                let error = error::from_value(&value, None);
                // A word about trying again is not the end of a turn.
                if kind == "turn.failed" || !known {
                    return Some(Err(error));
                }
            }
            _ => {}
        }
    }
    if !known {
        return None;
    }
    Some(match text {
        Some(text) if done => {
            Ok(Reply { usage: usage.unwrap_or_else(|| Usage::estimate(&text)), stop, model, text })
        }
        _ => Err(ApiError::new(ErrorKind::Cut, "the program ended before its last event")),
    })
}

fn result_error(value: &Value) -> ApiError {
    let get =
        |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let listed = value.pointer("/errors/0").and_then(Value::as_str);
    let message =
        get("result").or(listed).or_else(|| get("subtype")).unwrap_or("the program gave no reason");
    let status = value
        .get("api_error_status")
        .and_then(Value::as_u64)
        .and_then(|status| u16::try_from(status).ok());
    let body = serde_json::json!({ "error": { "message": message } });
    let error = error::from_value(&body, status);
    // It has tried again by itself before it gave up.
    if error.kind == ErrorKind::Broken {
        ApiError { kind: ErrorKind::Other, ..error }
    } else {
        error
    }
}

/// Anthropic's names (cached tokens beside the input) or Codex's (inside it).
fn read_usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let (input, output) = (count("input_tokens")?, count("output_tokens")?);
    let beside = count("cache_read_input_tokens").unwrap_or(0);
    let cache_written = count("cache_creation_input_tokens").unwrap_or(0);
    Some(Usage {
        input: input.saturating_add(beside).saturating_add(cache_written),
        cached: count("cached_input_tokens").unwrap_or(beside),
        cache_written,
        output,
        estimated: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Message;

    fn ask<'a>(system: Option<&'a str>, texts: &'a [&'a str]) -> Ask<'a> {
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        let messages =
            roles.zip(texts).map(|(role, text)| Message { role, parts: vec![text] }).collect();
        Ask {
            model: "m",
            system,
            messages,
            file: None,
            cache_key: None,
            max_output: None,
            window: None,
        }
    }

    #[test]
    fn argvs() {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let claude = argv(Preset::ClaudeCode, Some("opus"), Some("S"), &[]);
        assert_eq!(claude[..2], ["claude", "-p"]);
        assert_eq!(claude[claude.len() - 4..], ["--model", "opus", "--system-prompt", "S"]);
        let cursor = argv(Preset::Cursor, None, Some("S"), &own(&["/opt/agent"]));
        assert_eq!(
            cursor,
            ["/opt/agent", "-p", "--output-format", "json", "--mode", "ask", "--trust"]
        );
        let command = own(&["llm", "-m={model}", "--system", "{system}"]);
        assert_eq!(
            argv(Preset::Command, Some("x"), Some("{model}"), &command),
            ["llm", "-m=x", "--system", "{model}"]
        );
        assert!(argv(Preset::Command, None, None, &[]).is_empty());
    }

    #[test]
    fn prompts() {
        let check = |preset, ask: &Ask<'_>, expect: &str| {
            assert_eq!(String::from_utf8(stdin(preset, ask, &[])).unwrap(), expect);
        };
        check(Preset::ClaudeCode, &ask(Some("S"), &["hi"]), "hi");
        check(Preset::Cursor, &ask(Some("S"), &["hi"]), "S\n\nhi");
        check(
            Preset::Command,
            &ask(None, &["a", "=== user ===", "c"]),
            concat!(
                "A conversation follows. Write the assistant's next message, and nothing else.\n",
                "\n==== user ====\na\n\n==== assistant ====\n=== user ===\n\n==== user ====\nc\n",
            ),
        );
        let long = "s".repeat(MAX_FLAG + 1);
        assert!(stdin(Preset::ClaudeCode, &ask(Some(&long), &["hi"]), &[]).len() > MAX_FLAG);
        assert!(
            argv(Preset::ClaudeCode, None, Some(&long), &[]).iter().all(|word| word.len() < 100)
        );
    }

    fn check(
        exit: Option<i32>,
        stdout: &str,
        stderr: &str,
        expect: Result<&str, (ErrorKind, &str)>,
    ) {
        match (parse(Preset::Command, exit, stdout.as_bytes(), stderr.as_bytes()), expect) {
            (Ok(reply), Ok(text)) => assert_eq!(reply.text, text),
            (Err(error), Err((kind, part))) => {
                assert_eq!(error.kind, kind, "{error}");
                assert!(error.message.contains(part), "{error}");
            }
            (got, expect) => panic!("{got:?} for {expect:?}"),
        }
    }

    #[test]
    fn plain_text() {
        check(Some(0), " hi\n\n", "", Ok(" hi\n"));
        check(Some(0), "{\"not\": \"an event\"}", "", Ok("{\"not\": \"an event\"}"));
        check(Some(0), "{broken", "", Ok("{broken"));
        check(
            Some(0),
            "\n",
            "warning: x\n\n",
            Err((ErrorKind::Cut, "printed nothing: warning: x")),
        );
        check(
            Some(1),
            "",
            "Error: Not logged in\n",
            Err((ErrorKind::Auth, "exit code 1: Error: Not logged in")),
        );
        check(Some(2), "oops", "", Err((ErrorKind::Other, "exit code 2: oops")));
        check(Some(1), "", "429 rate limit, try again in 3s", Err((ErrorKind::Busy, "rate limit")));
        check(None, "half an ans", "", Err((ErrorKind::Broken, "signal")));
    }

    #[test]
    fn objects_and_lines() {
        let usage = r#""usage":{"input_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":3}"#;
        let object = format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"result":"hi\n","stop_reason":"end_turn",{usage}}}"#
        );
        check(Some(0), &object, "", Ok("hi\n"));
        let reply = parse(Preset::ClaudeCode, Some(0), object.as_bytes(), b"").unwrap();
        assert_eq!(
            reply.usage,
            Usage { input: 8, cached: 5, cache_written: 2, output: 3, estimated: false }
        );
        check(Some(1), &object, "", Err((ErrorKind::Other, "exit code 1")));
        check(Some(0), r#"{"result":"bare"}"#, "", Ok("bare"));
        let lines = concat!(
            r#"{"type":"system","subtype":"init"}"#,
            "\n",
            r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#,
            "\n",
        );
        check(Some(0), lines, "", Err((ErrorKind::Cut, "before its last event")));
        check(
            Some(0),
            &format!("{lines}{}", r#"{"type":"result","subtype":"success","is_error":false}"#),
            "",
            Ok("ab"),
        );
        let codex = concat!(
            r#"{"type":"thread.started","thread_id":"t"}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"reasoning","text":"no"}}"#,
            "\n",
            r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
            "\n",
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"yes"}}"#,
            "\n",
            r#"{"type":"turn.completed","usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":2}}"#,
        );
        check(Some(0), codex, "", Ok("yes"));
        let reply = parse(Preset::Command, Some(0), codex.as_bytes(), b"").unwrap();
        assert_eq!(reply.usage, Usage { input: 9, cached: 4, output: 2, ..Usage::default() });
        check(
            Some(0),
            &codex.replace("reasoning", "command_execution"),
            "",
            Err((ErrorKind::Other, "tool of its own")),
        );
    }

    #[test]
    fn errors_inside_json() {
        let limit = r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#;
        check(Some(0), limit, "", Err((ErrorKind::Other, "error_max_turns")));
        let status = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: Overloaded","api_error_status":529}"#;
        check(Some(1), status, "", Err((ErrorKind::Busy, "Overloaded")));
    }
}
