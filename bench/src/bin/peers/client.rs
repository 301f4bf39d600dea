//! The programs: how each is set up for the scripted model and called, and what the model says so that it runs `true`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::server::{render, wrap};

/// A program.
pub(crate) struct Client {
    /// Its name, and that of its executable.
    pub(crate) name: &'static str,
    /// Writes its settings below its home, for the server at this port.
    pub(crate) set_up: fn(&Path, u16) -> std::io::Result<()>,
    /// Its arguments for one prompt. `{port}` and `{run}`, a name for each run, are replaced.
    args: &'static [&'static str],
    /// The variables that say where its settings are: below its home.
    homes: &'static [(&'static str, &'static str)],
    /// The reply that makes it run `true`; none: it does not loop.
    pub(crate) turn: Option<fn() -> Vec<u8>>,
    /// The reply that ends it.
    answer: fn() -> Vec<u8>,
}

pub(crate) const CLIENTS: [Client; 6] = [
    Client {
        name: "nagent",
        set_up: set_up_nagent,
        args: &["--conversation", "{run}", "--max-turns", "1000", "go on"],
        homes: &[],
        turn: Some(|| render("<nagent-shell>true</nagent-shell>", 3)),
        answer: || render("<nagent-response>done</nagent-response>", 1),
    },
    Client {
        name: "curl",
        set_up: |home, _| std::fs::write(home.join("body.json"), CURL_BODY),
        args: &[
            "-sSN",
            "-o",
            "/dev/null",
            "-H",
            "content-type: application/json",
            "--data-binary",
            "@../body.json",
            "http://127.0.0.1:{port}/v1/chat/completions",
        ],
        homes: &[],
        turn: None,
        answer: || render("done", 1),
    },
    Client {
        name: "aichat",
        set_up: set_up_aichat,
        args: &["go on"],
        homes: &[("AICHAT_CONFIG_DIR", "config"), ("AICHAT_FUNCTIONS_DIR", "functions")],
        turn: Some(|| call_in_chat("run", "{\"command\":\"true\"}")),
        answer: || render("done", 1),
    },
    Client {
        name: "llm",
        set_up: set_up_llm,
        args: &["-m", "bench", "--functions", "../tool.py", "--chain-limit", "0", "go on"],
        homes: &[("LLM_USER_PATH", "config")],
        turn: Some(|| call_in_chat("run", "{\"command\":\"true\"}")),
        answer: || render("done", 1),
    },
    Client {
        name: "codex",
        set_up: set_up_codex,
        args: &[
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "go on",
        ],
        homes: &[("CODEX_HOME", "config")],
        turn: Some(|| {
            respond(
                "{\"type\":\"function_call\",\"id\":\"f\",\"call_id\":\"c\",\"name\":\"exec_command\",\"arguments\":\"{\\\"cmd\\\":\\\"true\\\"}\"}",
            )
        }),
        answer: || {
            respond(
                "{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"done\",\"annotations\":[]}]}",
            )
        },
    },
    Client {
        name: "pi",
        set_up: set_up_pi,
        args: &["-p", "--provider", "bench", "--model", "bench", "--no-session", "go on"],
        homes: &[("PI_CODING_AGENT_DIR", "config")],
        turn: Some(|| call_in_chat("bash", "{\"command\":\"true\"}")),
        answer: || render("done", 1),
    },
];

const CURL_BODY: &str = "{\"model\":\"bench\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}]}";

impl Client {
    /// The replies of a run: as many commands as turns, then an answer.
    pub(crate) fn script(&self, turns: usize) -> Arc<Vec<Vec<u8>>> {
        let mut replies = vec![self.turn.map_or_else(Vec::new, |turn| turn()); turns];
        replies.push((self.answer)());
        Arc::new(replies)
    }

    /// What it says of its version, if it is installed.
    pub(crate) fn version(&self, nagent: &Path, home: &Path) -> Option<String> {
        let output = self.start(nagent, home).arg("--version").stdin(Stdio::null()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        Some(text.split_whitespace().find(is_version).unwrap_or_default().to_owned())
    }

    /// The command of a run.
    pub(crate) fn command(&self, nagent: &Path, home: &Path, port: u16, run: &str) -> Command {
        let mut command = self.start(nagent, home);
        let replace = |word: &&str| word.replace("{port}", &port.to_string()).replace("{run}", run);
        command.args(self.args.iter().map(replace));
        command
    }

    fn start(&self, nagent: &Path, home: &Path) -> Command {
        let program = if self.name == "nagent" { nagent } else { Path::new(self.name) };
        let mut command = Command::new(program);
        command.env_clear().current_dir(home.join("work")).env("HOME", home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("OPENAI_API_KEY", "bench").env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
        command.envs(self.homes.iter().map(|(name, folder)| (name, home.join(folder))));
        command
    }
}

/// Writes a file below a home.
fn write(home: &Path, path: &str, text: &str) -> std::io::Result<()> {
    let path = home.join(path);
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, text)
}

fn set_up_nagent(home: &Path, port: u16) -> std::io::Result<()> {
    let config = format!(
        "{{\"provider\":\"openai\",\"model\":\"bench\",\"context_window_tokens\":100000000,\"base_url\":\"http://127.0.0.1:{port}/v1\"}}"
    );
    write(home, ".nagent/config.json", &config)
}

fn set_up_aichat(home: &Path, port: u16) -> std::io::Result<()> {
    let config = format!(
        "model: bench:bench\nfunction_calling: true\nuse_tools: all\nclients:\n- type: openai-compatible\n  name: bench\n  \
         api_base: http://127.0.0.1:{port}/v1\n  api_key: bench\n  models:\n  - name: bench\n    supports_function_calling: true\n"
    );
    write(home, "config/config.yaml", &config)?;
    let tool = "[{\"name\":\"run\",\"description\":\"Runs a command\",\"parameters\":{\"type\":\"object\",\"properties\":\
        {\"command\":{\"type\":\"string\"}},\"required\":[\"command\"]}}]";
    write(home, "functions/functions.json", tool)?;
    // Without an output it would not ask again.
    let program = "#!/bin/sh\ntrue\necho '\"ok\"' > \"$LLM_OUTPUT\"\n";
    write(home, "functions/bin/run", program)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.join("functions/bin/run"), mode)
}

fn set_up_llm(home: &Path, port: u16) -> std::io::Result<()> {
    let tool = "import subprocess\n\n\ndef run(command: str) -> str:\n    \"Run a command\"\n    \
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout\n";
    write(home, "tool.py", tool)?;
    let models = format!(
        "- model_id: bench\n  model_name: bench\n  api_base: http://127.0.0.1:{port}/v1\n  supports_tools: true\n"
    );
    write(home, "config/extra-openai-models.yaml", &models)
}

fn set_up_codex(home: &Path, port: u16) -> std::io::Result<()> {
    let config = format!(
        "model = \"bench\"\nmodel_provider = \"bench\"\n[model_providers.bench]\nname = \"bench\"\n\
         base_url = \"http://127.0.0.1:{port}/v1\"\nwire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
    );
    write(home, "config/config.toml", &config)
}

fn set_up_pi(home: &Path, port: u16) -> std::io::Result<()> {
    let models = format!(
        "{{\"providers\":{{\"bench\":{{\"baseUrl\":\"http://127.0.0.1:{port}/v1\",\"apiKey\":\"OPENAI_API_KEY\",\
         \"api\":\"openai-completions\",\"models\":[{{\"id\":\"bench\"}}]}}}}}}"
    );
    write(home, "config/models.json", &models)
}

/// A reply of Chat Completions that calls a tool.
fn call_in_chat(name: &str, arguments: &str) -> Vec<u8> {
    let chunk = |choice: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench\",\"choices\":[{choice}]}}\n\n"
        )
    };
    let arguments = arguments.replace('"', "\\\"");
    let call = format!(
        "{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"index\":0,\"id\":\"call\",\"type\":\"function\",\
         \"function\":{{\"name\":\"{name}\",\"arguments\":\"{arguments}\"}}}}]}},\"finish_reason\":null}}"
    );
    let end = "{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}";
    wrap(&[chunk(&call), chunk(end), "data: [DONE]\n\n".to_owned()])
}

/// A reply of the Responses API with one item.
fn respond(item: &str) -> Vec<u8> {
    let event = |kind: &str, members: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{members}}}\n\n")
    };
    let usage = "{\"input_tokens\":1000,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":10,\
        \"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":1010}";
    wrap(&[
        event("response.created", "\"response\":{\"id\":\"r\"}"),
        event("response.output_item.done", &format!("\"output_index\":0,\"item\":{item}")),
        event(
            "response.completed",
            &format!(
                "\"response\":{{\"id\":\"r\",\"status\":\"completed\",\"output\":[{item}],\"usage\":{usage}}}"
            ),
        ),
    ])
}
