//! A recorded exchange as backend, and the recording of one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::format::conversation::Piece;
use crate::llm::replay::{self, RecordedReply, Recording};
use crate::llm::{ApiError, ErrorKind, Reply, StopReason, Usage};
use crate::sys::fs;

pub(super) struct Player {
    recording: Recording,
    lineage: String,
    path: String,
}

impl Player {
    pub(super) fn open_recording(path: &Path, lineage: String) -> Result<Self> {
        let text = fs::read_text(path, crate::limits::CONVERSATION)?
            .with_context(|| format!("there is no recording at {}", path.display()))?;
        let recording = Recording::parse(&text)
            .map_err(|(line, why)| anyhow!("{}: line {line}: {why}", path.display()))?;
        Ok(Self { recording, lineage, path: path.display().to_string() })
    }

    /// The recorded reply, and a note where the results before it are not the recorded ones.
    pub(super) fn reply(
        &self,
        turn: u64,
        results: &[String],
    ) -> Result<(Reply, Option<String>), ApiError> {
        let Self { recording, lineage, path } = self;
        let entry = recording.find_reply(lineage, turn).ok_or_else(|| {
            let message =
                format!("the recording {path} has no turn {turn} of conversation {lineage}");
            ApiError::new(ErrorKind::Other, &message)
        })?;
        let note = replay::describe_difference(&entry.after, results)
            .map(|difference| format!("replay, turn {turn} of {lineage}: {difference}"));
        let text = entry.reply.clone();
        let usage = entry.usage.unwrap_or_else(|| Usage::estimate(&text));
        Ok((Reply { text, usage, stop: StopReason::End, model: None }, note))
    }
}

pub(super) struct Recorder {
    pub(super) path: PathBuf,
    pub(super) lineage: String,
}

impl Recorder {
    pub(super) fn append(&self, turn: u64, results: Vec<String>, reply: &Reply) -> Result<()> {
        let entry = RecordedReply {
            conversation: self.lineage.clone(),
            turn,
            after: results,
            reply: reply.text.clone(),
            usage: Some(reply.usage),
        };
        fs::append_text(&self.path, &entry.format())
    }
}

/// The results in a conversation since the last reply, each as `NAME STATUS exit_code=N`.
pub(super) fn list_results(conversation: &[Piece]) -> Vec<String> {
    let is_reply = |piece: &Piece| piece.name() == Some("agent-response");
    let since = conversation.iter().rposition(is_reply).map_or(0, |at| at + 1);
    let describe = |piece: &Piece| {
        let name = piece.name().filter(|name| name.ends_with("-result"))?;
        let code = piece.get("exit_code").map(|code| format!(" exit_code={code}"));
        Some(format!("{name} {}{}", piece.get("status").unwrap_or("?"), code.unwrap_or_default()))
    };
    conversation[since..].iter().filter_map(describe).collect()
}
