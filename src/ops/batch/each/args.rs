//! What `nagent-each` is asked for.

use std::path::PathBuf;

use super::inputs::Shard;

/// What `nagent-each` is asked for besides what every run takes.
#[derive(Debug, Clone)]
pub struct EachArgs {
    /// Files and folders of the command line.
    pub files: Vec<PathBuf>,
    /// The file of `--lines`.
    pub lines: Option<PathBuf>,
    /// The file of `--jsonl`.
    pub jsonl: Option<PathBuf>,
    /// Whether each file is worked on in its own conversation.
    pub own: bool,
    /// Whether what is in the journal is continued.
    pub resume: bool,
    /// The journal, where the user names one.
    pub journal: Option<PathBuf>,
    /// Which part of the inputs is taken.
    pub shard: Option<Shard>,
    /// How many may fail.
    pub max_failures: Option<u64>,
}
