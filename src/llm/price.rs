//! What a reply costs. Prices come from the config, key `prices`: built-in ones would go stale.

use serde::{Deserialize, Serialize};

use super::Usage;

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that was neither read from the cache nor written to it.
    pub input: f64,
    /// Input read from the cache; as `input` where the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Input written to the cache; as `input` where the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Output, reasoning included.
    pub output: f64,
}

/// The cost in US dollars. An estimate where the usage is one.
pub fn compute_cost(price: &Price, usage: &Usage) -> f64 {
    let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written);
    let dollars = plain as f64 * price.input
        + usage.cached as f64 * price.cached.unwrap_or(price.input)
        + usage.cache_written as f64 * price.cache_write.unwrap_or(price.input)
        + usage.output as f64 * price.output;
    dollars / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_token_has_its_price() {
        let price: Price =
            serde_json::from_str(r#"{"input":3,"cached":0.3,"cache_write":3.75,"output":15}"#)
                .unwrap();
        let usage = Usage {
            input: 1_000_000,
            cached: 600_000,
            cache_written: 100_000,
            output: 10_000,
            estimated: false,
        };
        let expect = 0.3 * 3.0 + 0.6 * 0.3 + 0.1 * 3.75 + 0.01 * 15.0;
        assert!((compute_cost(&price, &usage) - expect).abs() < 1e-9);
        // Counts that do not fit together cost no negative amount.
        let odd = Usage { input: 1, cached: 5, ..Usage::default() };
        assert!(compute_cost(&price, &odd) > 0.0);
    }

    #[test]
    fn cache_prices_default_to_the_input_price() {
        let price: Price = serde_json::from_str(r#"{"input":2,"output":8}"#).unwrap();
        let usage = Usage {
            input: 3_000_000,
            cached: 1_000_000,
            cache_written: 1_000_000,
            ..Usage::default()
        };
        assert!((compute_cost(&price, &usage) - 6.0).abs() < 1e-9);
        assert!(serde_json::from_str::<Price>(r#"{"input":2,"ouput":8}"#).is_err());
    }
}
