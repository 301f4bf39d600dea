//! The config, names of providers and addresses of servers.

use super::input::Input;
use conversation::model::Usage;
use models::catalog;
use models::price::compute_cost;
use models::provider::{Provider, ollama_address};
use nagent::config;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let which = input.byte();
    let text = input.text();
    if which.is_multiple_of(2) {
        let usage =
            Usage { input: u64::MAX, cached: 3, cache_written: 4, output: 5, ..Usage::default() };
        match config::parse(&text, None) {
            Ok(config::Parsed { values, notes, .. }) => {
                assert!(notes.len() <= 40);
                for price in config::Config::from_values(&values).unwrap().prices.values() {
                    assert!(!compute_cost(price, &usage).is_nan());
                }
            }
            Err(why) => assert!(!why.is_empty()),
        }
        return;
    }
    catalog::find_model(&text);
    match Provider::parse(&text) {
        Ok(found) => assert_eq!(Provider::parse(found.name()), Ok(found)),
        Err(error) => assert!(!error.is_empty()),
    }
    let address = ollama_address(&text);
    assert!(address.contains("://"), "{address}");
    for provider in Provider::iter() {
        if let Some(endpoint) = provider.endpoint(Some(&text), None) {
            endpoint.models_request(Some(&text));
        }
    }
}
