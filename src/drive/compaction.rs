//! Makes a conversation shorter as [`conversation::compact`] has planned it: long results go to `outputs`, a model writes the
//! checkpoint, the old file is archived, and the new one takes its place in one step.
//!
//! Until that step the conversation is as it was, whatever fails.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::result_block::format_block;
use conversation::compact::notice::{archive_block, notice_block};
use conversation::compact::plan::{Plan, PlanPart, Planner};
use conversation::compact::token_estimate::TokenEstimate;
use conversation::format::file::{Block, Piece};
use conversation::model::Usage;
use conversation::problem::Problem;
use conversation::shown_file::ShownFile;
use models::price::{Price, compute_cost};
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::archive_name;
use sys::{clock, fs};

/// The number of failed attempts after which a model is not asked for a checkpoint any more.
const MOST_FAILURES: u32 = 2;

/// Asks the model for a checkpoint: (name, text, words, tokens per byte) to the checkpoint and its usage.
pub type WriteCheckpoint<'a> =
    Box<dyn Fn(&str, &str, u64, f64) -> (Result<String, Problem>, Usage) + 'a>;

/// Asks the model of a run for a checkpoint within the conversation. `None`: it cannot be asked so, or gave none.
pub type ContinueForCheckpoint<'a> =
    &'a mut dyn FnMut(&ConversationFile, &Plan) -> (Option<String>, Usage);

/// Compacts the conversation of a run.
pub struct Compactor<'a> {
    /// Asks the model for a checkpoint.
    pub write: WriteCheckpoint<'a>,
    /// The estimated number of tokens of the conversation.
    pub estimate: TokenEstimate,
    /// No further attempt below this many tokens, after one that failed or gained nothing.
    not_below: u64,
    /// The number of attempts that failed. After two, only results are moved to files.
    failures: u32,
}

/// The model that writes a checkpoint, and the price of its tokens.
#[derive(Debug, Clone, Copy)]
pub struct Payer<'a> {
    /// The model's id, for the figures in the block.
    pub model: &'a str,
    /// Its price, where it is known.
    pub price: Option<&'a Price>,
}

impl Payer<'_> {
    /// The cost in US dollars of these tokens; `None` where it is not known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        match usage {
            Usage { input: 0, output: 0, .. } => Some(0.0),
            _ => self.price.map(|price| compute_cost(price, usage)),
        }
    }

    /// The block with the figures of the checkpoint, in the attributes that a turn has for them.
    fn with_figures(&self, block: Block, usage: &Usage) -> Block {
        let block = block
            .with("at", clock::now())
            .with_some("model", Some(self.model).filter(|model| !model.is_empty()))
            .with("tokens_in", usage.input)
            .with("tokens_out", usage.output)
            .with("tokens_cached", usage.cached);
        block.with_some("cost", self.cost(usage).map(|cost| format!("{cost:.6}")))
    }
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The parts that were kept, moved to files and summarized.
    pub plan: Plan,
    /// The conversation with the old text.
    pub archive: String,
    /// About how many tokens the new text has.
    pub tokens: u64,
}

impl<'a> Compactor<'a> {
    /// A compactor that has not done anything yet.
    pub fn new(write: WriteCheckpoint<'a>) -> Self {
        Self { write, estimate: TokenEstimate::default(), not_below: 0, failures: 0 }
    }

    /// About how many tokens a conversation has.
    pub(super) fn tokens(&mut self, conversation: &ConversationFile) -> u64 {
        self.estimate.count_pieces(conversation.pieces());
        self.estimate.tokens_of_all(conversation.text().len())
    }

    /// Whether a conversation fills its window so far that it must be compacted now.
    pub(super) fn is_due(&mut self, conversation: &ConversationFile, window: Option<u64>) -> bool {
        let tokens = self.tokens(conversation);
        let bytes = conversation.text().len();
        tokens >= self.not_below
            && window.is_some_and(|window| self.estimate.is_full(bytes, window))
    }

    /// Compacts the conversation, if that makes it shorter. Returns also the tokens of the request, if there was one.
    pub(super) fn compact(
        &mut self,
        conversation: &mut ConversationFile,
        outputs: &Path,
        window: u64,
        payer: &Payer<'_>,
        go_on: ContinueForCheckpoint<'_>,
    ) -> (Result<Option<Compacted>, Problem>, Usage) {
        let tokens = self.estimate.tokens_of_all(conversation.text().len());
        if tokens < self.not_below {
            return (Ok(None), Usage::default());
        }
        let is_tried = self.failures >= MOST_FAILURES;
        let (text, pieces) = (conversation.text(), conversation.pieces());
        let planner = Planner::new(text, pieces, &self.estimate, window);
        let plan =
            if is_tried { Ok(planner.plan_last_resort()) } else { planner.plan_compaction(false) };
        let (result, usage) = apply_plan(conversation, outputs, plan, &self.write, payer, go_on);
        self.failures += u32::from(result.is_err());
        if !matches!(result, Ok(Some(_))) {
            self.not_below = tokens + window / 20;
        }
        self.estimate.count_pieces(conversation.pieces());
        (result, usage)
    }
}

/// Compacts a conversation for a window in tokens, full or not. `None`: it cannot become shorter.
pub fn compact_now(
    conversation: &mut ConversationFile,
    outputs: &Path,
    window: u64,
    write: &WriteCheckpoint<'_>,
    payer: &Payer<'_>,
) -> (Result<Option<Compacted>, Problem>, Usage) {
    let estimate = TokenEstimate::from_pieces(conversation.pieces());
    let (text, pieces) = (conversation.text(), conversation.pieces());
    let plan = Planner::new(text, pieces, &estimate, window).plan_compaction(true);
    apply_plan(conversation, outputs, plan, write, payer, &mut |_, _| Default::default())
}

fn apply_plan(
    conversation: &mut ConversationFile,
    outputs: &Path,
    plan: Result<Option<Plan>, String>,
    write: &WriteCheckpoint<'_>,
    payer: &Payer<'_>,
    go_on: ContinueForCheckpoint<'_>,
) -> (Result<Option<Compacted>, Problem>, Usage) {
    let estimate = TokenEstimate::from_pieces(conversation.pieces());
    let plan = match plan {
        Err(why) => return (Err(Problem::failed(why)), Usage::default()),
        Ok(None) => return (Ok(None), Usage::default()),
        Ok(Some(plan)) => plan,
    };
    let mut usage = Usage::default();
    // Empty where the plan needs none.
    let mut ask_for_checkpoint = || -> Result<String, Problem> {
        if plan.summarized.is_empty() {
            return Ok(String::new());
        }
        let text = render(conversation, &plan.summarized, "", outputs, &mut |_| Ok(None))?;
        let (continued, spent) = go_on(conversation, &plan);
        usage.add(&spent);
        let written = if let Some(written) = continued {
            written
        } else {
            let ratio = estimate.tokens_per_byte();
            let (written, spent) = write(conversation.name(), &text, plan.words, ratio);
            usage.add(&spent);
            written?
        };
        Ok(cut_checkpoint(written, plan.words))
    };
    let result = ask_for_checkpoint().and_then(|checkpoint| {
        write_compaction(conversation, outputs, &estimate, &plan, &checkpoint, payer, &usage)
    });
    let done = result.map(|archive| {
        let estimate = TokenEstimate::from_pieces(conversation.pieces());
        let tokens = estimate.tokens_of_all(conversation.text().len());
        Some(Compacted { plan, archive, tokens })
    });
    (done, usage)
}

fn write_compaction(
    conversation: &mut ConversationFile,
    outputs: &Path,
    estimate: &TokenEstimate,
    plan: &Plan,
    checkpoint: &str,
    payer: &Payer<'_>,
    usage: &Usage,
) -> Result<String, Problem> {
    let archive = archive_name(conversation.name());
    let notice = notice_block(&plan.condensed, &archive, estimate.tokens_per_byte(), checkpoint);
    let notice = if checkpoint.is_empty() { notice } else { payer.with_figures(notice, usage) };
    let mut stored = Vec::new();
    let mut store = |bytes: &[u8]| {
        let path =
            fs::store_output_unsynced(outputs, bytes).context("cannot store a long result")?;
        stored.push(path.clone());
        Ok(Some(path))
    };
    let text = render(conversation, &plan.parts, &format_block(&notice), outputs, &mut store)?;
    fs::sync_outputs(outputs, &stored)?;
    let link = format_block(&archive_block(conversation.name()));
    conversation.replace(&text, &archive, &link)?;
    Ok(archive)
}

/// Models write more than they were asked for. A text that is far too long would fill the space that was just freed.
fn cut_checkpoint(text: String, words: u64) -> String {
    let most = usize::try_from(words).unwrap_or(usize::MAX).saturating_mul(20);
    if text.len() <= most {
        return text;
    }
    let head = &text[..text.floor_char_boundary(most)];
    let end = head.rfind('\n').unwrap_or(head.len());
    format!("{}\n[… cut here: it was too long …]", &head[..end])
}

/// Stores a removed body and returns its file. `None`: only the archive has it.
type StoreOutput<'a> = dyn FnMut(&[u8]) -> Result<Option<PathBuf>> + 'a;

fn render(
    conversation: &ConversationFile,
    parts: &[PlanPart],
    notice: &str,
    outputs: &Path,
    store: &mut StoreOutput<'_>,
) -> Result<String> {
    let (text, pieces) = (conversation.text(), conversation.pieces());
    let mut new = String::new();
    for part in parts {
        let part = match part {
            PlanPart::Keep(range) => text[range.clone()].to_owned(),
            PlanPart::Notice => notice.to_owned(),
            PlanPart::Pointer(at) => {
                let block = with_file(&pieces[*at], text, outputs, store)?;
                let bytes = block.get("bytes").unwrap_or_default();
                let place = if block.get("output").is_some() {
                    "left out to fit the model's window: read what you need of the file in output, with offset and limit"
                } else {
                    "omitted here"
                };
                let body = format!("[{bytes} bytes, {place}]");
                format_block(&block.body(body))
            }
            PlanPart::Head(at, bytes) => {
                let piece = &pieces[*at];
                let body = piece.body_text(text);
                let block = with_file(piece, text, outputs, store)?;
                let head = &body[..body.floor_char_boundary(*bytes)];
                let place = block.get("output").unwrap_or("the archive");
                let body = format!("{head}\n[… cut here; full text: {place} …]");
                if piece.name().is_none() { body } else { format_block(&block.body(body)) }
            }
        };
        new.push_str(part.trim_end_matches('\n'));
        new.push_str("\n\n");
    }
    new.pop();
    Ok(new)
}

/// The block of a piece, without its body, with the file that has it. A file that this piece showed is not in view any
/// more, so it has to be read again before it is overwritten.
fn with_file(
    piece: &Piece,
    text: &str,
    outputs: &Path,
    store: &mut StoreOutput<'_>,
) -> Result<Block> {
    let mut block = Block::new(piece.name().unwrap_or("system"));
    block.attributes.clone_from(&piece.attributes);
    block.attributes.retain(|(name, _)| !["shown", "part"].contains(&name.as_str()));
    let body = piece.body_text(text);
    if let Some(file) = ShownFile::read(piece) {
        block.attributes.retain(|(name, _)| !["sha256", "tokens"].contains(&name.as_str()));
        return Ok(block.with("output", fs::output_path(outputs, file.sha256).display()));
    }
    if block.get("output").is_some() {
        let has_size = block.get("bytes").is_some();
        return Ok(if has_size { block } else { block.with("bytes", body.len()) });
    }
    block.attributes.retain(|(name, _)| name != "bytes");
    let path = store(body.as_bytes())?;
    let block = path.into_iter().fold(block, |block, path| block.with("output", path.display()));
    Ok(block.with("bytes", body.len()))
}
