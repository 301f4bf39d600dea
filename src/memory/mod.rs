//! What a file's own conversation says of its file: which changes its runs made. Pure: pieces of a conversation in, values
//! out; contents are named by their SHA-256 and kept in `outputs/`. `shown` is [`crate::drive`]'s to read.
//!
//! ```text
//! <user-prompt at="…" cwd="…" before="SHA256">     the file's content when the run began; "none": there was no file
//! <nagent-edit-result … after="SHA256" shown="SHA256">     what was written; what the model knows of the file since
//! <system change="run" path="P" before="SHA256" after="SHA256">…      a run that changed the file has ended
//! <system change="undo" path="P" before="SHA256" after="SHA256" count="N">…    the user took the last N back
//! ```

pub mod changes;
