//! How a conversation and its runs look to a person: the events of a run as rows of a terminal, answers as Markdown, a
//! conversation as an overview and a transcript.
//!
//! [`event`] has the events, which are also the lines of `--lines`; a parent reads those of its children. [`render`] makes
//! rows of them, [`columns`](conversation::format::columns) measures and wraps. Values in, texts out: nothing here prints,
//! and what is shown when is decided by `ops::screen`.
//!
//! ```
//! use view::markdown::Markdown;
//!
//! let mut answer = Markdown::default();
//! let shown = answer.push("It **works**.\n", (80, 24)) + &answer.end();
//! assert!(shown.contains("works") && shown.ends_with('\n'));
//! ```

pub mod event;
pub mod figures;
pub mod look;
pub mod markdown;
pub mod overview;
pub mod question;
pub mod render;
pub mod session;
pub mod style;
pub mod table;
