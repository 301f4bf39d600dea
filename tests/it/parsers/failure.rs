//! A reply that is an error: any status, headers and body give an error that is short, shows no key and waits a sane time.

use super::input::{APIS, Input};
use conversation::model::{ErrorKind, Retry};
use models::api::Endpoint;
use std::time::Duration;

const KEY: &str = "sk-canary-7f3a9b2c4d5e6f70";
const NAMES: [&str; 6] =
    ["retry-after", "Retry-After-Ms", "date", "x-should-retry", "location", "x-other"];

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let api = input.one_of(&APIS);
    let status = 100 + u16::from(input.byte()) * 2 + u16::from(input.byte() & 1);
    let mut headers = Vec::new();
    for _ in 0..input.byte() % 4 {
        let name = input.one_of(&NAMES).to_owned();
        headers.push((name, String::from_utf8_lossy(input.field()).into_owned()));
    }
    let endpoint = Endpoint::new(api, "https://api.example.org/v1", Some(KEY.to_owned()), true);
    let error = endpoint.failure(status, &headers, input.rest);
    assert!(error.message.chars().count() <= 2_000 && !error.message.is_empty());
    assert!(!error.message.contains("canary-7f3a9b2c4d5e6f70"), "{}", error.message);
    assert!(!error.message.contains(char::is_control), "{:?}", error.message);
    assert!(error.retry_after.is_none_or(|wait| wait <= Duration::from_hours(24 * 365)));
    let patience = Duration::from_mins(10);
    let mut retry = Retry::new(patience);
    let mut waited = Duration::ZERO;
    for _ in 0..1_000 {
        let Some(wait) = retry.next_wait(&error, 0.5) else { break };
        assert_ne!(error.kind, ErrorKind::NoCredit);
        waited += wait;
        assert!(waited <= patience);
    }
    assert!(!retry.final_message(&error).is_empty());
}
