//! What a file's own conversation says of its file: which changes its runs made, and what the model was last shown. Pure:
//! pieces of a conversation in, values out; contents are named by their SHA-256 and kept in `outputs/`.
//!
//! ```text
//! <user-prompt at="…" cwd="…" before="SHA256">     the file's content when the run began; "none": there was no file
//! <nagent-edit-result … after="SHA256" shown="SHA256">     what was written; what the model knows of the file since, where
//!                                                  that is another text; "too-large": nothing any more
//! <system change="run" path="P" before="SHA256" after="SHA256">…      what a run did that has ended; one block for each
//!                                                  stretch between changes of others
//! <system change="undo" path="P" before="SHA256" after="SHA256" count="N">…    the user took the last N back; 0: only
//!                                                  what a killed run did, which has no block
//! ```

pub mod changes;
