//! Settings by name, laid over the rest, and which sandbox they ask for. The sandbox itself is tested by `make torture`.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

fn with_profiles() -> Sandbox {
    Sandbox::new().config(json!({
        "sandbox": "off",
        "max_turns": 9,
        "profiles": {"careful": {"sandbox": "workspace", "no_network": true}, "short": {"max_turns": 3}}
    }))
}

fn settings(sandbox: &Sandbox, flags: &[&str]) -> Value {
    let words: Vec<&str> = ["--status", "--json"].iter().chain(flags).copied().collect();
    sandbox.run(&words).assert_exit(0).json()["settings"].take()
}

#[test]
fn a_flag_counts_before_a_variable_and_that_before_the_config() {
    let sandbox = with_profiles();
    let check =
        |sandbox: &Sandbox, flags: &[&str], mode: &str, network: bool, turns: u64, from: &str| {
            let settings = settings(sandbox, flags);
            assert_eq!(settings["sandbox"]["value"], mode, "{flags:?}");
            assert_eq!(settings["no_network"]["value"], network, "{flags:?}");
            assert_eq!(settings["max_turns"]["value"], turns, "{flags:?}");
            let told = settings["sandbox"]["from"].as_str().unwrap();
            assert!(told.ends_with(from), "{told} is not {from}");
        };
    check(&sandbox, &[], "off", false, 9, "config.json");
    check(
        &sandbox,
        &["--profile", "careful"],
        "workspace",
        true,
        9,
        "config.json, profile careful",
    );
    check(&sandbox, &["--profile", "short"], "off", false, 3, "config.json");
    let flags = ["--profile", "careful", "--sandbox", "read-only", "--no-network=false"];
    check(&sandbox, &flags, "read-only", false, 9, "flag");
    let sandbox = sandbox.env("NAGENT_PROFILE", "careful");
    check(&sandbox, &[], "workspace", true, 9, "profile careful");
    check(&sandbox, &["--profile", "short"], "off", false, 3, "config.json");
}

#[test]
fn a_profile_that_is_not_there_is_named_with_those_there_are() {
    let sandbox = with_profiles();
    let run = sandbox.run(&["--profile", "carefull", "task"]).assert_exit(2);
    run.stderr_has(&["carefull", "careful, short", "config.json"]);
    assert!(sandbox.requests().is_empty());
}

#[test]
fn status_says_what_stands_or_what_is_missing() {
    let sandbox = Sandbox::new();
    let status =
        sandbox.run(&["--status", "--json", "--sandbox", "workspace"]).assert_exit(0).json();
    assert_eq!(status["sandbox"], "workspace");
    // On any machine it is one or the other.
    assert!(status["sandbox_kind"].is_string() != status["sandbox_error"].is_string(), "{status}");
    let status = sandbox.run(&["--status", "--json"]).assert_exit(0).json();
    assert_eq!((&status["sandbox"], &status["sandbox_error"]), (&json!("off"), &Value::Null));
}
