//! A recorded exchange as backend, and the recording of one. A conversation is a recording, too.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use conversation::format::file::{self, Piece};
use conversation::limits::CONVERSATION;
use conversation::model::{ApiError, ErrorKind, Reply, StopReason, Usage};
use models::conversation_replay::{PlayedConversation, PlayedReply, result_head};
use models::replay::{self, RecordedReply, Recording};
use sys::fs;

/// A conversation, and its numbers among the children that were asked after a prompt.
type Played = (HashSet<String>, PlayedConversation);

pub(super) struct Player {
    source: PlaybackSource,
    path: PathBuf,
}

enum PlaybackSource {
    /// A recording, and the lineage of the run in it.
    Lines(Recording, String),
    /// A conversation, and after it those of its children; and the lineage of the run.
    Conversations(Vec<Played>, String),
}

/// The state of a run's own conversation before a reply.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    /// The heads of the results since the last reply.
    pub(super) results: Vec<String>,
    prompts: Vec<String>,
    /// The number of turns.
    turns: u64,
}

impl Before {
    pub(super) fn read(text: &str, pieces: &[Piece]) -> Self {
        let is_reply = |piece: &Piece| piece.name() == Some("agent-response");
        let since = pieces.iter().rposition(is_reply).map_or(0, |at| at + 1);
        let of_name = |name: &'static str| pieces.iter().filter(move |it| it.name() == Some(name));
        Self {
            results: pieces[since..].iter().filter_map(result_head).collect(),
            prompts: of_name("user-prompt").map(|piece| piece.body_text(text).to_owned()).collect(),
            turns: of_name("nagent-turn-status").count() as u64,
        }
    }
}

impl Player {
    pub(super) fn open_recording(path: &Path, lineage: String) -> Result<Self> {
        let text = read_played_file(path)?;
        let source = if text.trim_start().starts_with('<') {
            PlaybackSource::Conversations(read_conversations(path, &text)?, lineage)
        } else {
            let recording = Recording::parse(&text)
                .map_err(|(line, why)| anyhow!("{}: line {line}: {why}", path.display()))?;
            PlaybackSource::Lines(recording, lineage)
        };
        Ok(Self { source, path: path.to_owned() })
    }

    /// The recorded reply, and a note if other results came before it. `turn` is that of the run.
    pub(super) fn reply(
        &self,
        turn: u64,
        before: &Before,
    ) -> Result<(Reply, Option<String>), ApiError> {
        let path = self.path.display();
        let missing = |message: String| ApiError::new(ErrorKind::Other, &message);
        let (text, usage, after, place) = match &self.source {
            PlaybackSource::Lines(recording, lineage) => {
                let entry = recording.find_reply(lineage, turn).ok_or_else(|| {
                    missing(format!(
                        "the recording {path} has no turn {turn} of conversation {lineage}"
                    ))
                })?;
                let usage = entry.usage.unwrap_or_else(|| Usage::estimate(&entry.reply));
                (entry.reply.clone(), usage, &entry.after, format!("turn {turn} of {lineage}"))
            }
            PlaybackSource::Conversations(all, lineage) => {
                let turn = before.turns + 1;
                let has_prompts = |it: &&Played| it.1.has_prompts(&before.prompts);
                let (own, what) = match lineage.rsplit_once('.') {
                    None => (all.first(), String::new()),
                    // If children are numbered differently now, find the child by its prompts.
                    Some((_, number)) => {
                        let children = || all.iter().skip(1).filter(has_prompts);
                        let own = children().find(|it| it.0.contains(number));
                        (own.or_else(|| children().next()), format!(" of child {lineage}"))
                    }
                };
                let played = own.and_then(|(_, own)| own.reply(turn)).ok_or_else(|| {
                    missing(format!("the conversation {path} has no turn {turn}{what} to play"))
                })?;
                let PlayedReply { text, kept, after, usage, .. } = played;
                let kept = kept.as_ref().and_then(|kept| read_played_file(Path::new(kept)).ok());
                let text = kept.unwrap_or_else(|| text.clone());
                (text, *usage, after, format!("turn {turn}"))
            }
        };
        let note = replay::describe_difference(after, &before.results)
            .map(|difference| format!("replay, {place}: {difference}"));
        Ok((Reply { text, usage, stop: StopReason::End, model: None }, note))
    }
}

fn read_played_file(path: &Path) -> Result<String> {
    fs::read_text(path, CONVERSATION)?
        .with_context(|| format!("there is no recording at {}", path.display()))
}

/// A conversation and those of its children, which are in the same folder.
fn read_conversations(path: &Path, text: &str) -> Result<Vec<Played>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let first = read_with_archives(folder, text);
    if first.is_empty() {
        bail!("{} has no reply to play", path.display());
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all = vec![(HashSet::new(), first)];
    let mut at = 0;
    while let Some((_, one)) = all.get(at) {
        at += 1;
        for (number, name) in one.children.clone() {
            // A child whose file is not there cannot be played; the run says so when it asks.
            let place = *places.entry(name.clone()).or_insert(all.len());
            if place == all.len() {
                let text = fs::read_text(&folder.join(&name), CONVERSATION).ok().flatten();
                let text = text.unwrap_or_default();
                all.push((HashSet::new(), read_with_archives(folder, &text)));
            }
            all[place].0.insert(number.to_string());
        }
    }
    Ok(all)
}

/// A conversation and the parts that compactions removed from it, if their archives are in the same folder.
fn read_with_archives(folder: &Path, text: &str) -> PlayedConversation {
    let mut newest_first = vec![PlayedConversation::read(text, &file::parse(text).pieces)];
    let mut seen = HashSet::new();
    while let Some(name) = newest_first.last().and_then(|last| last.archive.clone())
        && seen.insert(name.clone())
        && let Ok(Some(text)) = fs::read_text(&folder.join(&name), CONVERSATION)
    {
        newest_first.push(PlayedConversation::read(&text, &file::parse(&text).pieces));
    }
    let mut parts = newest_first.into_iter().rev();
    let mut whole = parts.next().unwrap_or_default();
    parts.for_each(|part| whole.append_compacted(part));
    whole
}

pub(super) struct Recorder {
    pub(super) file: File,
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
        let mut file = &self.file;
        file.write_all(entry.format().as_bytes()).context("cannot append to the recording")
    }
}
