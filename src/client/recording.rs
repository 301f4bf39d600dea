//! A recorded exchange as backend, and the recording of one. A conversation is a recording, too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::format::conversation::{self, Piece};
use crate::limits::CONVERSATION;
use crate::llm::conversation_replay::{PlayedConversation, PlayedReply, result_head};
use crate::llm::replay::{self, RecordedReply, Recording};
use crate::llm::{ApiError, ErrorKind, Reply, StopReason, Usage};
use crate::sys::fs;

pub(super) struct Player {
    source: Source,
    path: PathBuf,
}

enum Source {
    /// A recording, and the lineage of the run in it.
    Lines(Recording, String),
    /// A conversation, and after it those of its children.
    Conversations(Vec<PlayedConversation>),
}

/// What a run knows of its own conversation before a reply.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    /// The heads of the results since the last reply.
    pub(super) results: Vec<String>,
    prompts: Vec<String>,
    /// How many turns there were.
    turns: u64,
}

impl Before {
    pub(super) fn read(text: &str, pieces: &[Piece]) -> Self {
        let is_reply = |piece: &Piece| piece.name() == Some("agent-response");
        let since = pieces.iter().rposition(is_reply).map_or(0, |at| at + 1);
        let of_name = |name: &'static str| pieces.iter().filter(move |it| it.name() == Some(name));
        Self {
            results: pieces[since..].iter().filter_map(result_head).collect(),
            prompts: of_name("user-prompt").map(|piece| piece.text(text).to_owned()).collect(),
            turns: of_name("nagent-turn-status").count() as u64,
        }
    }
}

impl Player {
    pub(super) fn open_recording(path: &Path, lineage: String) -> Result<Self> {
        let text = read(path)?;
        let source = if text.trim_start().starts_with('<') {
            Source::Conversations(read_conversations(path, &text)?)
        } else {
            let recording = Recording::parse(&text)
                .map_err(|(line, why)| anyhow!("{}: line {line}: {why}", path.display()))?;
            Source::Lines(recording, lineage)
        };
        Ok(Self { source, path: path.to_owned() })
    }

    /// The recorded reply, and a note where the results before it are not the recorded ones. `turn` is that of the run.
    pub(super) fn reply(
        &self,
        turn: u64,
        before: &Before,
    ) -> Result<(Reply, Option<String>), ApiError> {
        let path = self.path.display();
        let missing = |message: String| ApiError::new(ErrorKind::Other, &message);
        let (text, usage, after, place) = match &self.source {
            Source::Lines(recording, lineage) => {
                let entry = recording.find_reply(lineage, turn).ok_or_else(|| {
                    missing(format!(
                        "the recording {path} has no turn {turn} of conversation {lineage}"
                    ))
                })?;
                let usage = entry.usage.unwrap_or_else(|| Usage::estimate(&entry.reply));
                (entry.reply.clone(), usage, &entry.after, format!("turn {turn} of {lineage}"))
            }
            Source::Conversations(all) => {
                let turn = before.turns + 1;
                let own = all.iter().find(|it| it.has_prompts(&before.prompts)).or(all.first());
                let played = own.and_then(|own| own.reply(turn)).ok_or_else(|| {
                    missing(format!("the conversation {path} has no turn {turn} to play"))
                })?;
                let PlayedReply { text, kept, after, usage, .. } = played;
                let kept = kept.as_ref().and_then(|kept| read(Path::new(kept)).ok());
                let text = kept.unwrap_or_else(|| text.clone());
                (text, *usage, after, format!("turn {turn}"))
            }
        };
        let note = replay::describe_difference(after, &before.results)
            .map(|difference| format!("replay, {place}: {difference}"));
        Ok((Reply { text, usage, stop: StopReason::End, model: None }, note))
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_text(path, CONVERSATION)?
        .with_context(|| format!("there is no recording at {}", path.display()))
}

/// A conversation and those of its children, which are beside it.
fn read_conversations(path: &Path, text: &str) -> Result<Vec<PlayedConversation>> {
    let first = PlayedConversation::read(text, &conversation::parse(text).pieces);
    if first.is_empty() {
        bail!("{} has no reply to play", path.display());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut seen = HashSet::new();
    let mut all = vec![first];
    let mut at = 0;
    while let Some(names) = all.get(at).map(|one| one.children.clone()) {
        at += 1;
        for name in names.into_iter().filter(|name| seen.insert(name.clone())) {
            // A child whose file is not there cannot be played; the run says so when it asks.
            if let Ok(Some(text)) = fs::read_text(&folder.join(&name), CONVERSATION) {
                all.push(PlayedConversation::read(&text, &conversation::parse(&text).pieces));
            }
        }
    }
    Ok(all)
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
