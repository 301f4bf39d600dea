//! MCP servers as Unix tools: the file that names them, the arguments of a call, its result, and the process that keeps the
//! servers of a run.
//!
//! It does not speak the protocol: the SDK does, in the executable `nagent-mcp` alone, whose process [`host`] starts and
//! talks to in lines of JSON. It knows no tool of nagent's, and shows nothing.
//!
//! ```
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}, "n": {"type": "integer"}}});
//! let words = ["tags=a", "n=3"].map(str::to_owned);
//! let (arguments, _) = nagent::mcp::arguments::read_arguments(&words, &schema).unwrap();
//! assert_eq!(arguments, *json!({"tags": ["a"], "n": 3}).as_object().unwrap());
//! ```

pub mod arguments;
pub mod host;
pub mod result;
pub mod servers;

/// The flag with which this executable is the process that keeps servers.
pub const HOST_FLAG: &str = "--host";
