//! Tests that run the executables against a scripted model on loopback. They are one binary, so that it links once.
#![expect(clippy::disallowed_methods, reason = "tests make the world that the executables run in")]
#![expect(clippy::unwrap_used, reason = "in a test, an unwrap is an assertion")]

// Helpers.
mod answers; // what the scripted model does with a request, faults included
mod blocks; // a second reader of conversation files
mod fake_llm; // the scripted model
mod injected; // documents with instructions, and a model that obeys them
mod process_under_test; // one run: started, signalled, ended
mod pty; // a terminal of its own for a program, its keys and its screen
mod sandbox; // a home, a work folder and an environment for each test
mod split_by_hand; // a split without the tool that makes them
mod wire; // the providers' streams, and what a request says

// What users and scripts rely on, by subject. A new test goes to the file whose sentence it fits.
mod actions; // every row of the tag table: its result, and its error
mod approve; // what is asked about before it is done, and who can answer; --tags, --context
mod bad_input; // broken input: replies, files, configs, servers, folders
mod bounds; // input that is too large, and the page of limits
mod cache; // each request begins with the one before; marks, keys, shares of caches
mod command_line; // short forms, files without a flag, streams, completions, --code
mod commands; // managing conversations, lists, discovery, input, what a terminal sees
mod compact; // conversations that outgrow the window: checkpoints, archives, what is put back
mod conversation; // the conversation file: blocks, fences, damage, older files
mod conversations; // nagent-conversations: lists, texts, names, the trash; --new and --continue
mod default_sandbox; // the sandbox that commands get where nobody chose one, and the way out of it
mod digest; // summaries of conversations
mod discovery; // which programs are tools, and what is said of them
mod docs; // the documents describe what the executables do
mod durability; // kills at any instant, failed appends, forks as --json reports them
mod each; // nagent-each: order, going on after kills, limits over all, shards, odd inputs
mod each_resume; // nagent-each: what a later call takes from earlier ones, and what it refuses
mod edits; // a generated corpus of edits: what applies, what is refused, with which message
mod endless; // nothing keeps nagent waiting: ignore files, sparse files, signals while it works
mod everyday; // several files for one, costs, units, keys by their names, texts that say what to type
mod exits; // every row of the exit table
mod file_boundary; // what a file's conversation may write: links, swaps, forged indexes
mod file_edit; // a file's own conversation: its diff
mod file_identity; // what makes a file the same one: identity, place, path
mod file_index; // which file has which conversation: many at once, older forms, damage, refusals
mod file_memory; // what a file's own conversation learns about its file, and what that costs
mod file_undo; // undoing changes that runs made
mod file_writes; // how the file is written: whole, with its mode, where it is
mod first_run; // no key, a wrong value, a missing program; --doctor; prices
mod forged; // seventy spellings of tags, through every way into a conversation
mod forgery; // forged blocks in results, names and outputs; what commands may know
mod habits; // a pipe without -, words and flags of other programs, -C, -h
mod imports; // which file of src needs which: no cycles, layers that point one way
mod injections; // what instructions in documents achieve, without the sandbox
mod interrupts; // a signal at each stage of a run
mod js; // nagent-js: the language, limits, files, what is refused
mod js_engine; // a process in the engine's place that keeps to nothing
mod js_network; // requests, redirects and private addresses of scripts
mod js_questions; // what a script is asked about on a terminal, and what is stored
mod keys; // what is typed at the prompt of nagent-repl, what is stopped, how the terminal is left
mod large; // the tags for large files: segments, and which files a patch may write
mod large_input; // prompts and files to read that are too long or not text; outgrown windows
mod learning; // what scripts in plain language learn and keep, and what is said where a model is paid again
mod lines; // what --lines prints: events for programs, and the front end of the page
mod llm_text; // nagent-llm-text
mod long_lines; // what results say of lines too long to be shown whole
mod r#loop; // malformed and cut-off replies, limits, checks, children
mod markdown; // answers as Markdown on a terminal, as whole screens
mod mcp; // nagent-mcp: servers from files, arguments, results, bad servers, servers in a run
mod model; // the six tasks of model/, with recorded replies
mod models; // what is asked of a model besides texts, and what comes back besides an answer
mod package; // what cargo and make install
mod parsers; // every parser on the inputs that fuzzing collected, and on variations of them
mod patch; // patching a source with edited segments: bad splits, merges, kills
mod patch_properties; // what joining gives, what git and patch(1) make of a patch, what a crash leaves
mod pictures; // pictures and documents in a conversation: every API, limits, bad input, what is named later
mod places; // hostile repositories, settings and programs in the working folder
mod prices; // windows and prices of models, what a run costs
mod process; // stdin, refusals, signals, what is left behind, sizes
mod process_ends; // what ends with a run that is killed; what commands inherit
mod profiles; // profiles of the config
mod programs; // programs as models: the example of docs/programs.md, what a program prints
mod providers; // every row of the provider table
mod prune; // what nagent-conversations prune removes, beside runs and kills
mod reading; // what a model reads: the first context, short results, small windows, checks, checkpoints in a run
mod real_files; // splitting the sources of nagent's dependencies
mod redact; // masking credentials in results; refusing to write masks
mod repl; // nagent-repl: looks, commands, prompts on stdin, keys in files
mod replays; // conversations as recordings, and what would differ now
mod repositories; // repositories without commits, with very many, shallow: what the model learns of them
mod rewind; // going back to before a turn, with files or without
mod rework; // a conversation that a model edits is the old text or the new one, never another
mod running; // what is shown of a command while it runs: on a terminal, in lines, in nagent-status
mod sandbox_tags; // in the sandbox, tags read and write nothing that a command could not
mod sandbox_tool; // nagent-sandbox: what it refuses, what commands may write, read and reach, what is told
mod screen; // what a person sees of a run: the answer while it arrives, commands, outputs, diffs, children
mod screens; // what each look of nagent-repl shows, as stored screens
mod secrets; // no key in any file, output or command line; where a key goes
mod seeds; // what three small assistants can do, as looks of nagent-repl
mod server_faults; // faults of servers, for each format, and how each is classified
mod session; // how nagent-repl is opened, what it continues, its list to choose from, what is typed during a run
mod sessions; // the sessions of README.md and docs/, run
mod shell; // output, exit codes, timeouts, descendants, environment
mod shown; // a write never replaces what the model has not seen
mod skills; // skills: where they are, what a model is told, `$name`, what is trusted, broken ones
mod soak; // a long run with a provider that fails every fifth time
mod split; // splitting large files: all bytes kept, no edited segment lost
mod steering; // nagent-message and nagent-status: what reaches a run, exactly once; what it tells of itself
mod structured; // answers that scripts can trust: --schema, --output, --grammar, nagent-decide
mod summarize; // summaries: what is asked, cached, joined, refused
mod summarize_input; // summaries of empty, binary, wide, odd or unreadable files
mod terminal; // what reaches a terminal, whoever wrote it
mod think; // nagent-think: memory.js first, then a model; what it is told, what it may do
mod thought; // nagent-thought: every verb, the lines about policies
mod tidy; // head comments, sizes, leftovers
mod trust; // a repository's own words, once the user has seen them
mod undo; // what nagent --undo takes back: all files of a run or none; what both undos see
mod undo_commands; // undo of what commands changed: taken back, or named
mod undo_left; // what undo of commands leaves and names, and what it must not remove
mod upload; // files sent to providers: routes, refusals, removal
mod user_commands; // the commands of --check and --after-write
mod writers; // one writer: the lock, edits between and during runs, forks
