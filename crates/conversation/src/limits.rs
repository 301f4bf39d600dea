//! The limits of nagent: maximum sizes of inputs, numbers of attempts, and waiting times.
//!
//! All outside input has a limit, so that no file, reply or command can fill the memory or keep a run waiting.
//! `docs/limits.md` is generated from this table. Limits that only tune an algorithm are next to that algorithm.

use std::time::Duration;

/// A limit, as the documentation shows it.
#[derive(Debug)]
pub struct Limit {
    /// The quantity that is limited.
    pub bounds: &'static str,
    /// The maximum, with its unit.
    pub maximum: String,
    /// The consequence of exceeding it.
    pub beyond: &'static str,
}

/// Formats a size in bytes.
fn bytes(value: impl TryInto<u64>) -> String {
    let value = value.try_into().unwrap_or(u64::MAX);
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(shift, _)| value >= 1 << shift && value.is_multiple_of(1 << shift));
    unit.map_or_else(
        || format!("{value} bytes"),
        |(shift, unit)| format!("{} {unit}", value >> shift),
    )
}

/// Formats a number.
fn count(value: impl TryInto<u64>) -> String {
    let digits = value.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time.
fn time(value: Duration) -> String {
    format!("{} s", value.as_secs_f64())
}

/// The space for a result in the smallest window, in bytes.
pub const LEAST_SHOWN: usize = 2 << 10;

/// Defines the constants, and the table that lists them.
macro_rules! limits {
    ($($section:literal { $(
        #[doc = $bounds:literal]
        $unit:ident $name:ident: $type:ty = $value:expr, $beyond:literal;
    )* })*) => {
        $($(
            #[doc = concat!($bounds, ".")]
            pub const $name: $type = $value;
        )*)*

        /// All limits, by section.
        pub fn table() -> Vec<(&'static str, Vec<Limit>)> {
            vec![$(($section, vec![$(
                Limit { bounds: $bounds.trim_ascii(), maximum: $unit($name), beyond: $beyond },
            )*])),*]
        }
    };
}

limits! {
    "Scripts in JavaScript" {
        /// Memory of a script, unless `--memory` says otherwise
        bytes JS_MEMORY: u64 = 256 << 20, "error in the script";
        /// Stack of the engine
        bytes JS_STACK: usize = 512 << 10, "error in the script";
        /// Time of a script without a terminal, unless `--timeout` says otherwise; questions do not count
        time JS_TIME: Duration = Duration::from_secs(30), "the script is ended";
        /// A call or an answer between the engine and nagent
        bytes JS_LINE: usize = 64 << 20, "error in the script";
        /// A script's value, in UTF-16 units
        bytes JS_VALUE: usize = 10 << 20, "error in the script";
        /// A file that a script reads or copies
        bytes JS_READ: u64 = 50 << 20, "error in the script";
        /// A file that a script writes, and what it appends at once
        bytes JS_WRITE: usize = 10 << 20, "error in the script";
        /// Output of a script on stdout
        bytes JS_STDOUT: usize = 50 << 20, "error in the script";
        /// Output of a script on the console
        bytes JS_CONSOLE: usize = 1 << 20, "error in the script";
        /// Paths of a glob
        count JS_GLOB: usize = 10_000, "error in the script";
        /// A script's file
        bytes JS_SOURCE: u64 = 10 << 20, "error";
        /// A script in plain language
        bytes THOUGHT_SCRIPT: u64 = 1 << 20, "error";
        /// Memories that a model reads at the start of a run
        bytes MEMORIES: usize = 64 << 10, "only named";
        /// A policy's file
        bytes POLICY: u64 = 4 << 20, "counts as damaged: everything is asked";
    }
    "MCP servers" {
        /// A message of a server
        bytes MCP_MESSAGE: usize = 32 << 20, "dropped; over HTTP an error";
        /// Time to connect to a server, and to get its tools
        time MCP_CONNECT: Duration = Duration::from_secs(30), "error";
        /// Seconds of a call, unless `--timeout` says otherwise
        time MCP_CALL: Duration = Duration::from_mins(5), "error; the server is told to give up";
        /// The end of what a server prints on stderr, for the error when it fails
        bytes MCP_STDERR: usize = 4 << 10, "not kept";
        /// `mcp.json`, and `.mcp.json`
        bytes MCP_FILE: u64 = 1 << 20, "error";
        /// Servers that the first context names
        count MCP_NAMED: usize = 20, "not named";
    }
    "What models and servers send" {
        /// Text of a reply
        bytes REPLY_TEXT: usize = 64 << 20, "error; nothing in the reply runs";
        /// All bytes of a reply, including keep-alives
        bytes REPLY_BYTES: u64 = 256 << 20, "error";
        /// A line of a stream
        bytes STREAM_LINE: usize = 16 << 20, "error";
        /// Text outside of a stream's events
        bytes STREAM_STRAY: usize = 64 << 10, "not read";
        /// Decisions in a call
        count DECISIONS_PER_CALL: usize = 200, "further calls";
        /// Errors of a reply that nagent-decide names to the model
        count DECIDE_ERRORS: usize = 50, "not named";
        /// Window that is assumed for an unknown model, in tokens
        count UNKNOWN_WINDOW: u64 = 32_768, "further calls";
        /// Longest reply that is assumed for an unknown model, in tokens
        count UNKNOWN_OUTPUT: u64 = 4_096, "further calls";
        /// Requests until a reply is valid against a schema
        count SCHEMA_TRIES: usize = 3, "error";
        /// JSON Schema of an answer
        bytes SCHEMA: u64 = 4 << 20, "error";
        /// Time of a command that prints a credential
        time KEY_COMMAND: Duration = Duration::from_mins(1), "error";
        /// Time that a server has to list its models, where nothing else says the window
        time WINDOW_PATIENCE: Duration = Duration::from_secs(2), "the window stays unknown";
        /// Body of an error
        bytes ERROR_BODY: usize = 64 << 10, "the rest is not read";
        /// Message of an error, in characters
        count ERROR_MESSAGE: usize = 2000, "truncated";
        /// A reply that is not a stream (lists, files)
        bytes FETCHED_REPLY: usize = 16 << 20, "error";
        /// Pages of a list of models
        count MODEL_PAGES: usize = 100, "error";
        /// Output of a program that replaces a model
        bytes PROGRAM_OUTPUT: usize = 64 << 20, "the program is ended; error";
        /// Id of a file at a provider, in bytes
        count FILE_ID: usize = 256, "error";
        /// Tags in a reply
        count REPLY_TAGS: usize = 1_000, "the reply is malformed";
        /// Value of an attribute. A path has at most 4,096 bytes
        bytes ATTRIBUTE_VALUE: usize = 16 << 10, "an error as the result of the action";
        /// Malformed replies in a row
        count MALFORMED_REPLIES: u32 = 3, "exit 4";
        /// Failures of `--check`
        count FAILED_CHECKS: u32 = 5, "exit 6";
        /// Time spent waiting for a busy provider, in total
        time PROVIDER_PATIENCE: Duration = Duration::from_secs(30), "exit 3; `--patience` sets it";
    }

    "Children" {
        /// Depth of child conversations
        count CHILD_DEPTH: usize = 4, "error result";
        /// Children that one reply starts
        count CHILDREN_PER_REPLY: u64 = 64, "error result";
        /// Children that one run starts
        count CHILDREN_PER_RUN: u64 = 200, "error result";
        /// Output of a child that is read back
        bytes CHILD_OUTPUT: usize = 256 << 20, "error result";
    }

    "What commands, files and folders give" {
        /// Output of a command, on disk
        bytes COMMAND_OUTPUT: u64 = 1 << 30, "the command is ended, and the result says so";
        /// Outputs of commands that a run keeps in `outputs`, all together
        bytes RUN_OUTPUT: u64 = 2 << 30, "not kept whole: head and tail are shown, and the result says so";
        /// Commands of a run that are kept running at once (`keep`)
        count KEPT_COMMANDS: usize = 8, "the result is an error";
        /// Output of a kept command in its file
        bytes KEPT_OUTPUT: u64 = 64 << 20, "what comes after that is lost, and the command runs on";
        /// Result that is shown whole
        bytes RESULT_WHOLE: usize = 16 * 1024, "head and tail are shown; `output` names the file with all of it. In a window under 16,384 tokens as many bytes as it has tokens";
        /// End of the output of a failed check
        bytes CHECK_SHOWN: usize = 8 * 1024, "up to 20 of the other lines are shown, those that look like failures; at the next try only what is new";
        /// Lines before that end that are shown
        count CHECK_FAILURES: usize = 20, "left out";
        /// File that is read whole
        bytes READ_WHOLE: usize = 64 * 1024, "error that names `offset` and `limit`. In a window under 65,536 tokens as many bytes as it has tokens";
        /// Part of a file that is searched for a line
        bytes READ_SEEK: u64 = 4 << 30, "error";
        /// Entries of a list or glob that are shown
        count LISTED_ENTRIES: usize = 1_000, "the rest is counted";
        /// Matches of a search that are shown
        count GREP_MATCHES: u64 = 500, "the rest is counted";
        /// Characters of a line that a search shows
        count GREP_LINE: usize = 300, "truncated around the match";
        /// File that is searched
        bytes GREP_FILE: u64 = 64 << 20, "left out, and the result says so";
        /// File that a tag edits
        bytes EDITED_FILE: u64 = 64 << 20, "error";
        /// File whose change is described by a diff
        bytes DIFF_INPUT: usize = 4 << 20, "the file is shown instead";
        /// Description of a change that others made
        bytes CHANGE_SHOWN: usize = 6 << 10, "truncated, and the result says so";
        /// File that its conversation is shown when another one starts it
        bytes FILE_SHOWN: u64 = 8 << 10, "the model reads it";
        /// Lines that an edit changed, in its result
        bytes EDIT_SHOWN: usize = 2 << 10, "truncated, and the result says so";
        /// Diff in the result of a file's conversation
        bytes CHILD_DIFF: usize = 4 << 10, "truncated, and the result says so";
        /// File that is not UTF-8 and is stored whole in addition to the part that is shown
        bytes STORED_BYTES: u64 = 64 << 20, "not stored";
        /// Edit blocks in a tag or a text
        count EDIT_BLOCKS: usize = 1_000, "error; nothing is changed";
        /// File of ignore rules (`.gitignore`, `.ignore`, `info/exclude`)
        bytes IGNORE_FILE: u64 = 1 << 20, "left out with its folder, and the result says so";
        /// Prompt, or file of `--read`, that is shown whole
        bytes PROMPT_WHOLE: usize = 64 << 10, "stored in `outputs`; head and tail are shown. In a small window as for a file that is read";
        /// Prompt on stdin
        bytes STDIN_PROMPT: usize = 64 << 20, "error; nothing is sent";
        /// Tools that are asked for their description
        count ASKED_TOOLS: usize = 200, "the rest is left out, with a note";
        /// Characters of the description of a tool of the user's
        count TOOL_DESCRIPTION: usize = 600, "truncated";
        /// Time that a tool has for its description
        time TOOL_PATIENCE: Duration = Duration::from_secs(3), "left out this time, with a note";
        /// Folders of skills that are looked at
        count SKILLS: usize = 2_000, "the rest is left out, and `--skills` says so";
        /// Skills in the first context
        count SKILLS_TOLD: usize = 60, "`nagent --skills` is named, which lists them";
        /// Text about skills in the first context
        bytes SKILLS_TEXT: usize = 4 << 10, "descriptions are truncated, then as for their number";
        /// Front matter of a `SKILL.md`
        bytes SKILL_FRONT: u64 = 64 << 10, "the skill is not used";
        /// Characters of the description of a skill
        count SKILL_DESCRIPTION: usize = 1_024, "the skill is not used";
        /// Files and folders in a skill of a repository
        count SKILL_FILES: usize = 256, "it is not trusted";
        /// All files of a skill of a repository
        bytes SKILL_BYTES: u64 = 8 << 20, "it is not trusted";
    }

    "Pictures and documents" {
        /// Picture or document that a model is shown
        bytes SHOWN_FILE: u64 = 50 << 20, "error";
        /// Pixels of a picture
        count PICTURE_PIXELS: u64 = 64_000_000, "error";
        /// Memory to decode a picture
        bytes PICTURE_MEMORY: u64 = 512 << 20, "error";
        /// Contents of a PDF in which its pages are looked for
        bytes PDF_OBJECTS: usize = 64 << 20, "the number of pages stays unknown";
        /// Time of `pdftotext`
        time PDF_TEXT_TIME: Duration = Duration::from_mins(1), "error";
        /// Picture for Anthropic, in base64
        bytes ANTHROPIC_PICTURE: u64 = 5 << 20, "scaled down; the original is kept";
        /// Side of a picture for Anthropic, in pixels: a request with more than 20 takes no larger ones
        count ANTHROPIC_SIDE: u32 = 2_000, "scaled down";
        /// Request to Anthropic
        bytes ANTHROPIC_REQUEST: u64 = 32_000_000, "a single file goes through the files API; of many the oldest are left out";
        /// Pages of a PDF for an Anthropic model, and files in a request to it, if its window has less than a million tokens
        count ANTHROPIC_PAGES: u64 = 100, "read as text; the oldest files are left out";
        /// The same for a larger window
        count ANTHROPIC_PAGES_LONG: u64 = 600, "the same";
        /// Files in a request to OpenAI
        bytes OPENAI_REQUEST: u64 = 50_000_000, "a single file goes through the files API; of many the oldest are left out";
        /// Pictures in a request to OpenAI
        count OPENAI_PICTURES: u64 = 500, "the oldest are left out";
        /// Request to Google, without PDFs
        bytes GOOGLE_REQUEST: u64 = 20_000_000, "scaled down";
        /// PDF for Google, and all files in a request
        bytes GOOGLE_PDF: u64 = 50_000_000, "a single file goes through the files API; of many the oldest are left out";
        /// Pages of a PDF for Google, and files in a request
        count GOOGLE_PAGES: u64 = 1_000, "read as text; the oldest files are left out";
    }

    "nagent's own files" {
        /// Config file
        bytes CONFIG: u64 = 1 << 20, "exit 2";
        /// Conversation or recording
        bytes CONVERSATION: u64 = 1 << 30, "exit 1";
        /// Message to a run (`nagent-message`)
        bytes MESSAGE: u64 = 1 << 20, "exit 1";
        /// Time that a run has to end after `nagent-status --stop`
        time STOP_PATIENCE: Duration = Duration::from_secs(10), "exit 1";
        /// Inputs of `nagent-each` (`--lines`, `--jsonl`)
        bytes EACH_INPUTS: u64 = 64 << 20, "exit 1";
        /// Journal of `nagent-each`
        bytes EACH_JOURNAL: u64 = 1 << 30, "exit 1";
        /// Room in a conversation that a new prompt leaves for its run
        bytes CONVERSATION_SPARE: u64 = 256 << 20, "exit 1";
        /// File index
        bytes FILE_INDEX: u64 = 64 << 20, "exit 1";
        /// Index of a split (`index.json`)
        bytes SEGMENT_INDEX: u64 = 256 << 20, "exit 1";
        /// File that segments are put back into, before and after
        bytes PATCHED_FILE: u64 = 256 << 20, "exit 1";
        /// Segment that is searched for masks
        bytes MASKED_SEGMENT: u64 = 64 << 20, "not searched";
        /// File of a conversation whose content is stored at the start of a run
        bytes TRACKED_FILE: u64 = 64 << 20, "its changes are not recorded";
        /// Log of changes (`changes.jsonl`)
        bytes CHANGE_LOG: u64 = 256 << 20, "nothing can be undone";
        /// Time to remember the working tree before the commands of a run, and after them
        time SNAPSHOT_TIME: Duration = Duration::from_secs(2), "undo does not know what the commands changed, and says so";
        /// Content of the working tree that is stored with it, without what its git repository has
        bytes SNAPSHOT_BYTES: u64 = 256 << 20, "the same";
        /// Files that the commands of a run changed
        count SNAPSHOT_FILES: usize = 1_000, "the same";
        /// Content that is stored for undo
        bytes KEPT_CONTENT: u64 = 256 << 20, "exit 1; a tag does not write over a larger file";
        /// Cached summary
        bytes CACHED_SUMMARY: u64 = 4 << 20, "requested again";
        /// Context file
        bytes CONTEXT_FILE: u64 = 1 << 20, "left out, with a note";
        /// List of context files (`context.yaml`)
        bytes CONTEXT_LIST: usize = 64 << 10, "left out, with a note";
        /// All context files together
        bytes CONTEXT_FILES_TOTAL: u64 = 4 << 20, "left out, with a note";
        /// Number of context files
        count CONTEXT_FILES: usize = 256, "left out, with a note";
        /// Name of the conversation that a shell has taken up
        bytes NAME_FILE: u64 = 255, "the shell's own conversation";
        /// File of certificates
        bytes CERTIFICATES: u64 = 16 << 20, "error";
        /// Age of a stored file that `nagent-conversations prune` leaves in any case: a run may be about to name it
        time MIN_UNUSED: Duration = Duration::from_hours(1), "removed if no conversation names it";
    }

    "What a terminal shows" {
        /// Code between fences that is shown in colours
        bytes HIGHLIGHTED_CODE: usize = 16 << 10, "the rest is shown without colours; so is what costs the parser too much";
    }

    "nagent-repl" {
        /// Entries of the history of prompts
        count PROMPTS: usize = 10_000, "the oldest are left out";
        /// History of prompts of a folder
        bytes PROMPT_HISTORY: u64 = 64 << 20, "no history, with a note";
        /// Entry of that history
        bytes PROMPT_ENTRY: usize = 64 << 10, "not stored";
        /// File of a look
        bytes LOOK: u64 = 64 << 10, "exit 2";
        /// File of `--env-file`
        bytes ENV_FILE: u64 = 64 << 10, "exit 2";
        /// Time that Ollama has to answer when a session starts
        time OLLAMA_PATIENCE: Duration = Duration::from_secs(2), "exit 3";
        /// Time that a run has to end after a signal that ends the session
        time SIGNAL_PATIENCE: Duration = Duration::from_secs(1), "the session ends";
    }

    "History" {
        /// Steps of a file's history that the model reads
        count HISTORY_STEPS: usize = 15, "the rest is counted";
        /// Characters of a step
        count HISTORY_STEP: usize = 300, "truncated";
        /// Subject of a commit, or a name in it, in bytes
        count COMMIT_SUBJECT: usize = 1_000, "truncated";
        /// Diff that a summary of a commit is made from
        bytes COMMIT_DIFF: usize = 12 * 1024, "truncated, and the model reads that it is";
        /// Mailmap
        bytes MAILMAP: u64 = 4 << 20, "not read";
        /// Cached history of a file
        bytes CACHED_HISTORY: u64 = 32 << 20, "read again";
        /// Commit that is read
        bytes COMMIT: usize = 16 << 20, "left out, with a note";
        /// Configuration of a repository
        bytes REPOSITORY_CONFIG: u64 = 1 << 20, "the repository is not read, with a note";
        /// Packed refs, list of alternates and the like of a repository
        bytes REPOSITORY_FILE: u64 = 64 << 20, "the repository is not read, with a note";
        /// Commits that are read for the history of a file
        count HISTORY_COMMITS: u64 = 200_000, "the history is cut, and says so";
    }

    "Sandbox" {
        /// Entries of a tree that are looked at, when a run ends, for changed files that tools run without being asked
        count SCANNED_ENTRIES: usize = 100_000, "the rest is not looked at, with a note";
    }
}
