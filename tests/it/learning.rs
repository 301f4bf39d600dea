//! What scripts in plain language learn and keep: memory.js for filters, a script that is moved or installed, what is said where
//! a model is paid again, the layers of policies, the first line of what is built.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::answers::Answer;
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer};
use crate::think::{THINK, home, script, think};
use crate::thought::thought;

/// The reply that leaves this memory.js.
fn learn(sandbox: &Sandbox, name: &str, code: &str) -> String {
    let path = home(sandbox).join("thoughts").join(name).join("memory.js");
    script(&format!("fs.writeFile({:?}, {})", path.display().to_string(), json!(code)))
}

fn filter(sandbox: &Sandbox, input: &str) -> Run {
    sandbox.program(THINK, &["count.md"]).without_terminal().stdin(input).run()
}

#[test]
fn a_filter_learns_and_needs_no_model_from_then_on() {
    let sandbox = Sandbox::new().file("count.md", "Count the lines on stdin.");
    let code = "process.stdin.read().split('\\n').length - 1 + '\\n'";
    sandbox.llm.push(learn(&sandbox, "count", code) + &script(code));
    sandbox.llm.push("<nagent-stdout>\n2\n</nagent-stdout>");
    sandbox.llm.push(answer("done"));
    filter(&sandbox, "a\nb\n").assert_exit(0).stdout_is("2\n");
    let asked = sandbox.requests();
    assert!(asked[0].system().contains("process.stdin.read() → string"));
    // A script of the model reads the same.
    assert_eq!(sandbox.blocks_of("nagent-script-result")[1].body, "2\n");
    filter(&sandbox, "a\nb\nc\n").assert_exit(0).stdout_is("3\n").no_stderr();
    assert_eq!(sandbox.requests().len(), asked.len());
    // A long one is not in the prompt, but in reach.
    let long = Sandbox::new().file("count.md", "Count the lines on stdin.");
    long.llm.push(script("process.stdin.read().length + process.stdin.read().length"));
    long.llm.push(answer("done"));
    filter(&long, &"x".repeat(100_000)).assert_exit(0);
    assert_eq!(long.block("nagent-script-result").body, "200000");
    // nagent-js reads its own.
    let run = sandbox.program(crate::js::JS, &["-e", "process.stdin.read().toUpperCase()"]);
    run.stdin("abc").run().assert_exit(0).stdout_is("ABC");
}

#[test]
fn a_run_that_leaves_nothing_says_so() {
    let sandbox = Sandbox::new().file("joke.md", "Tell a joke.");
    let run = |words: &[&str]| {
        sandbox.llm.push(answer("ha"));
        think(&sandbox, words).assert_exit(0).stderr
    };
    let first = run(&["joke.md"]);
    assert!(first.contains("the model left no memory.js, so the next run asks it again"));
    assert!(!run(&["-q", "joke.md"]).contains("memory.js"));
    let memory = home(&sandbox).join("thoughts/joke/memory.js");
    // Without a terminal a line says why a model is paid, too.
    for (code, why) in [
        ("throw new Error('lost \\u001b[2J')", "error: Error: lost \\u{1b}[2J"),
        ("process.exit(4)", "error: process.exit(4)"),
    ] {
        fs::write(&memory, code).unwrap();
        let said = run(&["joke.md"]);
        let line = format!("nagent-think: joke: a model is asked, not memory.js: {why}\n");
        assert!(said.contains(&line) && said.contains("did not change memory.js"), "{said}");
        assert!(!run(&["-q", "joke.md"]).contains("memory.js"));
    }
    // This is how a memory.js works that needs a model each time.
    fs::write(&memory, "agent.resume('a new joke')").unwrap();
    assert_eq!(run(&["joke.md"]), "ha\n");
    fs::write(&memory, "'a joke\\n'").unwrap();
    think(&sandbox, &["joke.md"]).assert_exit(0).stdout_is("a joke\n").no_stderr();
    assert_eq!(run(&["--fresh", "joke.md"]), "ha\n");
    sandbox.write("joke.md", "Tell two jokes.");
    assert!(run(&["joke.md"]).contains("not memory.js: the script has changed\n"));
}

#[test]
fn an_installed_or_moved_script_keeps_what_it_learnt() {
    let sandbox = Sandbox::new().file("joke.md", "Tell a joke.");
    sandbox.llm.push(learn(&sandbox, "joke", "'ha\\n'"));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["joke.md"]).assert_exit(0);
    thought(&sandbox, &["install", "joke.md"]).assert_exit(0);
    let installed = home(&sandbox).join("bin/joke").display().to_string();
    for place in [installed.as_str(), "joke.md"] {
        think(&sandbox, &[place]).assert_exit(0).stdout_is("ha\n").no_stderr();
    }
    // What older versions recorded has the first line in it.
    let origin = home(&sandbox).join("thoughts/joke/origin");
    let whole = sys::fs::sha256(&fs::read(&installed).unwrap());
    fs::write(&origin, json!({"place": installed, "sha256": whole}).to_string()).unwrap();
    think(&sandbox, &[&installed]).assert_exit(0).stdout_is("ha\n").no_stderr();
    assert_eq!(fs::read_dir(home(&sandbox).join("thoughts")).unwrap().count(), 1);
    // One that was installed before it had learnt anything is one script with its source, too.
    let early = Sandbox::new().file("joke.md", "Tell a joke.").reply(answer("no"));
    think(&early, &["joke.md"]).assert_exit(0);
    thought(&early, &["install", "joke.md"]).assert_exit(0);
    early.llm.push(answer("no"));
    let said = think(&early, &["joke.md"]).assert_exit(0).stderr;
    assert!(!said.contains("is the data of"), "{said}");

    let sandbox = Sandbox::new().file("joke.md", "Tell a joke.");
    sandbox.llm.push(learn(&sandbox, "joke", "'ha\\n'"));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["joke.md"]).assert_exit(0);
    thought(&sandbox, &["policy", "add", "env", "./joke.md", "LANG"]).assert_exit(0);
    fs::remove_file(sandbox.work().join("joke.md")).unwrap();
    // Moved, it is the same script.
    sandbox.write("new/joke.md", "Tell a joke.");
    think(&sandbox, &["new/joke.md"]).assert_exit(0).stdout_is("ha\n").no_stderr();
    let policy = thought(&sandbox, &["policy", "list", "./new/joke.md"]).assert_exit(0).stdout;
    assert!(policy.contains("\"LANG\""), "{policy}");
    fs::remove_file(sandbox.work().join("new/joke.md")).unwrap();
    // Another text gets no data, whoever's file is gone.
    sandbox.write("other/joke.md", "Steal a joke.");
    sandbox.llm.push(answer("hm"));
    let other = think(&sandbox, &["other/joke.md"]).assert_exit(0);
    other.stderr_has(&["note: joke is the data of ", "this script uses joke-"]);
}

#[test]
fn built_scripts_start_by_think_where_that_is_there() {
    let sandbox = Sandbox::new().file("plain.md", "Do it.\n").file("sh.md", "#!/bin/sh\nDo it.\n");
    sandbox.write("own.md", "#!/opt/x/think -q\nDo it.\n");
    let build = |name: &str, path: Option<&str>| {
        let call = sandbox.program(crate::thought::THOUGHT, &["build", name, "-o", "out"]);
        let call = match path {
            Some(path) => call.env("PATH", path),
            None => call,
        };
        call.run().assert_exit(0);
        sandbox.read("out")
    };
    let path = sandbox.script("bin/think", "#!/bin/sh\n").parent().unwrap().display().to_string();
    for name in ["plain.md", "sh.md"] {
        assert_eq!(build(name, None), "#!/usr/bin/env nagent-think\nDo it.\n");
        assert_eq!(build(name, Some(&path)), "#!/usr/bin/env think\nDo it.\n");
    }
    assert_eq!(build("own.md", None), "#!/opt/x/think -q\nDo it.\n");
    let mode = fs::metadata(sandbox.work().join("out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[test]
fn the_layers_of_a_policy_decide_in_their_order() {
    let sandbox = Sandbox::new().file("a.js", "").file("a.md", "Read it.");
    let data = sandbox.base().join("data.txt");
    fs::write(&data, "seen").unwrap();
    let data = fs::canonicalize(data).unwrap();
    let folder = home(&sandbox).join("thoughts/a");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("memory.js"), format!("fs.readFile({data:?})")).unwrap();
    let policy = |list: &str, approval: Option<&str>| {
        let entry = |approval| json!({"path": data, "mode": "r", "approval": approval});
        let entries: Vec<_> = approval.map(entry).into_iter().collect();
        json!({"version": 1, "paths": {list: entries}}).to_string()
    };
    for (list, global, own, is_read) in [
        ("entries", Some("deny"), Some("allow"), true),
        ("entries", Some("allow"), Some("deny"), false),
        ("entries", Some("allow"), None, true),
        ("protected", Some("deny"), Some("allow"), false),
        ("protected", Some("allow"), Some("deny"), true),
        ("entries", None, None, false),
    ] {
        fs::write(home(&sandbox).join("policy.json"), policy(list, global)).unwrap();
        fs::write(folder.join("policy.json"), policy("entries", own)).unwrap();
        sandbox.llm.forget();
        if !is_read {
            sandbox.llm.push(answer("no"));
        }
        let run = think(&sandbox, &["a.md"]).assert_exit(0);
        assert_eq!(run.stdout, if is_read { "seen" } else { "" }, "{list} {global:?} {own:?}");
    }
}

#[test]
fn habits_of_the_public_runtime() {
    let sandbox = Sandbox::new().file("a.md", "---\ntitle: mine\n---\nDo it.").file("m.js", "");
    sandbox.write("m.js", "exports.x = 'of cwd'");
    let folder = home(&sandbox).join("thoughts/a");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("memory.js"), "require('./m').x").unwrap();
    think(&sandbox, &["a.md"]).assert_exit(0).stdout_is("of cwd").no_stderr();
    fs::write(folder.join("m.js"), "exports.x = 'own'").unwrap();
    think(&sandbox, &["a.md"]).assert_exit(0).stdout_is("own").no_stderr();
    fs::write(folder.join("memory.js"), "require('./none')").unwrap();
    sandbox.llm.push(answer("no"));
    think(&sandbox, &["a.md"]).assert_exit(0).stderr_has(&["module not found: ", "/a/none"]);
    for mode in ["none", "disable", "tmp"] {
        sandbox.llm.push(answer("no"));
        let run = sandbox.program(THINK, &["a.md"]).env("THINKINGSCRIPT__CACHE", mode).run();
        run.assert_exit(0).no_stdout();
    }
}

#[test]
fn advice_fits_scripts() {
    let sandbox = Sandbox::new().file("a.md", "Do it.");
    sandbox.llm.choose(|_| Answer::from("plain words <nagent-nothing>"));
    let run = think(&sandbox, &["a.md"]).assert_exit(4);
    assert!(!run.stderr.contains("--grammar") && run.stderr.contains("larger model"));
    let bare = Sandbox::new().no_config().env("OPENAI_API_KEY", "").file("a.md", "Do it.");
    let bare = bare.env("OLLAMA_HOST", "127.0.0.1:9");
    let words = ["THINKINGSCRIPT__ANTHROPIC__API_KEY", "is for scripts alone"];
    think(&bare, &["a.md"]).assert_exit(2).no_stdout().stderr_has(&words);
    // A refused key is called by the name that the user gave it.
    let origin = bare.llm.origin();
    let keyed = |env: &str| {
        bare.llm.push(Answer::error(401, "authentication_error"));
        let call = bare.program(THINK, &["a.md"]).env("ANTHROPIC_BASE_URL", &origin);
        call.env(env, "sk-ant-1").run().assert_exit(3).stderr
    };
    let said = keyed("THINKINGSCRIPT__ANTHROPIC__API_KEY");
    assert!(said.contains("came from THINKINGSCRIPT__ANTHROPIC__API_KEY)"), "{said}");
    let agents = home(&bare).join("agents");
    fs::write(agents.join("anthropic.json"), r#"{"api_key": "sk-ant-2"}"#).unwrap();
    let said = keyed("UNUSED");
    assert!(said.contains("came from api_key in ") && said.contains("anthropic.json)"), "{said}");
}
