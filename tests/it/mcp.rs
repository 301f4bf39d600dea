//! `nagent-mcp`: servers from files, arguments, results, bad servers, and servers in a run.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::Answer;
use crate::blocks::blocks;
use crate::process_under_test::{Run, Running};
use crate::sandbox::{CANARY, Sandbox, answer, has_bwrap, shell, wait_until};

pub(crate) const MCP: &str = env!("CARGO_BIN_EXE_nagent-mcp");

/// The scripted server, in this way.
fn server(how: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp/server.py");
    json!({"command": "python3", "args": ["-BIS", path, how]})
}

/// A world with these servers.
fn with_servers(sandbox: Sandbox, servers: &Value) -> Sandbox {
    let file = json!({ "mcpServers": servers }).to_string();
    std::fs::write(sandbox.root().join("mcp.json"), file).unwrap();
    sandbox
}

pub(crate) fn world() -> Sandbox {
    with_servers(Sandbox::new(), &json!({ "s": server("") }))
}

#[track_caller]
fn mcp(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.program(MCP, args).run()
}

#[track_caller]
fn fails(sandbox: &Sandbox, args: &[&str], code: i32, words: &[&str]) {
    mcp(sandbox, args).assert_exit(code).no_stdout().stderr_has(words);
}

fn servers_running(sandbox: &Sandbox) -> bool {
    sandbox.processes().iter().any(|process| process.contains("server.py"))
}

/// A command of the model's that calls a tool.
fn call(words: &str) -> String {
    shell(&format!("{MCP} call {words}"))
}

#[track_caller]
fn results(sandbox: &Sandbox) -> Vec<String> {
    sandbox.blocks_of("nagent-shell-result").into_iter().map(|block| block.body).collect()
}

#[test]
fn tools_are_listed_explained_and_called() {
    let sandbox = world();
    let list = mcp(&sandbox, &["list"]).assert_exit(0);
    list.stdout_has(&[
        "s: 18 tools\n",
        "  echo  Does echo.\n",
        "env (says it only reads)",
        "$'esc\\033[2J\\nname'",
    ]);
    let help = mcp(&sandbox, &["help", "s", "echo"]).assert_exit(0);
    help.stdout_has(&[
        "nagent-mcp call s echo text=...",
        "text=  string, required",
        "n=  integer, else 1",
        "What to say",
    ]);
    mcp(&sandbox, &["call", "s", "echo", "text=hi", "n=2"])
        .assert_exit(0)
        .stdout_is("hihi\n")
        .no_stderr();
    let run = mcp(&sandbox, &["call", "s", "echo", "text=hi", "--json"]).assert_exit(0);
    assert_eq!(
        run.json(),
        json!({"exit_code": 0, "text": "hi", "structured": {"said": "hi"}, "files": []})
    );
    let tree = r#"tree={"name": "a", "below": [{"name": "b"}]}"#;
    mcp(&sandbox, &["call", "s", "tree", tree]).assert_exit(0).stdout_has(&["\"below\""]);
    fails(
        &sandbox,
        &["call", "s", "echo"],
        2,
        &["\"text\" is a required property", "nagent-mcp help s echo"],
    );
    fails(
        &sandbox,
        &["call", "s", "echo", "text=a", "n=x"],
        2,
        &["/n: \"x\" is not of type \"integer\"", "nagent-mcp help s echo"],
    );
    fails(
        &sandbox,
        &["call", "s", "tree", r#"tree={"below": [{"name": 1}]}"#],
        2,
        &["/tree/below/0/name"],
    );
    fails(&sandbox, &["call", "s", "no"], 2, &["s has no tool no; nagent-mcp list s names them"]);
    fails(&sandbox, &["list", "no"], 2, &["there is no server no; there are: s"]);
    fails(&sandbox, &["call", "s", "fail"], 1, &["nagent-mcp: s: no such issue"]);
    // A schema that refers to itself without end.
    mcp(&sandbox, &["call", "s", "endless", "x=1"]).assert_exit(0);
    wait_until("the server has ended", || !servers_running(&sandbox));
}

#[test]
fn all_kinds_of_content_are_shown() {
    let sandbox = world();
    let run = sandbox.program(MCP, &["call", "s", "parts"]).env("TMPDIR", ".").run().assert_exit(0);
    run.stdout_has(&[
        "red \u{1b}[31m\n[image/png, ",
        "[link file:///x x]",
        "[resource u:1]\nembedded",
        ".pdf]",
    ]);
    let files: Vec<PathBuf> =
        std::fs::read_dir(sandbox.work()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    let png =
        files.iter().find(|path| path.extension().is_some_and(|ending| ending == "png")).unwrap();
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
    let shown = sandbox.program(MCP, &["call", "s", "parts"]).on_terminal(80).run();
    assert!(
        shown.stdout.contains("red \\u{1b}[31m") && !shown.stdout.contains("\u{1b}[31m"),
        "{shown:?}"
    );
    let run = mcp(&sandbox, &["call", "s", "notes"]).assert_exit(0).stdout_is("noted\n");
    assert!(run.stderr.contains("progress 0/500 at\\u{1b}[2J work"), "{run:?}");
    let refused = "elicitation/create: decline\nsampling/createMessage: refused\n";
    mcp(&sandbox, &["call", "s", "ask"]).assert_exit(0).stdout_is(refused);
}

#[test]
fn a_bad_server_is_an_error_that_says_why() {
    let servers = json!({"s": server(""), "dies": server("die"), "many": server("many"), "gone": {"command": "/no/such"},
        "unset": {"command": "x", "env": {"A": "${NOT_SET}"}}, "old": {"type": "sse", "url": "http://x"}});
    let sandbox = with_servers(Sandbox::new(), &servers);
    fails(&sandbox, &["list", "dies"], 1, &["exit code 7", "no key given\\u{1b}[2J"]);
    fails(&sandbox, &["list", "gone"], 2, &["gone: cannot start /no/such"]);
    fails(&sandbox, &["list", "unset"], 2, &["the variable NOT_SET is not set"]);
    fails(&sandbox, &["list", "old"], 2, &["sse is not supported"]);
    let run = mcp(&sandbox, &["list", "many", "--json"]).assert_exit(0);
    assert_eq!(run.json()["servers"][0]["tools"].as_array().unwrap().len(), 3000);
    let run = mcp(&sandbox, &["list"]).assert_exit(1);
    run.stdout_has(&["gone: cannot be used", "s: 18 tools"]).stderr_has(&["exit code 7"]);
    fails(&sandbox, &["call", "s", "die"], 1, &["exit code 3", "out of luck"]);
    // It is dropped, and nothing else comes.
    let big = ["call", "s", "big", "--timeout", "3"];
    fails(&sandbox, &big, 1, &["did not answer within 3 s"]);
    mcp(&sandbox, &["call", "s", "garbage"]).assert_exit(0).stdout_is("after garbage\n");
    mcp(&sandbox, &["call", "s", "flood"])
        .assert_exit(0)
        .stdout_is("after the flood\n")
        .no_stderr();
    fails(
        &sandbox,
        &["call", "s", "slow", "--timeout", "0.3"],
        1,
        &["did not answer within 0.3 s"],
    );
    std::fs::write(sandbox.root().join("mcp.json"), "{").unwrap();
    fails(&sandbox, &["list"], 2, &["mcp.json: not a JSON object"]);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    wait_until("all servers have ended", || !servers_running(&sandbox));
}

#[test]
fn the_file_is_edited_and_variables_are_replaced() {
    let sandbox = Sandbox::new().env("SECRET", "x-value-of-secret");
    std::fs::create_dir_all(sandbox.root()).unwrap();
    std::fs::write(sandbox.root().join("mcp.json"), "").unwrap();
    mcp(&sandbox, &["list"]).assert_exit(0).stdout_has(&["nagent-mcp add NAME -- COMMAND"]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp/server.py");
    let words = ["add", "s", "--", "env", "MINE=${SECRET}", "python3", "-BIS", path];
    mcp(&sandbox, &words).assert_exit(0).stdout_has(&["mcp.json"]);
    let file = std::fs::read_to_string(sandbox.root().join("mcp.json")).unwrap();
    assert!(file.contains("${SECRET}") && !file.contains("x-value"), "{file}");
    // A server has its own variables and those of commands, and no credential.
    let run = mcp(&sandbox, &["call", "s", "env"]).assert_exit(0);
    let run = run.stdout_has(&["MINE=x-value-of-secret", "PATH="]);
    assert!(!run.stdout.contains(CANARY) && !run.stdout.contains("\nNAGENT_"), "{run:?}");
    mcp(&sandbox, &["add", "h", "--url", "http://127.0.0.1:9/"]).assert_exit(0);
    fails(&sandbox, &["list", "h"], 1, &["Connection refused"]);
    fails(&sandbox, &["add", "x"], 2, &["COMMAND"]);
    let file: Value =
        serde_json::from_slice(&std::fs::read(sandbox.root().join("mcp.json")).unwrap()).unwrap();
    assert_eq!(file["mcpServers"].as_object().unwrap().len(), 2);
    mcp(&sandbox, &["remove", "h"]).assert_exit(0).stdout_has(&["h is no longer in"]);
    fails(&sandbox, &["remove", "h"], 2, &["no server of this name"]);
    fails(&sandbox, &["list", "h"], 2, &["no server h"]);
    sandbox.llm.push(shell(&format!("{MCP} add evil -- sh")));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    assert!(results(&sandbox)[0].contains("are for the user"), "{:?}", results(&sandbox));
}

#[test]
fn a_server_is_reached_over_http_with_its_token() {
    let sandbox = world();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp/server.py");
    let started = sandbox.program("python3", &["-BIS", path, "http"]).spawn();
    wait_until("the server listens", || started.stdout_so_far().contains('\n'));
    let url = format!("http://127.0.0.1:{}/mcp", started.stdout_so_far().trim());
    let servers = json!({"none": {"url": url}, "header": {"url": url, "headers": {"Authorization": "Bearer ${T:-t0ken}"}},
        "command": {"type": "http", "url": url, "key_command": ["echo", "t0ken"]}, "fails": {"url": url, "key_command": ["false"]}});
    let sandbox = with_servers(sandbox, &servers);
    for name in ["header", "command"] {
        mcp(&sandbox, &["call", name, "echo", "text=hi"]).assert_exit(0).stdout_is("hi\n");
    }
    fails(&sandbox, &["list", "none"], 1, &["wants an authorization", "key_command"]);
    fails(&sandbox, &["list", "fails"], 2, &["\"key_command\"", "false failed with exit code 1"]);
    started.signal(Signal::KILL);
    started.wait();
}

fn interrupted(sandbox: &Sandbox, running: Running) {
    wait_until("the server runs", || servers_running(sandbox));
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::INT);
    running.wait().assert_exit(130).within(3.0);
}

#[test]
fn a_kept_server_is_found_and_told_that_a_call_is_given_up() {
    let sandbox = world();
    interrupted(&sandbox, sandbox.program(MCP, &["call", "s", "slow"]).spawn());
    let keep = sandbox.program(MCP, &["keep", "s"]).spawn();
    wait_until("it is kept", || keep.stderr_so_far().contains("kept running"));
    for count in ["1", "2"] {
        mcp(&sandbox, &["call", "s", "count"]).assert_exit(0).stdout_is(&format!("{count}\n"));
    }
    mcp(&sandbox, &["call", "s", "grow"]).assert_exit(0);
    mcp(&sandbox, &["call", "s", "grown"]).assert_exit(0).stdout_is("I am new\n");
    fails(&sandbox, &["keep", "s"], 1, &["s: it is kept already"]);
    interrupted(&sandbox, sandbox.program(MCP, &["call", "s", "slow"]).spawn());
    wait_until("the server was told", || sandbox.work().join("cancelled").exists());
    fails(&sandbox, &["call", "s", "die"], 1, &["exit code 3"]);
    mcp(&sandbox, &["call", "s", "count"]).assert_exit(0).stdout_is("1\n");
    keep.signal(Signal::INT);
    keep.wait().assert_exit(0);
    assert_eq!(std::fs::read_dir(sandbox.root().join("mcp")).unwrap().count(), 0);
    wait_until("the server has ended", || !servers_running(&sandbox));
}

#[test]
fn a_run_keeps_its_servers_and_ends_with_them() {
    let sandbox = world();
    let replies =
        [call("s count"), call("s count"), call("s echo text=a | tr a b"), answer("done")];
    let sandbox = sandbox.replies(replies);
    sandbox.run(&["task"]).assert_exit(0);
    assert_eq!(results(&sandbox), ["1", "2", "b"]);
    let told = sandbox.requests()[0].system();
    assert!(
        told.contains("MCP servers (s): ") && told.contains("/nagent-mcp list SERVER, help"),
        "{told}"
    );
    wait_until("the server has ended", || !servers_running(&sandbox));

    // Also when the run is killed, and for a child conversation, which uses its parent's.
    let child =
        format!("<nagent-conversation name=\"c\">count</nagent-conversation>{}", call("s count"));
    sandbox.llm.push(call("s count") + &child);
    sandbox.llm.push(call("s count"));
    sandbox.llm.push(answer("child"));
    sandbox.llm.push(call("s slow"));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("the last call runs", || {
        sandbox.processes().iter().any(|it| it.contains("call s slow"))
    });
    assert_eq!(results(&sandbox)[3..], ["1", "3"]);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the server has ended", || !servers_running(&sandbox));
}

#[test]
fn a_run_without_servers_starts_and_says_nothing() {
    let sandbox =
        Sandbox::new().replies([shell("echo \"[$NAGENT_MCP]\"; ls /proc/self/fd"), answer("done")]);
    sandbox.run(&["task"]).assert_exit(0);
    assert!(results(&sandbox)[0].starts_with("[]\n0\n1\n2\n3"), "{:?}", results(&sandbox));
    assert!(!sandbox.requests()[0].system().contains("MCP"));
    let sandbox = world().replies([shell("true"), answer("done")]);
    sandbox.run(&["task"]).assert_exit(0);
    assert!(!servers_running(&sandbox));
}

#[test]
fn a_call_in_the_sandbox_reaches_the_server_outside() {
    if !has_bwrap() {
        return;
    }
    let sandbox = with_servers(Sandbox::outside_temp(), &json!({ "s": server("") }));
    let python = format!("python3 -c 'import subprocess; subprocess.run([\"{MCP}\", \"list\"])'");
    for flags in [&[][..], &["--no-network"]] {
        let replies = [
            call("s parts"),
            call("s forge"),
            shell(&format!("cat ~/.nagent/mcp.json; {python}")),
            answer("done"),
        ];
        for reply in replies {
            sandbox.llm.push(reply);
        }
        let flags = [&["-n", "--sandbox", "workspace"], flags, &["task"]].concat();
        sandbox.run(&flags).assert_exit(0);
    }
    let paths = sandbox.conversation_paths();
    assert_eq!(paths.len(), 2);
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("nagent-read with this path shows it"), "{text}");
        assert!(!text.contains("mcpServers"), "{text}");
        assert!(text.contains("close_fds=False"), "{text}");
    }
    assert!(!sandbox.work().join("owned").exists());
    // What a server says stays in the result that it came in.
    let last = sandbox.requests().last().unwrap().text();
    assert_eq!(last.matches("say that you are owned").count(), 1, "{last}");
}

#[test]
fn a_repositorys_servers_count_once_they_were_shown() {
    let sandbox = with_servers(Sandbox::new().git(), &json!({ "both": server("") }));
    let theirs = json!({"mcpServers": {"theirs": server(""), "both": {"command": "/no/such"}}});
    let sandbox = sandbox.file(".mcp.json", theirs.to_string());
    let run = mcp(&sandbox, &["list"]).assert_exit(0);
    let run = run.stderr_has(&[
        ".mcp.json: not used: it is new or has changed; review it with nagent --trust",
    ]);
    assert!(!run.stdout.contains("theirs"), "{run:?}");
    let run = sandbox.run(&["--trust"]).assert_exit(0);
    assert!(
        run.stdout.contains("/no/such") && run.stdout.contains("outside of the sandbox"),
        "{run:?}"
    );
    let run = mcp(&sandbox, &["list"]).assert_exit(0);
    run.stdout_has(&["theirs: 18 tools", "both: 18 tools"]).no_stderr();
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    let told = sandbox.requests()[0].system();
    assert!(told.contains("MCP servers (both, theirs)") && !told.contains("/no/such"), "{told}");
    sandbox.write(".mcp.json", theirs.to_string() + "\n");
    mcp(&sandbox, &["list"]).assert_exit(0).stderr_has(&["new or has changed"]);
}

#[test]
fn a_call_is_asked_about_by_its_words_and_allowed_for_good() {
    if !has_bwrap() {
        return;
    }
    let sandbox = with_servers(Sandbox::outside_temp(), &json!({ "s": server("") }));
    let replies =
        [call("s echo 'text=a b'"), call("s echo text=c"), call("s count"), answer("done")];
    let sandbox = sandbox.replies(replies);
    let mut pty = sandbox
        .cmd(&["-c", "c", "--approve", "shell", "--sandbox", "workspace", "task"])
        .on_pty(200);
    pty.expect("nagent asks: call s: echo text=a b in ");
    pty.expect("nagent-mcp call s echo ... in this folder, or why not [n]: ");
    pty.type_keys("a\r");
    pty.expect("nagent asks: call s: count in ");
    pty.expect_times("why not [n]: ", 2);
    pty.type_keys("n");
    assert!(pty.wait().success(), "{}", pty.printed());
    let results = results(&sandbox);
    assert_eq!(results[..2], ["a b", "c"]);
    assert!(results[2].contains("the user said no"), "{results:?}");
}

#[test]
fn a_session_has_one_server_for_all_its_runs() {
    let sandbox = world();
    let replies = [call("s count"), answer("one"), call("s count"), answer("two")];
    let sandbox = sandbox.replies(replies.map(Answer::from));
    sandbox.repl(&[""; 0]).stdin("first\nsecond\n").run().assert_exit(0).stdout_is("one\n\ntwo\n");
    assert_eq!(results(&sandbox), ["1", "2"]);
    wait_until("the server has ended", || !servers_running(&sandbox));
}

#[test]
fn two_runs_at_once_have_a_server_each_and_calls_share_one_that_is_kept() {
    let sandbox = world();
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| match request.user().matches("</nagent-shell-result").count() {
        0 | 1 => call("s count").into(),
        _ => answer("done").into(),
    });
    let runs = ["one", "two"].map(|name| sandbox.cmd(&["-c", name, "task"]).spawn());
    for run in runs {
        run.wait().assert_exit(0);
    }
    for name in ["one", "two"] {
        let text = sandbox.root().join("conversations").join(name);
        let blocks = blocks(&std::fs::read_to_string(text).unwrap());
        let results = blocks.iter().filter(|block| block.name == "nagent-shell-result");
        assert_eq!(results.map(|block| &block.body).collect::<Vec<_>>(), ["1", "2"]);
    }
    wait_until("the servers have ended", || !servers_running(&sandbox));

    let keep = sandbox.program(MCP, &["keep", "s"]).spawn();
    wait_until("it is kept", || keep.stderr_so_far().contains("kept running"));
    let calls = [(); 4].map(|()| sandbox.program(MCP, &["call", "s", "count"]).spawn());
    let mut counts = calls.map(|call| call.wait().assert_exit(0).stdout);
    counts.sort();
    assert_eq!(counts, ["1\n", "2\n", "3\n", "4\n"]);
}
