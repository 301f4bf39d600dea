//! The core of nagent, without effects: the conversation file, the tags of a reply, and the loop as a value.
//!
//! Start reading at [`turn`]: an event goes in, the next effect comes out. Then [`protocol::tags`], the one table of
//! tags, and [`format::file`], the grammar of the file. Nothing here opens a file, sends a request to a model or reads
//! a clock, and nothing knows which provider answers.
//!
//! ```
//! use conversation::format::file::parse;
//!
//! let parsed = parse("<user-prompt>\nWhich host is in trouble?\n</user-prompt>\n");
//! assert!(parsed.trouble.is_none());
//! assert_eq!(parsed.pieces.len(), 1);
//! ```

pub mod approve;
pub mod compact;
pub mod context;
pub mod exit;
pub mod format;
pub mod legacy;
pub mod limits;
pub mod memory;
pub mod model;
pub mod problem;
pub mod prompt;
pub mod protocol;
pub mod reason;
pub mod redact;
pub mod shown_file;
pub mod turn;
