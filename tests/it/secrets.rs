//! No key anywhere: every tool and every kind of provider with a canary under each credential's variable, then a search
//! through every file, every output, every command line. A key is in its header and in no other place.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::answers::Answer;
use crate::fake_llm::FakeLlm;
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer, shell};

/// Variables that hold credentials of providers, and one that holds another's.
const VARIABLES: [&str; 8] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "CURSOR_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "DEPLOY_TOKEN",
    "DB_PASSWORD",
];

/// The providers that are servers: name, header of the key, the variable that it comes from.
const SERVERS: [(&str, &str, &str); 4] = [
    ("openai", "authorization", "OPENAI_API_KEY"),
    ("anthropic", "x-api-key", "ANTHROPIC_API_KEY"),
    ("google", "x-goog-api-key", "GOOGLE_API_KEY"),
    ("ollama", "", ""),
];

/// Each canary is of no known shape, and of this test alone: other tests run beside it.
fn canary(variable: &str) -> String {
    format!("canary7{}{}", variable.to_lowercase().replace('_', ""), std::process::id())
}

/// What all canaries begin with.
const MARK: &str = "canary7";

/// A world with all canaries, and what came of its runs.
struct World {
    sandbox: Sandbox,
    said: String,
}

impl World {
    fn new() -> Self {
        let mut sandbox = Sandbox::new().config(json!({}));
        for variable in VARIABLES {
            sandbox = sandbox.env(variable, canary(variable));
        }
        let origin = sandbox.llm.origin();
        for (variable, path) in [
            ("OPENAI_BASE_URL", "/v1"),
            ("ANTHROPIC_BASE_URL", ""),
            ("GOOGLE_BASE_URL", ""),
            ("OLLAMA_HOST", ""),
        ] {
            sandbox = sandbox.env(variable, format!("{origin}{path}"));
        }
        Self { sandbox, said: String::new() }
    }

    fn told(&mut self, run: &Run) {
        self.said.push_str(&format!("{}\n{}\n", run.stdout, run.stderr));
    }

    fn run(&mut self, program: &str, code: i32, args: &[&str]) {
        let run = self.sandbox.program(program, args).run().assert_exit(code);
        self.told(&run);
    }

    /// Searches everything.
    fn check(&self) {
        assert!(!self.said.contains(MARK), "{}", around(&self.said));
        let files = files(self.sandbox.base());
        assert!(files.len() > 5, "{files:?}");
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(MARK), "{}: {}", file.display(), around(&text));
        }
        for request in self.sandbox.llm.all_requests() {
            assert!(!request.text().contains(MARK) && !request.path.contains(MARK));
            for (name, value) in &request.headers {
                let own = SERVERS.iter().find(|(_, header, _)| header == name);
                let expect = own.map(|(.., variable)| canary(variable));
                let is_own = expect.is_some_and(|key| value.trim_start_matches("Bearer ") == key);
                assert!(is_own || !value.contains(MARK), "{name}: {value} to {}", request.path);
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match std::fs::symlink_metadata(&path).unwrap() {
            data if data.is_dir() => found.extend(files(&path)),
            data if data.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

fn around(text: &str) -> &str {
    let at = text.find(MARK).unwrap_or(0);
    let from = text.floor_char_boundary(at.saturating_sub(200));
    &text[from..text.floor_char_boundary(at + 100)]
}

const NAGENT: &str = crate::sandbox::NAGENT;
const LLM_TEXT: &str = crate::sandbox::LLM_TEXT;
const UPLOAD: &str = crate::sandbox::LLM_UPLOAD;
const FILE_EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
const SUMMARIZE: &str = env!("CARGO_BIN_EXE_nagent-file-summarize");

/// What a command sees of itself and of all processes, written past everything that masks.
const LOOK: &str = "env >\"$HOME/seen-env\"; cat /proc/[0-9]*/cmdline 2>/dev/null >>\"$HOME/seen-cmdlines\"; \
    tr '\\0' '\\n' </proc/self/environ >>\"$HOME/seen-env\"; set >>\"$HOME/seen-env\"";

#[test]
fn a_whole_run_with_every_tag_leaves_no_key_anywhere() {
    let mut world = World::new();
    let tmp = world.sandbox.tmp();
    let long: String = (0..5000).map(|n| format!("line {n} of a long file\n")).collect();
    std::fs::write(tmp.join("long.txt"), long).unwrap();
    world.sandbox.write("a.txt", "alpha\n");
    let tags = [
        shell(LOOK),
        "<nagent-read path=\"a.txt\"/><nagent-list path=\".\"/><nagent-glob pattern=\"*\"/>".to_owned(),
        "<nagent-grep pattern=\"alpha\"/><nagent-next>go on</nagent-next>".to_owned(),
        format!("<nagent-write path=\"{}/new.txt\">one\n</nagent-write>", tmp.display()),
        format!("<nagent-file-read path=\"{}/long.txt\"/>", tmp.display()),
        "<nagent-conversation>child work</nagent-conversation><nagent-conversation file=\"a.txt\">child work</nagent-conversation>".to_owned(),
        "<nagent-nonsense/>".to_owned(),
    ]
    .concat();
    let look = shell(LOOK);
    world.sandbox.llm.choose(move |request| {
        let user = request.user();
        if user.contains("child work") && !user.contains("</nagent-shell-result") {
            look.as_str().into()
        } else if user.contains("the main task")
            && !user.contains("</nagent-shell-result")
            && !user.contains("</system")
        {
            tags.as_str().into()
        } else if user.contains("the main task") && !user.contains("</nagent-shell-result") {
            tags.replace("<nagent-nonsense/>", "").into()
        } else {
            answer("done").into()
        }
    });
    let check = format!("{LOOK}; test -e ok || {{ touch ok; echo no; false; }}");
    world.run(
        NAGENT,
        0,
        &[
            "--provider",
            "openai",
            "--model",
            "test-model",
            "--record",
            "rec.jsonl",
            "--check",
            &check,
            "--json",
            "the main task",
        ],
    );
    let model = ["--provider", "openai", "--model", "test-model"];
    for args in [
        &["--status"][..],
        &["--status", "--json"],
        &["--show-request", "more"],
        &["--list-models"],
        &["--list-conversations"],
        &["--list-file-edits", "--json"],
        &["--list-providers"],
        &["--summarize"],
        &["--save-conversation", "kept"],
        &["--print-protocol"],
    ] {
        world.run(NAGENT, 0, &[&model, args].concat());
    }
    world.run(
        NAGENT,
        0,
        &["--provider", "replay", "--model", "rec.jsonl", "--check", "true", "the main task"],
    );
    world.run(FILE_EDIT, 0, &[&model[..], &["--file", "a.txt", "--json", "child work"]].concat());
    world.run(FILE_EDIT, 1, &["--file", "a.txt", "--history"]);
    world.check();
    let seen = std::fs::read_to_string(world.sandbox.home().join("seen-env")).unwrap();
    assert!(
        seen.contains("NAGENT_WITHHELD") && seen.contains("SANDBOX_MARK"),
        "it did look: {seen}"
    );
    let lines = std::fs::read(world.sandbox.home().join("seen-cmdlines")).unwrap();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    assert!(lines.contains("--invocation\0delegated") || lines.contains("--invocation=delegated"));
}

#[test]
fn the_other_tools_leave_no_key_anywhere() {
    let mut world = World::new();
    let text: String = (0..4000).map(|n| format!("line {n:05} of a file to sum up\n")).collect();
    world.sandbox.write("f.txt", &text);
    world.sandbox.write("a.png", crate::pictures::PNG);
    world.sandbox.write("q.txt", "What is it?");
    world.sandbox.llm.choose(|_| answer("a word").into());
    for (provider, ..) in SERVERS {
        let model = ["--provider", provider, "--model", "test-model"];
        world.run(NAGENT, 0, &[&model[..], &["task"]].concat());
        world.run(NAGENT, 0, &[&model[..], &["--list-models", "--json"]].concat());
        world.run(LLM_TEXT, 0, &[&model[..], &["--file", "q.txt", "--json"]].concat());
        world.run(
            UPLOAD,
            0,
            &[&model[..], &["--file", "a.png", "--prompt", "p", "--json"]].concat(),
        );
    }
    let model = ["--provider", "openai", "--model", "test-model"];
    world.run(SUMMARIZE, 0, &[&model[..], &["--file", "f.txt", "--json"]].concat());
    world.run(SPLIT, 0, &["--file", "f.txt", "--output", "split"]);
    world.run(PATCH, 0, &["--index", "split/index.json"]);
    world.check();
}

#[test]
fn a_server_that_echoes_the_key_gets_it_into_no_file_and_no_message() {
    let mut world = World::new();
    world.sandbox.write("q.txt", "What is it?");
    world.sandbox.write("a.png", crate::pictures::PNG);
    for (provider, header, _) in SERVERS.into_iter().take(3) {
        for status in [400, 401, 403, 404, 413, 429, 500, 302] {
            world.sandbox.llm.choose(move |request| {
                let key = request.header(header).unwrap_or_default();
                let key = key.trim_start_matches("Bearer ");
                let body = match status % 3 {
                    0 => format!(
                        "{{\"error\":{{\"message\":\"key {key} is wrong\",\"code\":\"{key}\"}}}}"
                    ),
                    1 => format!(
                        "no: {key}, {}***{}, it begins with {}",
                        &key[..10],
                        &key[key.len() - 10..],
                        &key[..12]
                    ),
                    _ => format!("<html><title>{key}</title>{key}</html>"),
                };
                Answer::Raw {
                    status,
                    headers: vec![
                        ("x-should-retry".into(), "false".into()),
                        ("location".into(), format!("/elsewhere?key={key}")),
                    ],
                    body: body.into_bytes(),
                }
            });
            let model = ["--provider", provider, "--model", "test-model", "--patience", "0"];
            world.run(NAGENT, 3, &[&model[..], &["--json", "task"]].concat());
            // The tools for one request take the same way: a status for each kind of body is enough.
            if [400, 401, 429].contains(&status) {
                world.run(LLM_TEXT, 3, &[&model[..], &["--file", "q.txt"]].concat());
                world.run(UPLOAD, 3, &[&model[..], &["--file", "a.png", "--prompt", "p"]].concat());
            }
        }
    }
    world.check();
}

#[test]
fn a_program_that_stands_for_a_model_may_say_its_key_and_nothing_keeps_it() {
    let mut world = World::new();
    world.sandbox.write("q.txt", "What is it?");
    let path = format!(
        "{}:{}",
        world.sandbox.work().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    world.sandbox = world.sandbox.env("PATH", path);
    for (provider, program) in
        [("cursor", "cursor-agent"), ("claude-code", "claude"), ("command", "model")]
    {
        let script = "#!/bin/sh\ncat >/dev/null\necho \"no login with $CURSOR_API_KEY $CLAUDE_CODE_OAUTH_TOKEN\" >&2\nexit 1\n";
        let program = world.sandbox.script(&format!("bin/{program}"), script);
        world.sandbox = world.sandbox.config(json!({"command": [program]}));
        let model = ["--provider", provider, "--patience", "0"];
        world.run(NAGENT, 3, &[&model[..], &["--json", "task"]].concat());
        world.run(LLM_TEXT, 3, &[&model[..], &["--file", "q.txt"]].concat());
    }
    world.check();
}

#[test]
fn no_redirect_is_followed_and_no_key_goes_where_one_points() {
    let other = FakeLlm::start();
    other.choose(|_| answer("from elsewhere").into());
    let world = World::new();
    world.sandbox.write("q.txt", "What is it?");
    for (provider, ..) in SERVERS {
        for status in [301, 302, 303, 307, 308] {
            for to in [
                format!("http://127.0.0.1:{}/v1/chat/completions", other.port()),
                format!("http://localhost:{}/", other.port()),
                format!("//127.0.0.1:{}/", other.port()),
            ] {
                world.sandbox.llm.choose(move |_| Answer::Raw {
                    status,
                    headers: vec![("location".into(), to.clone())],
                    body: Vec::new(),
                });
                let args =
                    ["--provider", provider, "--model", "m", "--patience", "0", "--file", "q.txt"];
                let run = world.sandbox.program(LLM_TEXT, &args).run().assert_exit(3);
                assert!(run.stderr.contains("redirects are not followed"), "{}", run.stderr);
            }
        }
    }
    assert!(other.all_requests().is_empty(), "somebody was sent there");
}

#[test]
fn no_file_of_the_working_tree_says_where_a_key_goes() {
    let other = FakeLlm::start();
    other.choose(|_| answer("from elsewhere").into());
    let url = format!("{}/v1", other.origin());
    let sandbox = Sandbox::new().git().replies([answer("one"), answer("two")]);
    let config =
        json!({"base_url": url, "provider": "openai", "command": ["touch", "ran"]}).to_string();
    for name in [
        "config.json",
        ".nagent/config.json",
        "nagent.json",
        ".nagent.json",
        ".config/nagent/config.json",
    ] {
        sandbox.write(name, &config);
    }
    let lines = format!(
        "OPENAI_BASE_URL={url}\nNAGENT_PROVIDER=command\nNAGENT_CONFIG=config.json\nNAGENT_ROOT=.nagent\nHTTPS_PROXY={0}\nHTTP_PROXY={0}\n",
        other.origin()
    );
    for name in [".env", ".envrc", "nagent.env"] {
        sandbox.write(name, &lines);
    }
    sandbox.write("nagent.toml", format!("base_url = \"{url}\"\n"));
    sandbox.write("context.yaml", format!("base_url: {url}\n"));
    sandbox.write("AGENTS.md", format!("base_url: {url}\n"));
    assert_eq!(sandbox.run(&["task"]).assert_exit(0).stdout, "one\n");
    let folder = sandbox.work().join(".nagent");
    sandbox.cmd(&["task"]).folder(folder).run().assert_exit(0).stdout_is("two\n");
    assert!(other.all_requests().is_empty());
    assert!(!sandbox.work().join("ran").exists());
}
