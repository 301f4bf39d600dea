//! Windows and prices: what is listed of models, what a run costs, and what ends it.

use serde_json::json;

use crate::answers::Answer;
use crate::models::work_at;
use crate::sandbox::{Sandbox, answer};

#[test]
fn the_list_of_models_has_windows_prices_and_days() {
    let soon = std::time::SystemTime::now() + std::time::Duration::from_hours(24 * 30);
    let soon = humantime::format_rfc3339(soon).to_string()[..10].to_owned();
    let sandbox = work_at("openrouter", &json!({})).env("OPENROUTER_API_KEY", "k");
    let list = json!({"data": [
        {"id": "a/cheap", "context_length": 4096, "pricing": {"prompt": "0.000001", "completion": "0.000002"}},
        {"id": "openai/gpt-5.5", "context_length": 1_050_000, "shutdown_date": soon},
        {"id": "b/far", "expiration_date": "2099-01-01"},
    ]});
    sandbox.llm.beside(move |_| Some(Answer::raw(200, "application/json", list.to_string())));
    let run = sandbox.run(&["--profile", "work", "--list-models"]).assert_exit(0);
    let lines: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let near = format!("ends {soon}");
    let words = "reasoning none|low|medium|high|xhigh";
    assert_eq!(lines[0], ["a/cheap", "4096 tokens", "$1/$2"]);
    assert_eq!(lines[1], ["b/far", "ends 2099-01-01"]);
    assert_eq!(lines[2], ["openai/gpt-5.5", "1050000 tokens", words, &near]);
    let column = |part: &str| run.stdout.lines().filter_map(|line| line.find(part)).max();
    assert_eq!(column(" tokens").unwrap(), 23, "{}", run.stdout);
    let json = sandbox.run(&["--profile", "work", "--list-models", "--json"]).assert_exit(0).json();
    assert_eq!(json["models"], json!(["a/cheap", "b/far", "openai/gpt-5.5"]));
    assert_eq!(json["details"][1]["ends"], "2099-01-01");
}

#[test]
fn a_cost_is_limited_by_the_price_that_the_server_lists() {
    let sandbox = work_at("openrouter", &json!({})).env("OPENROUTER_API_KEY", "k");
    let list =
        json!({"data": [{"id": "m", "pricing": {"prompt": "0.001", "completion": "0.002"}}]});
    sandbox.llm.beside(move |_| Some(Answer::raw(200, "application/json", list.to_string())));
    sandbox.llm.push(answer("done"));
    let args = ["--profile", "work", "--max-cost", "5", "--json", "task"];
    let cost = sandbox.run(&args).assert_exit(0).json()["cost"].as_f64().unwrap();
    assert!((cost - 1.02).abs() < 1e-9, "{cost}");
    // A server of one's own has a price only where the user says one.
    let run = Sandbox::new().run(&["--max-cost", "5", "task"]).assert_exit(2);
    run.stderr_has(&["the price of model test-model"]);
}

#[test]
fn absurd_counts_end_a_run_at_its_limits_and_break_nothing() {
    let reply = |text: &str| {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
        let usage = r#"{"prompt_tokens": 1e300, "completion_tokens": -7, "prompt_tokens_details": {"cached_tokens": 18446744073709551615}}"#;
        let body =
            format!("data: {{\"choices\":[{choice}],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
        Answer::raw(200, "text/event-stream", body)
    };
    let prices = json!({"prices": {"test-model": {"input": 1, "output": 1}}});
    let sandbox = Sandbox::new().config_also(prices);
    sandbox.llm.choose(move |request| {
        let has_acted = request.user().contains("nagent-shell-result");
        if has_acted { reply(&answer("done")) } else { reply(&crate::sandbox::shell("true")) }
    });
    let document = sandbox.run(&["-n", "--json", "task"]).assert_exit(0).json();
    assert_eq!(document["tokens_in"], json!(u64::MAX), "{document}");
    assert!(document["cost"].as_f64().unwrap().is_finite(), "{document}");
    for limit in ["--max-tokens", "--max-cost"] {
        let run = sandbox.run(&["-n", limit, "1000", "task"]).assert_exit(5);
        run.stderr_has(&[limit]);
    }
}

#[test]
fn a_class_of_service_has_its_price_or_the_cost_is_unknown() {
    let sandbox = work_at("groq", &json!({"model": "openai/gpt-oss-120b"}));
    let sandbox = sandbox.env("GROQ_API_KEY", "k");
    let cost = |args: &[&str]| {
        sandbox.llm.push(answer("done"));
        let run = sandbox.run(&[&["--profile", "work", "--json", "-n"], args, &["task"]].concat());
        run.assert_exit(0).json()["cost"].clone()
    };
    let usual = cost(&[]);
    assert!(usual.as_f64().unwrap() > 0.0, "{usual}");
    assert_eq!(cost(&["--service-tier", "on_demand"]), usual);
    assert_eq!(cost(&["--service-tier", "flex"]), json!(null));
    let args = ["--profile", "work", "--service-tier", "flex", "--max-cost", "5", "task"];
    sandbox.run(&args).assert_exit(2).stderr_has(&["openai/gpt-oss-120b in service tier flex"]);
    // That of OpenAI is built in.
    let openai = Sandbox::new().config(json!({"provider": "openai", "model": "gpt-5.5"}));
    let args = |tier| ["--max-cost", "5", "--service-tier", tier, "--show-request", "task"];
    openai.run(&args("priority")).assert_exit(0);
    openai.run(&args("scale")).assert_exit(2).stderr_has(&["service tier scale"]);
}
