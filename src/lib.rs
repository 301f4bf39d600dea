//! nagent: small executables that let a language model work on files, with the conversation kept as a text file.
//!
//! `ARCHITECTURE.md` has the drawing and the rules; here is the map.
//!
//! # Modules, in reading order
//!
//! Values and text, without effects:
//!
//! - [`exit`]: the exit codes of all executables
//! - [`problem`]: the error that ends a tool: an exit code and a message
//! - [`mod@format`]: text ↔ values: the conversation file, edit blocks, attributes, the file index, the index of segments
//! - [`protocol`]: the tags that a model may write: their one description, the parser, the grammars
//! - [`turn`]: the loop as a value: an event goes in, the next effect comes out
//! - [`context`]: the first block of a conversation, and what has changed of it since
//! - [`prompt`]: a conversation as messages with roles
//! - [`llm`]: providers, requests and replies as bytes, errors, retries, recordings
//! - [`code`]: where a file may be cut: languages, grammars, the choice among possible cuts
//! - [`history`]: what a repository's history says of one file: people, steps, files that change with it; as text
//! - [`memory`]: what a file's own conversation says of its file: the changes that its runs made
//! - [`apply`]: edit blocks and a text → the new text, or why not
//! - [`diff`]: what differs between two texts, merges, unified diffs
//! - [`sandbox`]: which walls around commands are asked for
//! - [`redact`]: credentials masked: by their values, by their shapes
//! - [`config`]: the config's text → its values, or what is wrong with it
//!
//! The world, and what is wired to it:
//!
//! - [`sys`]: the only effects: files, locks, processes, HTTP, git, environment, clock, terminal, signals
//! - [`segments`]: large files: cut into segments, put together again, summarised
//! - [`client`]: asks a model: a server, a program, a recording; retries, uploads
//! - [`drive`]: performs the loop's effects and hands back events
//! - [`out`]: a report as text or as JSON; text made harmless for terminals
//! - [`cli`]: what every `main` shares
//! - [`cmd`]: one file or folder a tool: arguments, description, wiring
//!
//! # Files on disk
//!
//! Below the root, which is `~/.nagent` unless `--root` or `NAGENT_ROOT` names another ([`sys::root`] has the paths):
//!
//! - `config.json`: settings. Text: [`config`]; which value is in force: [`cmd::settings`]
//! - `context.md`, `context.yaml`: text that every conversation starts with. [`sys::context_files`]
//! - `bin/{name}`: the user's own tools. [`sys::tools`]
//! - `redact.key`: what the words in masks are made with. [`drive`]
//! - `tools.json`: a cache of what tools said of themselves. [`sys::tools`]
//! - `conversations/{name}`: a conversation. File: [`sys::conversation_file`]; text: [`format::conversation`]
//! - `conversations/{name}.invalid/{n}.txt`: replies that did not parse, torn ends. Written by [`drive`] and
//!   [`sys::conversation_file`], read by people
//! - `conversations/{name}.run`: who is at work on it. [`sys::lock`]
//! - `conversations/.locks/{name}`: its lock. [`sys::lock`]
//! - `conversations/saved-index.json`: the saved conversations. [`cmd::nagent`]
//! - `conversations/file-index.json`: which file has which conversation. Text: [`format::file_index`]; file:
//!   [`sys::file_index`]
//! - `conversations/file-index-{pid}.json`, `conversations/folded-file-index-{pid}.json`: an older tool's, before and after
//!   it was taken over. [`sys::file_index`]
//! - `conversations/{name}-edit-{uuid}`: a conversation's copy that a model edits. [`cmd::nagent`]
//! - `history/{repository}/{path}/{head}.json`: what was read of a file's history. File: [`sys::git`]; text:
//!   [`history::kept`]
//! - `outputs/{sha256}.txt`: whole: long results, previous contents of files, what the model was last shown of a file, what
//!   a run began and ended with. [`sys::fs`], [`sys::process`], [`drive`]
//! - `splits/{name}/{slug}-{uuid}/{file}`: a file that a conversation has split. [`drive`], [`segments`]
//! - `redact.key`: what masks of credentials are made with. [`drive`]
//! - `walls/{uuid}.hold`, `walls/{uuid}.report`, `walls/{uuid}.exclude`, `walls/empty`: what commands within walls need
//!   while they run. [`sys::sandbox`]
//! - `summaries/{sha256}.json`: a summary that was paid for, of a text or of a commit. [`segments::kept`]
//! - `summaries/{sha256}.lock`: its lock, while it is asked for. [`sys::brief_lock`]
//!
//! The folder of a split, there or where `--output` says ([`segments::split`] makes it, [`segments::patch`] reads it,
//! [`sys::split_files`] and [`sys::folder`] have the files):
//!
//! - `index.json`: where each segment comes from, hashes, summaries. Text: [`mod@format::index`]
//! - `{stem}-{n}{suffix}`: a segment. Edited by people and models
//! - `{source}.orig`: the source as it was split or last patched. Read for merges, repairs and summaries
//! - `{stem}.patch`: the last patch. Read by people and programs
//! - `{source}.before`: what a source held that was overwritten by `--force` or in place. Read by people
//! - `{stem}-{n}{suffix}.bak`: an edited segment that `--force` had to make room for. Read by people
//! - `.index.json.nagent-new`, `.{source}.orig.nagent-new`, `.{stem}-{n}{suffix}.nagent-new`,
//!   `.{stem}-{n}{suffix}.nagent-ours`: a patch that has begun; the next run of [`segments::patch`] ends it or takes it back
//! - `.nagent-split-{uuid}/`: a split that is being written. What a run that was killed had put away into it, the next
//!   run of [`segments::split`] puts back
//!
//! Elsewhere: a recording, where `--record` or `--provider replay` names one ([`llm::replay`]), and the files that the
//! model reads ([`sys::read`], [`sys::list_dir`], [`sys::grep`]) and writes ([`sys::boundary`], [`sys::replace`]).

pub mod apply;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod code;
pub mod config;
pub mod context;
pub mod diff;
pub mod drive;
pub mod exit;
pub mod format;
pub mod history;
pub mod llm;
pub mod memory;
pub mod out;
pub mod problem;
pub mod prompt;
pub mod protocol;
pub mod redact;
pub mod sandbox;
pub mod segments;
pub mod sys;
pub mod turn;
