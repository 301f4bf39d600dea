//! Edits of texts: search/replace blocks and diffs, applied where their place is certain, and differences between
//! texts.
//!
//! Bytes in, bytes or values out. It reads and writes no file, and does not decide whether a file may be changed.
//!
//! ```
//! use conversation::format::edit::parse;
//!
//! let blocks = parse("<<<<<<< SEARCH\nhost = a\n=======\nhost = b\n>>>>>>> REPLACE\n").unwrap();
//! let applied = edits::apply::apply("port = 1\nhost = a\n", &blocks, false).unwrap();
//! assert_eq!(applied.text, "port = 1\nhost = b\n");
//! ```

pub mod apply;
pub mod diff;
pub mod written;
