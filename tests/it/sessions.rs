//! The sessions of README.md and the pages in docs/, run: every `console` block, in order, in one sandbox for each page,
//! against the scripted model.
//!
//! A block has commands after `$ ` (continued after `> `) and what a terminal shows of them. HTML comments before it
//! prepare it: `<!-- reply` holds one reply of the model, `<!-- setup` commands that are run without being compared, and
//! `<!-- replies: FILE` names a file with such comments. In an
//! output, a line of `...` stands for any lines, `[..]` for anything within a line. Times, sizes of requests, counts of
//! tokens and colors are not compared. For `nagent-repl`, the text after its prompt and its questions is typed.
//! `http://localhost:8080` is the scripted model.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use conversation::format::columns::wrap_line;
use regex::Regex;
use snapbox::Assert;

use crate::process_under_test::Running;
use crate::pty::Pty;
use crate::sandbox::{CANARY, NAGENT, Sandbox};

/// The address that the pages use for a server of the user's own.
const SERVER: &str = "http://localhost:8080";

/// One `console` block, with the comments before it.
#[derive(Default)]
struct Session {
    line: usize,
    setup: Vec<String>,
    replies: Vec<String>,
    /// Commands, and the output expected of each.
    steps: Vec<(String, String)>,
}

/// The sessions of a Markdown text.
fn sessions(text: &str) -> Vec<Session> {
    let mut found = Vec::new();
    let mut next = Session::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(path) = line.strip_prefix("<!-- replies: ") {
            let text = std::fs::read_to_string(path.trim_end_matches(" -->")).unwrap();
            next = sessions(&(text + "```console\n```\n")).remove(0);
        }
        match line {
            "<!-- reply" | "<!-- setup" => {
                let body: Vec<&str> = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != "-->")
                    .collect();
                let into = if line == "<!-- reply" { &mut next.replies } else { &mut next.setup };
                into.push(body.join("\n"));
            }
            "```console" => {
                let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
                for line in body {
                    if let Some(command) = line.strip_prefix("$ ") {
                        next.steps.push((command.to_owned(), String::new()));
                        continue;
                    }
                    let (command, output) = next.steps.last_mut().expect("a session begins with $");
                    match line.strip_prefix("> ").or_else(|| (line == ">").then_some("")) {
                        Some(more) if output.is_empty() => {
                            command.push('\n');
                            command.push_str(more);
                        }
                        _ => {
                            output.push_str(line);
                            output.push('\n');
                        }
                    }
                }
                next.line = at + 1;
                found.push(std::mem::take(&mut next));
            }
            _ => {}
        }
    }
    assert!(next.replies.is_empty() && next.setup.is_empty(), "a comment without its block");
    found
}

/// The machine of a page's reader.
struct World {
    sandbox: Sandbox,
    folder: PathBuf,
}

impl World {
    fn new() -> Self {
        // Outside of temp folders, so that the write boundary holds as it does at home.
        let sandbox = Sandbox::outside_temp();
        let config = serde_json::json!({"provider": "openai", "base_url": sandbox.base_url(), "sandbox": "workspace"});
        let sandbox = sandbox.config(config);
        // One conversation is cleared, edited and branched: its requests do not all go on from one another.
        sandbox.llm.allow_rewrites();
        let folder = sandbox.home().join("project");
        std::fs::create_dir_all(&folder).unwrap();
        // A repository of its own, wherever the clone is that is tested.
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(&folder).status();
        assert!(git.unwrap().success(), "git init");
        Self { sandbox, folder }
    }

    /// What a terminal shows of a session, in which the lines behind prompts and questions are typed.
    fn run_session(&self, command: &str, expected: &str) -> String {
        let mut words = command.split(' ');
        let folder = PathBuf::from(NAGENT).parent().unwrap().join(words.next().unwrap());
        let mut program = Command::new(folder);
        program.args(words).current_dir(&self.folder);
        let origin = self.sandbox.llm.origin();
        for (name, value) in [
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("HOME", self.sandbox.home().display().to_string()),
            ("TMPDIR", self.sandbox.tmp().display().to_string()),
            ("TERM", "xterm".to_owned()),
            ("STY", "1.reader".to_owned()),
            ("OPENAI_API_KEY", CANARY.to_owned()),
        ] {
            program.env(name, value);
        }
        let mut pty = Pty::start(&program, 400);
        let mut prompts = 0;
        for line in expected.lines() {
            if let Some(typed) = line.strip_prefix("» ") {
                prompts += 1;
                pty.expect_times("\x1b[?2004h", prompts);
                pty.type_keys(&format!("{typed}\r"));
            } else if let Some((question, answer)) = line.split_once("[n]: ") {
                pty.expect(&format!("{question}[n]: "));
                pty.type_keys(&format!("{answer}\r"));
            }
        }
        pty.wait();
        let shown = pty.screen().join("\n") + "\n";
        self.as_written(&shown).replace(&origin, SERVER)
    }

    /// The text with the names that the pages use.
    fn as_written(&self, shown: &str) -> String {
        let folder = self.folder.canonicalize().unwrap().display().to_string();
        let home = self.sandbox.home().display().to_string();
        shown.replace(&folder, "/home/you/project").replace(&home, "/home/you")
    }

    /// What a terminal shows of commands.
    fn run(&self, commands: &str) -> String {
        let commands = commands.replace(SERVER, &self.sandbox.llm.origin());
        let file = self.sandbox.base().join("commands.sh");
        std::fs::write(&file, &commands).unwrap();
        // The folders of the test have longer names than those of the pages: lines are wrapped below.
        let line = format!("stty -F /dev/tty cols 400; bash '{}' < /dev/null", file.display());
        let mut command = Command::new("script");
        let bin = PathBuf::from(NAGENT).parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["-q", "-f", "-c", &line, "/dev/null"])
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", format!("{bin}:{path}"))
            .env("HOME", self.sandbox.home())
            .env("TMPDIR", self.sandbox.tmp())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            // All commands are given in one shell, as the reader gives them.
            .env("STY", "1.reader")
            .env("EDITOR", "true")
            .env("PAGER", "cat")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("OPENAI_API_KEY", CANARY)
            .env("OLLAMA_HOST", self.sandbox.llm.origin())
            .stdin(Stdio::piped());
        let run = Running::start(command, commands).wait();
        let shown: Vec<&str> =
            // A terminal shows what was written last on a line.
            run.stdout.lines().map(|line| line.rsplit("\r\x1b[K").next().unwrap()).collect();
        let colours = Regex::new("\x1b\\[[0-9;]*m").unwrap();
        let mut shown = colours.replace_all(&shown.join("\n"), "").into_owned();
        if !shown.is_empty() {
            shown.push('\n');
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let shown = shown
            .replace(&self.sandbox.home().display().to_string(), "/home/you")
            .replace(&self.sandbox.llm.origin(), SERVER)
            .replace(&host, "box");
        let in_80_columns = |line| match line {
            note if str::starts_with(note, "nagent") => wrap_line(note, 80).join("\n"),
            line => line.to_owned(),
        };
        shown.lines().map(|line| in_80_columns(line).replace(" \n", "\n") + "\n").collect()
    }
}

/// The text without what differs from run to run.
fn steady(text: &str) -> String {
    static CHANGES: LazyLock<[(Regex, &str); 8]> = LazyLock::new(|| {
        [
            (r"\d+\.\d+ s\b", "0.0 s"),
            (r#"seconds="[0-9.]+""#, r#"seconds="0.000""#),
            (
                r"(about )?[0-9.]+k? tokens in( \(\d+ % cached\))?, [0-9.]+k? out",
                "N tokens in, N out",
            ),
            (r"about [0-9.]+k? of ", "about N of "),
            (r#"tokens_in="\d+" tokens_out="\d+" cached="\d+""#, r#"tokens_in="N""#),
            (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "2026-11-21T09:30:00Z"),
            (r"size:\d+", "size:N"),
            (r"root_size_bytes:\d+", "root_size_bytes:N"),
        ]
        .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    });
    let mut text = text.to_owned();
    for (pattern, with) in &*CHANGES {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text
}

/// Every page with a `console` block is found by itself, so that no session is left out.
#[test]
fn sessions_show_what_the_executables_do() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(top.join("docs")).unwrap() {
        pages.push(format!("docs/{}", entry.unwrap().file_name().into_string().unwrap()));
    }
    let tested: Vec<(&String, Vec<Session>)> = pages
        .iter()
        .map(|page| (page, sessions(&std::fs::read_to_string(top.join(page)).unwrap())))
        .filter(|(_, sessions)| !sessions.is_empty())
        .collect();
    let names: Vec<&str> = tested.iter().map(|(page, _)| page.as_str()).collect();
    assert!(names.len() > 4 && names.contains(&"README.md"), "only {names:?} have sessions");
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let pages: Vec<_> = tested
            .into_iter()
            .map(|(page, sessions)| scope.spawn(move || compare_page(page, sessions)))
            .collect();
        pages.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the sessions of a page, and returns where it shows something else.
fn compare_page(page: &str, sessions: Vec<Session>) -> Vec<String> {
    let world = World::new();
    let mut wrong = Vec::new();
    for session in sessions {
        for commands in &session.setup {
            world.run(commands);
        }
        let before = world.sandbox.requests().len();
        let replies = session.replies.len();
        for reply in session.replies {
            world.sandbox.llm.push(reply);
        }
        for (command, expected) in session.steps {
            let is_session = command == "nagent" || command.starts_with("nagent-repl ");
            let shown = if is_session {
                world.run_session(&command, &expected)
            } else {
                world.run(&command)
            };
            let shown = steady(&shown);
            let compared = Assert::new().action_env("").try_eq(
                Some(&format!("{page}:{}: {command}", session.line)),
                shown.into(),
                steady(&expected).into(),
            );
            wrong.extend(compared.err().map(|error| error.to_string()));
        }
        let asked = world.sandbox.requests().len() - before;
        if asked != replies {
            wrong.push(format!("{page}:{}: {asked} requests, {replies} replies", session.line));
        }
    }
    wrong
}
