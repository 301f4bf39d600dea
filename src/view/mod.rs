//! The display of a run: its events as values, and those as rows for a terminal.
//!
//! [`event`] has the events, which are also the lines of `--lines`; a parent reads those of its children. `render` makes
//! rows of them, [`columns`](conversation::format::columns) measures and wraps. Pure: nothing here prints.

pub mod event;
pub mod figures;
pub mod look;
pub mod markdown;
pub mod question;
pub mod render;
pub mod session;
pub mod style;
pub mod table;
