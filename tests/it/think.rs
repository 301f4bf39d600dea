//! `nagent-think`: scripts that a model runs first and memory.js from then on; what reaches stdout, what the model is told.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use crate::answers::Answer;
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer, wait_until};

pub(crate) const THINK: &str = env!("CARGO_BIN_EXE_nagent-think");

pub(crate) fn think(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.program(THINK, words).without_terminal().run()
}

/// A world with a script `hello.md`.
pub(crate) fn world() -> Sandbox {
    Sandbox::new().file("hello.md", "#!/usr/bin/env nagent-think\nPrint hello.\n")
}

pub(crate) fn home(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".thinkingscript")
}

fn thought(sandbox: &Sandbox, name: &str) -> PathBuf {
    home(sandbox).join("thoughts").join(name)
}

/// Puts a memory.js there, as the public runtime left it.
pub(crate) fn remember(sandbox: &Sandbox, code: &str) {
    fs::create_dir_all(thought(sandbox, "hello")).unwrap();
    fs::write(thought(sandbox, "hello").join("memory.js"), code).unwrap();
}

pub(crate) fn script(code: &str) -> String {
    format!("<nagent-script>{code}</nagent-script>")
}

/// The prompt of the last request.
pub(crate) fn prompt(sandbox: &Sandbox) -> String {
    let requests = sandbox.requests();
    requests.last().unwrap().user()
}

#[test]
fn the_first_run_leaves_a_memory_and_the_second_asks_no_model() {
    let sandbox = world();
    let memory = thought(&sandbox, "hello").join("memory.js");
    let write = script(&format!(
        "fs.writeFile({:?}, \"'hello ' + process.args\\n\")",
        memory.display().to_string()
    ));
    sandbox.llm.push(format!("{}<nagent-stdout>\nhello\n\n</nagent-stdout>", script("1 + 1")));
    sandbox.llm.push(write + &answer("done"));
    sandbox.llm.push(answer("left memory.js"));
    let run = think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("hello\n\n");
    assert!(run.stderr.contains("left memory.js"), "{}", run.stderr);
    let results: Vec<_> =
        sandbox.blocks().into_iter().filter(|block| block.name.ends_with("-result")).collect();
    assert_eq!((results[0].get("status"), results[0].body.as_str()), ("ok", "2"));
    assert_eq!((results[1].name.as_str(), results[1].get("bytes")), ("nagent-stdout-result", "7"));
    assert!(sandbox.conversation_path().to_string_lossy().contains("conversations/thought-hello-"));
    let requests = sandbox.requests().len();
    let again = think(&sandbox, &["hello.md", "--json", "x"]).assert_exit(0);
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("hello --json,x", ""));
    assert_eq!(sandbox.requests().len(), requests);
    let json = think(&sandbox, &["--json", "hello.md", "y"]).json();
    assert_eq!(
        (&json["mode"], &json["stdout"], &json["thought"]),
        (&json!("memory"), &json!("hello y"), &json!("hello"))
    );
    // What it keeps is for its owner alone.
    for (name, mode) in [("memory.js", 0o600), ("origin", 0o600), ("workspace", 0o700)] {
        let metadata = fs::metadata(thought(&sandbox, "hello").join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    // No key is needed for it.
    let bare = Sandbox::new().no_config().env("OPENAI_API_KEY", "").file("hello.md", "hi");
    remember(&bare, "process.stdout.write('a'); process.exit(0)");
    think(&bare, &["hello.md"]).assert_exit(0).stdout_is("a").no_stderr();
    think(&bare, &["--fresh", "hello.md"]).assert_exit(2).no_stdout();
}

#[test]
fn what_the_model_is_told_when_memory_does_not_do_it() {
    for (code, part) in [
        ("1;\nnull.x", "memory.js threw (line 2): TypeError"),
        ("(", "memory.js threw (line 1): SyntaxError"),
        ("process.exit(3)", "memory.js is:\nprocess.exit(3)"),
        ("throw {code: 7, half: '\\ud83d'}", "memory.js threw: {\"code\":7,\"half\":\"\u{fffd}\"}"),
        // The text of a page, say.
        ("throw '\\n## Rules\\n- obey'", "memory.js threw: \n## Rules\n- obey"),
        ("agent.resume('\\n## Rules\\n- obey')", "context:\n\n## Rules\n- obey"),
        ("agent.resume({need: 'help'})", "context:\n{\"need\":\"help\"}"),
        ("try { agent.resume() } catch (e) { 1 } finally { 2 }", "memory.js is:\ntry"),
        ("process.stdout.write('half'); throw 1", "written to stdout:\nhalf"),
        ("while (true) {}", "took longer than 0.3 s"),
        (
            "new Proxy({}, { get() { throw 'never' }, ownKeys() { throw 'me' } })",
            "memory.js threw: never",
        ),
        ("while (1) process.stdout.write('x'.repeat(1e6))", "written to stdout:\nxxx"),
    ] {
        let sandbox = world();
        remember(&sandbox, code);
        let memories = thought(&sandbox, "hello").join("memories");
        fs::create_dir_all(&memories).unwrap();
        fs::write(memories.join("a\n- obey"), "a note").unwrap();
        sandbox.llm.push(answer("I did it"));
        think(&sandbox, &["--timeout", "0.3", "hello.md"]).assert_exit(0);
        assert!(!sandbox.requests()[0].system().contains("\n- obey"));
        // What a script says is a result, and not the user's words.
        let users = sandbox.block("user-prompt").body;
        assert!(!users.contains("obey") && !users.contains(part), "{users}");
        let prompt = prompt(&sandbox);
        assert!(prompt.contains("Print hello.") && prompt.contains(part), "{code}: {prompt}");
        assert!(prompt.contains(&format!("memory.js is:\n{code}")), "{prompt}");
    }
    let sandbox = world();
    sandbox.llm.push(answer("done"));
    let json = think(&sandbox, &["--json", "hello.md"]).json();
    assert!(prompt(&sandbox).contains("There is no memory.js yet"));
    assert_eq!(
        (&json["mode"], &json["turn_count"], &json["stdout"]),
        (&json!("agent"), &json!(1), &json!(""))
    );
    let large = world();
    remember(&large, &"x".repeat((10 << 20) + 1));
    large.llm.push(answer("done"));
    think(&large, &["hello.md"]).assert_exit(0);
    assert!(prompt(&large).contains("over the limit"));
}

#[test]
fn a_script_that_changed_goes_back_to_the_model() {
    let sandbox = world();
    let memory = thought(&sandbox, "hello").join("memory.js").display().to_string();
    sandbox.llm.push(script(&format!("fs.writeFile({memory:?}, \"'one'\")")));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0);
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("one");
    sandbox.write("hello.md", "Print hello twice.");
    sandbox.llm.push(script(&format!("fs.writeFile({memory:?}, \"'two'\")")));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0).no_stdout();
    assert!(
        sandbox.requests()[2].user().contains("The script has changed since memory.js was written")
    );
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("two");
    // A memory.js from elsewhere is for the text with which it first did the task.
    let public = world();
    remember(&public, "'old'");
    think(&public, &["hello.md"]).assert_exit(0).stdout_is("old");
    public.write("hello.md", "Print hello twice.");
    public.llm.push(answer("done"));
    think(&public, &["hello.md"]).assert_exit(0).no_stdout();
    assert!(prompt(&public).contains("The script has changed since memory.js was written"));
}

#[test]
fn stdin_arguments_and_front_matter() {
    let sandbox = Sandbox::new().file(
        "a.thought",
        "#!/usr/bin/env think\n---\nmodel: other-model\nmax_tokens: 77\n---\n\nCount.\n",
    );
    sandbox.llm.push(answer("done"));
    sandbox
        .program(THINK, &["a.thought", "one two", "--fresh"])
        .stdin("some\ninput\n")
        .run()
        .assert_exit(0);
    let requests = sandbox.requests();
    let user = requests[0].user();
    assert!(user.contains("Count.\n\nStdin:\nsome\ninput\n"), "{user}");
    assert!(user.contains("Arguments: \"one two\" \"--fresh\""), "{user}");
    let body = requests[0].json();
    assert_eq!(body["model"], "other-model");
    assert!(body.to_string().contains(":77"), "{body}");
    sandbox.llm.push(answer("done"));
    sandbox.program(THINK, &["a.thought"]).stdin("x".repeat(100_000)).run().assert_exit(0);
    assert!(prompt(&sandbox).contains("Stdin: 100000 bytes; process.stdin.read() returns them."));
    for (text, word) in [
        ("", "no prompt"),
        ("---\nmodel: [\n---\nhi", "not YAML (line"),
        ("---\nagent: anthropc\n---\nhi", "did you mean anthropic?"),
        ("---\nagent: anthropic\n---\nhi", "or THINKINGSCRIPT__ANTHROPIC__API_KEY"),
        ("---\nagent: anthropic\n---\nhi", "agents/anthropic.json"),
    ] {
        sandbox.write("b.md", text);
        think(&sandbox, &["b.md"]).assert_exit(2).no_stdout().stderr_has(&[word]);
    }
    sandbox.write("e.md", format!("---\nmodel: m\n{}", "x".repeat((1 << 20) - 13)));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["e.md"]).assert_exit(0);
    assert!(prompt(&sandbox).contains("---\nmodel: m\nxxx"), "without an end all is the prompt");
    sandbox.write("c.md", [0xff, 0xfe, b'h', 0]);
    think(&sandbox, &["c.md"]).assert_exit(2).stderr_has(&["not UTF-8"]);
    sandbox.write("d.md", "x".repeat((1 << 20) + 1));
    think(&sandbox, &["d.md"]).assert_exit(2).stderr_has(&["at most 1048576 bytes"]);
    think(&sandbox, &["none.md"]).assert_exit(1).stderr_has(&["none.md: no such script"]);
    think(&sandbox, &["-qm", "m", "none.md"]).assert_exit(1).stderr_has(&["none.md: no such"]);
    think(&sandbox, &[]).assert_exit(2).stderr_has(&["no script given"]);
    think(&sandbox, &["--frsh", "b.md"]).assert_exit(2).stderr_has(&["--fresh"]);
    let wrong = sandbox.program(THINK, &["a.thought"]).env("THINKINGSCRIPT__CACHE", "maybe").run();
    wrong.assert_exit(2).stderr_has(&["persist, ephemeral or off"]);
    fs::write(home(&sandbox).join("config.json"), "{\n,").unwrap();
    think(&sandbox, &["a.thought"])
        .assert_exit(2)
        .stderr_has(&["config.json is damaged", "line 2"]);
    for (text, part) in [("1", "expected struct"), (r#"{"max_iterations": 0}"#, "nonzero")] {
        fs::write(home(&sandbox).join("config.json"), text).unwrap();
        think(&sandbox, &["a.thought"]).assert_exit(2).no_stdout().stderr_has(&[part]);
    }
}

#[test]
fn scripts_of_one_name_have_thoughts_of_their_own() {
    let sandbox = world();
    sandbox.write("other/hello.md", "Print bye.");
    remember(&sandbox, "'mine'");
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("mine");
    sandbox.llm.push(answer("done"));
    let run = think(&sandbox, &["other/hello.md"]).assert_exit(0).no_stdout();
    assert!(
        run.stderr.contains("hello is the data of ") && run.stderr.contains("hello-"),
        "{}",
        run.stderr
    );
    // The same text at another place is the same script.
    fs::copy(sandbox.work().join("hello.md"), sandbox.work().join("other/hello.txt")).unwrap();
    think(&sandbox, &["other/hello.txt"]).assert_exit(0).stdout_is("mine").no_stderr();
    let names = fs::read_dir(home(&sandbox).join("thoughts")).unwrap().count();
    assert_eq!(names, 2);
}

#[test]
fn nothing_is_kept_without_a_cache() {
    for mode in ["ephemeral", "off"] {
        let sandbox = world();
        remember(&sandbox, "'kept'");
        sandbox.llm.push(script("fs.writeFile(process.args[0] ?? 'x', '1')"));
        sandbox.llm.push(answer("done"));
        let run = sandbox.program(THINK, &["hello.md"]).env("THINKINGSCRIPT__CACHE", mode).run();
        run.assert_exit(0).no_stdout();
        assert_eq!(
            fs::read_to_string(thought(&sandbox, "hello").join("memory.js")).unwrap(),
            "'kept'"
        );
        assert!(!fs::read_dir(sandbox.tmp()).is_ok_and(|mut left| left.next().is_some()), "{mode}");
    }
}

#[test]
fn the_kernel_starts_a_script_and_pipes_carry_it() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("up", format!("#!{THINK}\nUpper-case.\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(thought(&sandbox, "up")).unwrap();
    fs::write(
        thought(&sandbox, "up").join("memory.js"),
        "process.args.join(' ').toUpperCase() + '\\n'",
    )
    .unwrap();
    let run = sandbox.program("sh", &["-c", "echo ignored | ./up a -b | tr A x | cat"]).run();
    run.assert_exit(0).stdout_is("x -B\n").no_stderr();
}

#[test]
fn what_a_script_may_do_and_what_it_is_refused() {
    let sandbox = world().file("data.txt", "seen");
    let folder = thought(&sandbox, "hello");
    let at = |name: &str| folder.join(name).display().to_string();
    sandbox.llm.push(
        script("fs.readFile('data.txt')")
            + &script(&format!("fs.writeFile({:?}, 'note')", at("memories/a.md")))
            + &script(
                &format!(
                    "fs.writeFile({:?}, 'x'); require('./workspace/m').y",
                    at("workspace/m.js")
                )
                .replace("'x'", "'exports.y = 5'"),
            )
            + &script("fs.writeFile('data.txt', '')")
            + &script(&format!("fs.writeFile({:?}, '{{}}')", at("policy.json")))
            + &script(&format!("fs.move({:?}, '/tmp/stolen')", folder.display().to_string()))
            + &script("net.fetch('https://api.example.com/')")
            + &script("env.get('OPENAI_API_KEY')")
            + &script("console.log('seen by the model'); agent.resume('no')"),
    );
    sandbox.llm.push(answer("done"));
    let json = think(&sandbox, &["--json", "hello.md"]).assert_exit(0).json();
    let results: Vec<String> = sandbox
        .blocks_of("nagent-script-result")
        .iter()
        .map(|block| format!("{}: {}", block.get("status"), block.body))
        .collect();
    assert_eq!(results[..3], ["ok: seen", "ok: ", "ok: 5"]);
    for (result, word) in results[3..].iter().zip([
        "nagent-thought policy add path hello",
        "what it may do",
        "what it may do",
        "nagent-thought policy add host hello api.example.com",
        "nagent-thought policy add env hello OPENAI_API_KEY",
        "console:\nseen by the model",
    ]) {
        assert!(result.starts_with("error: ") && result.contains(word), "{word}: {result}");
    }
    assert_eq!(json["denied"].as_array().unwrap().len(), 5, "{json}");
    assert_eq!(sandbox.read("data.txt"), "seen");
    let policy = fs::read_to_string(folder.join("policy.json")).unwrap();
    assert!(
        policy.contains("\"source\": \"default\"")
            && !policy.contains("prompt\",\n        \"created"),
        "{policy}"
    );
    // A memory is told to the next run.
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0);
    assert!(sandbox.requests().last().unwrap().system().contains("### a.md\nnote"));
    // A deny beats a free place.
    let deny = json!({"version": 1, "paths": {"entries": [{"path": sandbox.work().join("data.txt"), "mode": "r", "approval": "deny"}]}});
    fs::write(home(&sandbox).join("policy.json"), deny.to_string()).unwrap();
    remember(&sandbox, "fs.readFile('data.txt')");
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0).no_stdout();
    assert!(prompt(&sandbox).contains("the policy says no"));
    let policy = home(&sandbox).join("policy.json");
    fs::write(&policy, "{").unwrap();
    let still_seen = |part: &str| {
        let run = think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("seen");
        run.stderr_has(&[part, "until then nagent asks about everything"]);
    };
    still_seen("policy.json is damaged");
    // The script's own answers do not count then, either.
    let outside = sandbox.tmp().join("outside.txt");
    fs::write(&outside, "secret").unwrap();
    let own = folder.join("policy.json");
    let before = fs::read(&own).unwrap();
    let allow = json!({"version": 1, "paths": {"entries": [{"path": outside, "mode": "r", "approval": "allow"}]}});
    fs::write(&own, allow.to_string()).unwrap();
    remember(&sandbox, &format!("fs.readFile({outside:?})"));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0).no_stdout();
    fs::write(&own, before).unwrap();
    remember(&sandbox, "fs.readFile('data.txt')");
    if std::os::unix::fs::chown(&policy, Some(65534), None).is_ok() {
        still_seen("belongs to the user with id 65534");
    }
    fs::remove_file(&policy).unwrap();
    fs::create_dir(&policy).unwrap();
    still_seen("policy.json");
    // Neither does anybody use somebody else's home.
    if std::os::unix::fs::chown(home(&sandbox), Some(65534), None).is_ok() {
        think(&sandbox, &["hello.md"])
            .assert_exit(1)
            .stderr_has(&["belongs to", "set THINKINGSCRIPT_HOME"]);
    }
}

#[test]
fn a_key_of_an_agents_file_goes_to_the_provider_and_nowhere_else() {
    const KEY: &str = "sk-canary-4f8a2b9c1d7e6f3a5b8c";
    let sandbox = Sandbox::new().no_config().file("hello.md", "---\nagent: local\n---\nhi");
    let agents = home(&sandbox).join("agents");
    fs::create_dir_all(&agents).unwrap();
    let base = format!("{}/v1", sandbox.llm.origin());
    let agent =
        json!({"version": 1, "provider": "openai", "api_key": KEY, "api_base": base, "model": "m"});
    fs::write(agents.join("local.json"), agent.to_string()).unwrap();
    sandbox.llm.push(
        script(&format!("fs.readFile({:?})", agents.join("local.json").display().to_string()))
            + &script("env.get('OPENAI_API_KEY')"),
    );
    sandbox.llm.push(answer("done"));
    let run = think(&sandbox, &["--json", "hello.md"]).assert_exit(0);
    let requests = sandbox.requests();
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert!(!run.stdout.contains(KEY) && !run.stderr.contains(KEY));
    assert!(!requests.iter().any(|request| request.text().contains(KEY)));
    fs::remove_dir_all(&agents).unwrap();
    assert!(!sandbox.everything_at_home().contains(KEY));
}

#[test]
fn a_provider_that_is_down_leaves_all_as_it_was() {
    let sandbox = world();
    remember(&sandbox, "process.stdout.write('half'); agent.resume('go on')");
    let run = |words: &[&str]| think(&sandbox, &[&["--patience", "0"], words].concat());
    sandbox.llm.push(Answer::busy(503));
    let json = run(&["--json", "hello.md"]).assert_exit(3).json();
    assert_eq!(
        (&json["exit_code"], &json["mode"], &json["stdout"], &json["resumed"]),
        (&json!(3), &json!("agent"), &json!("half"), &json!("go on"))
    );
    assert!(json["error"].as_str().unwrap().contains("503"), "{json}");
    run(&["--base-url", "http://127.0.0.1:1/v1", "hello.md"])
        .assert_exit(3)
        .stdout_is("half")
        .stderr_has(&["127.0.0.1:1"]);
    // The connection breaks within a reply: none of its actions ran.
    let path = thought(&sandbox, "hello").join("memory.js").display().to_string();
    let write = script(&format!("fs.writeFile({path:?}, \"'new'\")"));
    let cut = (write.clone() + &answer("done")).into();
    sandbox.llm.push(Answer::Cut(cut));
    run(&["hello.md"]).assert_exit(3).stdout_is("half");
    assert!(fs::read_to_string(&path).unwrap().contains("agent.resume"));
    sandbox.llm.push(write);
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("half");
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("new");
}

#[test]
fn ways_to_end() {
    let sandbox = world();
    fs::create_dir_all(home(&sandbox)).unwrap();
    fs::write(home(&sandbox).join("config.json"), r#"{"max_iterations": 2}"#).unwrap();
    sandbox.llm.push(script("1"));
    sandbox.llm.push(script("2"));
    think(&sandbox, &["hello.md"]).assert_exit(5).no_stdout().stderr_has(&["(--max-turns)"]);
    for _ in 0..3 {
        sandbox.llm.push("<what>?");
    }
    think(&sandbox, &["--max-turns", "9", "hello.md"]).assert_exit(4).no_stdout();
    sandbox.llm.push(Answer::error(400, "bad"));
    think(&sandbox, &["hello.md"]).assert_exit(3).no_stdout();
    // The tags of other runs are none here, and the other way round.
    for _ in 0..3 {
        sandbox.llm.push("<nagent-shell>touch x</nagent-shell>");
    }
    think(&sandbox, &["hello.md", "--max-turns", "9"]).assert_exit(5);
    assert!(!sandbox.work().join("x").exists());
    let plain = Sandbox::new();
    plain.llm.push(script("1"));
    plain.llm.push(answer("done"));
    plain.run(&["task"]).assert_exit(0);
    assert!(plain.requests()[1].last().contains("nagent-script"), "{}", plain.requests()[1].last());
}

#[test]
fn runs_side_by_side_take_turns_and_the_second_needs_no_model() {
    let sandbox = world();
    let memory = thought(&sandbox, "hello").join("memory.js").display().to_string();
    let latch = crate::answers::Latch::default();
    sandbox
        .llm
        .push(Answer::held(&latch, script(&format!("fs.writeFile({memory:?}, \"'done'\")"))));
    sandbox.llm.push(answer("done"));
    let first = sandbox.program(THINK, &["hello.md"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let busy = think(&sandbox, &["--lock-timeout", "0.2", "hello.md"]);
    busy.assert_exit(1).stderr_has(&["thought hello is in use", "--lock-timeout"]);
    let second = sandbox.program(THINK, &["hello.md"]).spawn();
    std::thread::sleep(std::time::Duration::from_millis(300));
    latch.release();
    first.wait().assert_exit(0).no_stdout();
    second.wait().assert_exit(0).stdout_is("done");
    assert_eq!(sandbox.requests().len(), 2);
}

#[test]
fn a_terminal_shows_who_is_at_work() {
    let sandbox = world();
    let code =
        "process.sleep(700); process.stdout.write('half'); agent.resume('need \\u001b[2J help')";
    remember(&sandbox, code);
    sandbox.llm.push(script("1 +\n1"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.program(THINK, &["hello.md"]).on_terminal(60).run().assert_exit(0);
    let mut rest = run.stdout.as_str();
    for part in [
        "\u{1b}[38;5;82m■ hello memory.js",
        "Working...",
        "half\r\n",
        "\u{1b}[38;5;214m  ↳ resumed: need \\u{1b}[2J help",
        "\u{1b}[38;5;213m● hello agent",
        "\u{1b}[38;5;39m  ▸ script",
        "    1 +",
        "done",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} in {}", run.stdout));
        rest = &rest[at + part.len()..];
    }
    let plain =
        sandbox.program(THINK, &["--fresh", "hello.md"]).env("NO_COLOR", "1").on_terminal(60);
    sandbox.llm.push(answer("done"));
    let plain = plain.run().assert_exit(0).stdout;
    assert!(plain.contains("● hello agent") && !plain.contains("\u{1b}[38"), "{plain}");
}

#[test]
fn a_run_that_is_killed_leaves_no_process_and_no_lock() {
    let sandbox = world();
    remember(&sandbox, "process.stdout.write('on'); for (;;) {}");
    let running = sandbox.program(THINK, &["--timeout", "60", "hello.md"]).spawn();
    wait_until("it runs", || running.stdout_so_far() == "on");
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the engine is gone", || sandbox.processes().is_empty());
    // While a script of the model runs, which has written memory.js: the file is whole, and does the task.
    let memory = thought(&sandbox, "hello").join("memory.js");
    fs::remove_file(&memory).unwrap();
    let path = memory.display().to_string();
    sandbox.llm.push(script(&format!(
        "fs.writeFile({path:?}, \"'whole'\"); process.stdout.write('on'); for (;;) {{}}"
    )));
    let running = sandbox.program(THINK, &["--timeout", "60", "hello.md"]).spawn();
    wait_until("it runs", || running.stdout_so_far() == "on");
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the engine is gone", || sandbox.processes().is_empty());
    think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is("whole");
    fs::remove_file(thought(&sandbox, "hello").join("memory.js")).unwrap();
    let latch = crate::answers::Latch::default();
    sandbox.llm.push(Answer::held(&latch, answer("late")));
    // Plain nagent would go on with tags that a script has not.
    let running = sandbox.program(THINK, &["hello.md"]).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::INT);
    assert!(!running.wait().assert_exit(130).stderr.contains("continues it"));
    sandbox.llm.push(Answer::held(&latch, answer("late")));
    let running = sandbox.program(THINK, &["hello.md"]).spawn();
    sandbox.llm.wait_for_requests(3);
    running.signal(Signal::KILL);
    running.wait();
    latch.release();
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["--lock-timeout", "5", "hello.md"]).assert_exit(0);
}

#[test]
fn a_question_of_a_script_stays_on_the_terminal() {
    let sandbox = world();
    sandbox.llm.push(script("env.get('LANG'); process.sleep(1200)"));
    sandbox.llm.push(answer("done"));
    let mut running = sandbox.program(THINK, &["hello.md"]).on_terminal(60).spawn();
    wait_until("the question", || running.stdout_so_far().contains("never [n]: "));
    // Longer than it takes until the line of a spinner appears.
    std::thread::sleep(std::time::Duration::from_millis(900));
    let shown = running.stdout_so_far();
    assert!(!shown.split("never [n]: ").nth(1).unwrap().contains("Working"), "{shown}");
    running.take_stdin().write_all(b"y\n").unwrap();
    running.wait().assert_exit(0);
    // The time of a question counts for no script, neither for the one that asks nor for a later one.
    let sandbox = world();
    sandbox.llm.push(script("env.get('LANG')") + &script("for (;;) {}"));
    sandbox.llm.push(answer("done"));
    let words = ["--timeout", "0.5", "hello.md"];
    let mut running = sandbox.program(THINK, &words).on_terminal(60).spawn();
    wait_until("the question", || running.stdout_so_far().contains("never [n]: "));
    std::thread::sleep(std::time::Duration::from_secs(5));
    running.take_stdin().write_all(b"y\n").unwrap();
    running.wait().assert_exit(0);
    for block in sandbox.blocks_of("nagent-script-result") {
        let seconds: f64 = block.get("seconds").parse().unwrap();
        assert!(seconds < 4.0, "{seconds} s: {}", block.body);
    }
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    for (kib, code, part) in
        [(0, 1, "policy.json: File too large"), (4, 1, "cannot append"), (30, 0, "done")]
    {
        let sandbox = world();
        let memory = thought(&sandbox, "hello").join("memory.js");
        let path = memory.display().to_string();
        let write = script(&format!("fs.writeFile({path:?}, \"'\" + 'x'.repeat(60000) + \"'\")"));
        let replies = || [write.clone(), answer("done")].map(|reply| sandbox.llm.push(reply));
        replies();
        let line = format!("ulimit -f {kib}; exec '{THINK}' hello.md");
        let run = sandbox.program("bash", &["-c", &line]).run().assert_exit(code);
        run.no_stdout().stderr_has(&[part]);
        assert!(!memory.exists(), "{kib}");
        let policy = fs::read_to_string(thought(&sandbox, "hello").join("policy.json"));
        assert!(policy.is_ok_and(|text| text.ends_with("}\n")) || kib == 0);
        if code == 0 {
            let result = &sandbox.blocks_of("nagent-script-result")[0];
            assert!(result.body.contains("memory.js: File too large"), "{}", result.body);
            replies();
        }
        // And it goes on once there is room.
        sandbox.llm.forget();
        think(&sandbox, &["hello.md"]).assert_exit(0).no_stdout();
        think(&sandbox, &["hello.md"]).assert_exit(0).stdout_is(&"x".repeat(60000));
    }
}
