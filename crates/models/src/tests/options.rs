//! What requests ask for besides their texts, in the words of every API and server.

use serde_json::{Value, json};

use super::super::ChatRequest;
use super::super::api::Endpoint;
use super::super::options::{ChatOptions, Reasoning};
use super::super::server::KnownServer;
use super::{AnyApi, Chat, Gemini, Messages, Ollama, Responses, endpoint};
use conversation::model::{RequestMessage, Role};

/// The members of a body that an option has set: all but the usual ones.
fn members(endpoint: &Endpoint, model: &str, options: &ChatOptions) -> Value {
    let messages = vec![RequestMessage { role: Role::User, parts: vec!["a"] }];
    let ask = ChatRequest {
        model,
        system: None,
        messages,
        files: Vec::new(),
        cache_key: None,
        max_output: None,
        window: None,
        options,
    };
    let mut body: Value = serde_json::from_slice(&endpoint.chat_request(&ask).body).unwrap();
    let usual = "model store stream stream_options truncate shift input messages contents";
    for key in usual.split(' ') {
        body.as_object_mut().unwrap().remove(key);
    }
    body
}

fn thinking(api: AnyApi, server: &str, model: &str, level: Reasoning) -> Value {
    let endpoint =
        Endpoint { server: KnownServer::find_server(server), ..endpoint(api, server.is_empty()) };
    let options = ChatOptions { reasoning: Some(level), ..ChatOptions::default() };
    members(&endpoint, model, &options)
}

#[test]
fn reasoning_in_the_words_of_every_api() {
    use Reasoning::{High, Low, Max, Off, Tokens};
    let check = |api: AnyApi, model: &str, level, expect: Value| {
        assert_eq!(thinking(api, "", model, level), expect, "{model} {level}");
    };
    check(&Responses, "gpt-5.5", Max, json!({"reasoning": {"effort": "xhigh"}}));
    check(&Chat, "gpt-5.5", Off, json!({"reasoning_effort": "none"}));
    check(&Responses, "gpt-4o", Off, json!({}));
    check(&Chat, "codestral-latest", Off, json!({}));
    let adaptive = |effort: &str| json!({"max_tokens": 32_000, "thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    check(&Messages, "claude-sonnet-5-5", Max, adaptive("max"));
    check(&Messages, "claude-sonnet-5-5", Off, adaptive("low"));
    check(&Messages, "claude-sonnet-5-5", Tokens(9_000), adaptive("medium"));
    let off = json!({"max_tokens": 32_000, "thinking": {"type": "disabled"}});
    check(&Messages, "claude-sonnet-4-6", Off, off);
    let budget =
        json!({"max_tokens": 34_048, "thinking": {"type": "enabled", "budget_tokens": 2_048}});
    check(&Messages, "claude-haiku-4-5", Low, budget);
    check(&Messages, "claude-haiku-4-5", Off, json!({"max_tokens": 32_000}));
    let config = |value: Value| json!({"generationConfig": {"thinkingConfig": value}});
    check(&Gemini, "gemini-3.8-flash", Off, config(json!({"thinkingLevel": "LOW"})));
    check(&Gemini, "gemini-3.6-flash", Off, config(json!({"thinkingLevel": "MINIMAL"})));
    check(&Gemini, "gemini-3.8-flash", Max, config(json!({"thinkingLevel": "HIGH"})));
    check(&Gemini, "gemini-2.5-flash", Off, config(json!({"thinkingBudget": 0})));
    check(&Gemini, "gemini-2.5-pro", Tokens(500), config(json!({"thinkingBudget": 500})));
    check(&Ollama, "qwen3:8b", Off, json!({"think": false}));
    check(&Ollama, "qwen3:8b", High, json!({"think": "high"}));
}

#[test]
fn reasoning_in_the_words_of_every_server() {
    use Reasoning::{High, Max, Off, Tokens};
    let check = |server: &str, model: &str, level, expect: Value| {
        assert_eq!(thinking(&Chat, server, model, level), expect, "{server} {level}");
    };
    check("openrouter", "x/y", Off, json!({"reasoning": {"enabled": false}}));
    check("openrouter", "x/y", Tokens(2_000), json!({"reasoning": {"max_tokens": 2_000}}));
    check("openrouter", "x/y", Max, json!({"reasoning": {"effort": "high"}}));
    let on = json!({"thinking": {"type": "enabled"}, "reasoning_effort": "max"});
    check("deepseek", "deepseek-v4-pro", Max, on);
    check("deepseek", "deepseek-v4-pro", Off, json!({"thinking": {"type": "disabled"}}));
    let off = json!({"chat_template_kwargs": {"enable_thinking": false}});
    check("llama.cpp", "qwen", Off, off);
    let on = json!({"chat_template_kwargs": {"enable_thinking": true}, "reasoning_effort": "high"});
    check("vllm", "qwen", High, on);
    check("groq", "openai/gpt-oss-120b", High, json!({"reasoning_effort": "high"}));
    check("mistral", "mistral-small-latest", Off, json!({"reasoning_effort": "none"}));
}

#[test]
fn what_a_model_thinks_is_asked_for_where_it_is_to_be_shown() {
    let check = |api: AnyApi, model: &str, reasoning, expect: Value| {
        let options = ChatOptions { reasoning, shows_reasoning: true, ..ChatOptions::default() };
        assert_eq!(members(&endpoint(api, true), model, &options), expect, "{model}");
    };
    check(&Responses, "gpt-5.5", None, json!({"reasoning": {"summary": "auto"}}));
    check(&Responses, "gpt-4o", None, json!({}));
    let shown = json!({"type": "adaptive", "display": "summarized"});
    let always = json!({"max_tokens": 32_000, "thinking": shown});
    check(&Messages, "claude-sonnet-5-5", None, always);
    // It thinks only where it is told to: showing must not change that.
    check(&Messages, "claude-sonnet-4-6", None, json!({"max_tokens": 32_000}));
    let told = json!({"max_tokens": 32_000, "thinking": shown, "output_config": {"effort": "low"}});
    check(&Messages, "claude-sonnet-4-6", Some(Reasoning::Low), told);
    let config = json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}}});
    check(&Gemini, "gemini-3.8-flash", None, config);
}

#[test]
fn sampling_and_service() {
    let options = ChatOptions {
        temperature: Some(0.5),
        seed: Some(7),
        service_tier: Some("flex".to_owned()),
        ..ChatOptions::default()
    };
    let check = |api: AnyApi, server: &str, expect: Value| {
        let endpoint =
            Endpoint { server: KnownServer::find_server(server), ..endpoint(api, false) };
        assert_eq!(members(&endpoint, "m", &options), expect, "{server}");
    };
    let plain = json!({"temperature": 0.5, "service_tier": "flex"});
    check(&Responses, "", plain.clone());
    let mut seeded = plain.clone();
    seeded["seed"] = json!(7);
    check(&Chat, "groq", seeded);
    let mut mistral = plain.clone();
    mistral["random_seed"] = json!(7);
    check(&Chat, "mistral", mistral);
    let mut anthropic = plain;
    anthropic["max_tokens"] = json!(8_192);
    check(&Messages, "", anthropic);
    let config = json!({"temperature": 0.5, "seed": 7});
    check(&Gemini, "", json!({"generationConfig": config, "serviceTier": "flex"}));
    check(&Ollama, "", json!({"options": config}));
}

#[test]
fn anthropic_gets_no_temperature_while_it_thinks() {
    let check = |model: &str, reasoning, temperature, expect: bool| {
        let temperature = Some(temperature);
        let options = ChatOptions { reasoning, temperature, ..ChatOptions::default() };
        let body = members(&endpoint(&Messages, true), model, &options);
        assert_eq!(body.get("temperature").is_some(), expect, "{model} {reasoning:?}: {body}");
    };
    let (low, off) = (Some(Reasoning::Low), Some(Reasoning::Off));
    check("claude-haiku-4-5", None, 0.5, true);
    check("claude-haiku-4-5", low, 0.5, false);
    check("claude-haiku-4-5", low, 1.0, true);
    check("claude-sonnet-4-6", low, 0.5, false);
    check("claude-sonnet-4-6", off, 0.5, true);
    // It cannot be told not to think.
    check("claude-sonnet-5-5", None, 0.5, false);
    check("claude-sonnet-5-5", off, 0.5, false);
    check("of-nobody", None, 0.5, true);
}

#[test]
fn members_of_the_user_lie_over_those_of_the_api() {
    let mut endpoint = endpoint(&Gemini, true);
    let own =
        json!({"generationConfig": {"topK": 3, "temperature": null}, "contents": "x", "x": 1});
    let Value::Object(own) = own else { unreachable!() };
    endpoint.body = own;
    let options = ChatOptions { temperature: Some(0.5), seed: Some(7), ..ChatOptions::default() };
    let expect = json!({"generationConfig": {"seed": 7, "topK": 3}, "x": 1});
    assert_eq!(members(&endpoint, "m", &options), expect);
}
