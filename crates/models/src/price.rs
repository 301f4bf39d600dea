//! Computes the cost of a reply. [`super::catalog`] has the prices of models; those of the config, under the key
//! `prices`, take precedence. A reply of a model without a price has an unknown cost.

use serde::{Deserialize, Serialize};

use conversation::model::Usage;

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that was neither read from the cache nor written to it.
    pub input: f64,
    /// Input read from the cache; the price of `input` if the config has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Input written to the cache; the price of `input` if the config has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Output, reasoning included.
    pub output: f64,
    /// The surcharge for long inputs.
    #[serde(skip)]
    pub long: Option<LongInput>,
}

/// The surcharge for a request with a long input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongInput {
    /// The number of input tokens above which all of the request costs more.
    pub above: u64,
    /// The factor for input, cached or not.
    pub input: f64,
    /// The factor for output.
    pub output: f64,
}

impl Price {
    /// The same price times a factor; cached input has a factor of its own.
    pub(super) fn multiply(self, factor: f64, cached: f64) -> Self {
        Self {
            input: self.input * factor,
            cached: self.cached.map(|price| price * cached),
            cache_write: self.cache_write.map(|price| price * factor),
            output: self.output * factor,
            long: self.long,
        }
    }
}

/// The cost in US dollars. It is an estimate if the usage is one.
pub fn compute_cost(price: &Price, usage: &Usage) -> f64 {
    let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written);
    let long = price.long.filter(|long| usage.input > long.above);
    let (more_in, more_out) = long.map_or((1.0, 1.0), |long| (long.input, long.output));
    let input = plain as f64 * price.input
        + usage.cached as f64 * price.cached.unwrap_or(price.input)
        + usage.cache_written as f64 * price.cache_write.unwrap_or(price.input);
    (input * more_in + usage.output as f64 * price.output * more_out) / 1e6
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
            ..Usage::default()
        };
        let expect = 0.3 * 3.0 + 0.6 * 0.3 + 0.1 * 3.75 + 0.01 * 15.0;
        assert!((compute_cost(&price, &usage) - expect).abs() < 1e-9);
        // Counts that do not fit together cost no negative amount.
        let odd = Usage { input: 1, cached: 5, ..Usage::default() };
        assert!(compute_cost(&price, &odd) > 0.0);
    }

    #[test]
    fn a_long_input_costs_more() {
        let long = Some(LongInput { above: 272_000, input: 2.0, output: 1.5 });
        let price =
            Price { input: 5.0, cached: Some(0.5), cache_write: Some(5.0), output: 30.0, long };
        let cost =
            |input| compute_cost(&price, &Usage { input, output: 1_000_000, ..Usage::default() });
        assert!((cost(200_000) - 31.0).abs() < 1e-9 && (cost(300_000) - 48.0).abs() < 1e-9);
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
