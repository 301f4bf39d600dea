//! Scripts in JavaScript that can do nothing without permission: their API, their policy, and the process that runs
//! them.
//!
//! The engine itself is in the executable `nagent-js`; scripts in plain language are run by `ops::scripts`.
//!
//! ```
//! use sandbox::script::policy::{AccessRequest, Approval, Layers, Policy};
//!
//! let own = Policy::parse(r#"{"net": {"hosts": {"entries": [{"host": "a.example", "approval": "allow"}]}}}"#).unwrap();
//! let layers = Layers { own, global: Policy::parse("{}").unwrap() };
//! let decide = |host| layers.decide(AccessRequest::Host(host, 443), false);
//! assert_eq!((decide("a.example"), decide("b.example")), (Approval::Allow, Approval::Prompt));
//! ```

pub mod bridges;
mod fetch;
mod guarded;
pub mod js;
pub mod js_worker;
pub mod permission;
pub mod policy;
pub mod thought;
pub mod thoughts;
