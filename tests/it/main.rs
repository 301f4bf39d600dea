//! The tests through the executables, against a scripted model on loopback. One binary, so that it links once.
#![expect(clippy::disallowed_methods, reason = "tests make the world that the executables run in")]
#![expect(clippy::unwrap_used, reason = "in a test, an unwrap is an assertion")]

// The ground that the tests stand on.
mod answers; // what the scripted model does with a request, faults included
mod blocks; // a second reader of conversation files
mod fake_llm; // the scripted model
mod injected; // documents that give orders, and a model that obeys them
mod process_under_test; // one run: started, signalled, ended
mod sandbox; // a home, a work folder and an environment for each test
mod split_by_hand; // a split without the tool that makes them
mod wire; // the providers' streams, and what a request says

// The contract, by subject. A new test goes to the file whose sentence it fits.
mod actions; // every row of the tag table: its result, and its error
mod apply; // blocks and diffs into a file: what is made, refused, kept
mod bad_input; // what comes in broken: replies, files, configs, servers, places
mod bounds; // what is too large: each input, and the page of limits
mod commands; // upkeep, lists, discovery, input, what a terminal sees
mod conversation; // the conversation file: blocks, fences, damage, older files
mod digest; // a summary of a conversation, which stays as it was
mod docs; // what is written about the executables is what they do
mod durability; // kills at any instant, failed appends, forks as --json tells them
mod edits; // blocks of models against files of many kinds: what applies, what is refused, what is said
mod exits; // every row of the exit table
mod file_boundary; // what a file's conversation may write: links, swaps, forged indexes
mod file_edit; // a file's own conversation: its diff, several files
mod file_identity; // what makes a file the same one: identity, place, path
mod file_index; // which file has which conversation: many at once, older forms, damage, refusals
mod file_memory; // what a file's own conversation is told of its file, and what that costs
mod file_undo; // changes that runs made, taken back
mod file_writes; // how the file is written: whole, with its mode, where it is
mod forged; // seventy spellings of tags, by every way into a conversation
mod forgery; // what results, names and outputs may hold, and what commands may know
mod imports; // which file of src needs which: no cycles, layers that point one way
mod injections; // what comes of orders in documents, with the sandbox off
mod interrupts; // a signal at each stage of a run
mod large; // the tags for large files: segments, their way back, where it may lead
mod llm_text; // a file in, the model's text out
mod r#loop; // malformed and cut-off replies, limits, checks, children
mod parsers; // every parser on the inputs that fuzzing collected, and on variations of them
mod patch; // edited segments back into their source: bad splits, merges, kills
mod patch_properties; // what joining gives, what git and patch make of a patch, what a crash leaves
mod places; // hostile repositories, settings and programs in the working folder
mod process; // stdin, refusals, signals, what is left behind, sizes
mod process_ends; // what ends with a run that is killed, what commands are started with
mod profiles; // settings by name, and the sandbox that they ask for
mod providers; // every row of the provider table
mod readme; // the sessions of README and docs/recipes.md, run
mod real_files; // splitting the sources of the crates that this is built from
mod redact; // credentials in results: masked by shape and by value; masks that are not written
mod rework; // a conversation that a model edits: the old text or the new one, never another
mod sandbox_tool; // nagent-sandbox: what it refuses, and what becomes of protected names
mod secrets; // no key in any file, output, command line; where a key goes
mod server_faults; // faults of servers, for each format: the class that each gets
mod shell; // output, exit codes, timeouts, descendants, environment
mod shown; // what the model was last shown of a file: nothing newer is written over
mod soak; // a long run with a provider that fails every fifth time
mod split; // large files into segments: all bytes kept, nothing of anybody lost
mod summarize; // summaries: what is asked, kept, joined, refused
mod summarize_input; // summaries of what is empty, binary, wide, odd, or not to be read
mod terminal; // what reaches a terminal, whoever wrote it
mod tidy; // head comments, sizes, leftovers
mod upload; // a file and a prompt in: each provider's ways, refusals, removal
mod writers; // one writer: the lock, edits between and during runs, forks
