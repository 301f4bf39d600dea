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
//! - [`limits`]: the table of all limits, from which `docs/limits.md` is made
//! - [`mod@format`]: text ↔ values: the conversation file, edit blocks, attributes, the file index, the index of segments
//! - [`protocol`]: the tags that a model may write: their one description, the parser, the grammars
//! - [`turn`]: the loop as a value: an event goes in, the next effect comes out
//! - [`approve`]: what a user is asked about before it is done, and what is stopped
//! - [`compact`]: how a conversation that outgrows the window becomes shorter
//! - [`context`]: the first block of a conversation, and what has changed of it since
//! - [`prompt`]: a conversation as messages with roles
//! - [`overview`]: what a conversation comes to: for lists, reading, export, checking
//! - [`llm`]: providers, requests and replies as bytes, errors, retries, recordings
//! - [`decide`]: questions with closed sets of answers: requests, prompts, replies checked word for word
//! - [`code`]: where a file may be cut: languages, grammars, the choice among possible cuts
//! - [`history`]: what a repository's history says of one file: people, steps, files that change with it; as text
//! - [`memory`]: what a file's own conversation says of its file: the changes that its runs made
//! - [`apply`]: edit blocks and a text → the new text, or why not
//! - [`diff`]: what differs between two texts, merges, unified diffs
//! - [`sandbox`]: the sandbox for commands: its policy, and what it is built from
//! - [`policy`]: what a script in plain language may do: the file, and which of its entries decide
//! - [`js`]: what such a script's JavaScript can call, and the lines between the engine and its parent
//! - [`thought`]: scripts in plain language: their file, what their model reads
//! - [`redact`]: credentials masked: by their values, by their shapes
//! - [`view`]: what a run shows: its events as values, and as rows for a terminal
//! - [`legacy`]: what older tools left behind: old forms of files, keys without effect
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
//! - [`ops`]: what the commands do: run and manage conversations, change files, undo, summarize
//! - [`cmd`]: one file for each tool: its flags and its description
//!
//! `ARCHITECTURE.md` also lists the files on disk.

pub mod apply;
pub mod approve;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod code;
pub mod compact;
pub mod config;
pub mod context;
pub mod decide;
pub mod diff;
pub mod drive;
pub mod exit;
pub mod format;
pub mod history;
pub mod js;
pub mod legacy;
pub mod limits;
pub mod llm;
pub mod memory;
pub mod ops;
pub mod out;
pub mod overview;
pub mod policy;
pub mod problem;
pub mod prompt;
pub mod protocol;
pub mod redact;
pub mod sandbox;
pub mod segments;
pub mod sys;
pub mod thought;
pub mod turn;
pub mod view;
