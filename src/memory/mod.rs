//! What the blocks of a file's own conversation record of the file: which changes its runs made, and what the model saw last.
//! Pure: pieces of a conversation in, values out. Contents are named by their SHA-256 and stored in `outputs/`.
//!
//! ```text
//! <user-prompt at="…" cwd="…" before="SHA256">     the file's content when the run began; "none" where there was no file
//! <nagent-edit-result … after="SHA256" shown="SHA256">     what was written; what the model saw of the file, where that is
//!                                                  another text; "too-large": nothing
//! <system change="run" path="P" before="SHA256" after="SHA256">…      what a run did; one block for each stretch between
//!                                                  changes of others
//! <system change="undo" path="P" before="SHA256" after="SHA256" count="N">…    the user undid the last N; 0: only what a
//!                                                  killed run did, which has no block
//! <system fork="NAME">…                            the file of the conversation was changed during a run, which went on in NAME
//! ```

pub mod changes;
