//! A process in the engine's place that keeps to nothing: what it sends is data, and it never keeps a run waiting.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::process_under_test::Run;
use crate::sandbox::{NAGENT, Sandbox, answer};

/// A run of a script with a memory.js, whose engine is this shell script.
fn run(engine: &str) -> (Sandbox, Run) {
    // Where the executables are: a link to one is made sooner than a copy.
    let sandbox = Sandbox::outside_temp().file("hello.md", "Print hello.");
    let bin = sandbox.base().join("bin");
    fs::create_dir(&bin).unwrap();
    let think = bin.join("nagent-think");
    fs::hard_link(NAGENT, &think).or_else(|_| fs::copy(NAGENT, &think).map(drop)).unwrap();
    fs::write(bin.join("nagent-js"), format!("#!/bin/sh\n{engine}\n")).unwrap();
    fs::set_permissions(bin.join("nagent-js"), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = sandbox.home().join(".thinkingscript/thoughts/hello");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("memory.js"), "'never'").unwrap();
    sandbox.llm.push(answer("done"));
    let run = sandbox.program(think.to_str().unwrap(), &["--timeout", "1", "hello.md"]).run();
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
    (sandbox, run)
}

/// What such a run tells the model.
fn told(engine: &str) -> String {
    let (sandbox, run) = run(engine);
    run.assert_exit(0).no_stdout().within(20.0);
    let requests = sandbox.requests();
    requests[0].user()
}

#[test]
fn whatever_the_engine_sends_is_no_more_than_an_error() {
    const READY: &str = "echo '{\"ready\":true}'; read start;";
    for (engine, part) in [
        ("exit 0", "broke its protocol"),
        ("echo rubbish", "broke its protocol"),
        ("echo '{\"end\":{\"value\":\"early\"}}'", "broke its protocol"),
        (&format!("{READY} echo '{{\"call\":{{\"name\":\"fs.delete\"}}}}'"), "broke its protocol"),
        (
            &format!("{READY} printf '{{\"end\":{{\"exit\":0}}}}\\n{{\"end\":{{\"exit\":0}}}}\\n'"),
            "broke its protocol",
        ),
        (&format!("{READY} head -c 100000000 /dev/zero"), "broke its protocol"),
        (&format!("{READY} kill -9 $$"), "killed by signal 9"),
        (&format!("{READY} sleep 30"), "took longer than 1 s"),
        (
            &format!(
                "{READY} while :; do echo '{{\"call\":{{\"name\":\"no.such\",\"args\":[]}}}}'; read answer; done"
            ),
            "took longer than 1 s",
        ),
    ] {
        let told = told(engine);
        assert!(told.contains("did not finish") && told.contains(part), "{engine}: {told}");
    }
}

#[test]
fn without_the_sandbox_nothing_runs() {
    let (sandbox, run) = run("echo '{\"failed\":\"no seccomp\"}'");
    run.assert_exit(1).no_stdout().stderr_has(&["cannot be built, so nothing ran", "no seccomp"]);
    assert_eq!(sandbox.requests().len(), 0);
}
