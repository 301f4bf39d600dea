//! Questions with closed sets of answers: the request, the JSON Schema of its reply, which the model reads, and the
//! reply, which is validated against it. Pure.
//!
//! ```text
//! {"context": "…", "constraints": ["…"], "rationale": false, "confidence": false,
//!  "questions": {"q": {"question": "Is it spam?", "type": "choice", "options": ["yes", "no"]}},
//!  "items": [{"id": "1", "context": "…"}, "…"]}
//! ```
//!
//! `choice` has one of the options, `multi` one or more, `score` a level of `levels` for every option. Without `items`
//! there is a single decision, whose item is null.

pub mod classify;
pub mod prompt;
pub mod reply;
pub mod request;
