//! What a script can call: one table, from which the objects in the engine, the text for the model and docs/js.md are made.

/// A function of the API.
#[derive(Debug)]
pub struct Function {
    /// Its name with the object that it belongs to.
    pub name: &'static str,
    /// Its arguments and what it returns, as the model reads it.
    pub form: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What must be allowed for it.
    pub asks: &'static str,
}

const fn function(
    name: &'static str,
    form: &'static str,
    meaning: &'static str,
    asks: &'static str,
) -> Function {
    Function { name, form, meaning, asks }
}

const NOTHING: &str = "";

/// Every function that the parent answers.
pub const API: &[Function] = &[
    function(
        "fs.readFile",
        "(path[, \"base64\"]) → string",
        "read a text file, or any file as base64",
        "read",
    ),
    function("fs.writeFile", "(path, text[, \"base64\"])", "write a whole file", "write"),
    function("fs.appendFile", "(path, text)", "append to a file", "write"),
    function("fs.readDir", "(path) → [{name, isDir, size}]", "list a folder", "read"),
    function(
        "fs.stat",
        "(path) → {name, isDir, size, modTime}",
        "modTime in seconds since 1970",
        "read",
    ),
    function("fs.exists", "(path) → boolean", "false also where reading is denied", "read"),
    function("fs.delete", "(path)", "remove a file, or a folder with all in it", "delete"),
    function("fs.mkdir", "(path)", "make a folder and the missing ones above it", "write"),
    function("fs.copy", "(from, to)", "copy a file", "read, write"),
    function("fs.move", "(from, to)", "move a file or folder", "delete, write"),
    function("fs.glob", "(pattern) → [path]", "absolute paths; ** is any depth", "read"),
    function(
        "net.fetch",
        "(url[, {method, headers, body}]) → {status, headers, body}",
        "http and https",
        "host",
    ),
    function(
        "env.get",
        "(name) → string",
        "a variable of the environment, empty if it is not set",
        "env",
    ),
    function("sys.platform", "() → string", "linux", NOTHING),
    function("sys.arch", "() → string", "amd64 or arm64", NOTHING),
    function("sys.cpus", "() → number", "processors", NOTHING),
    function("sys.totalmem", "() → number", "memory in bytes", NOTHING),
    function("sys.freemem", "() → number", "free memory in bytes", NOTHING),
    function("sys.uptime", "() → number", "seconds since the start", NOTHING),
    function("sys.loadavg", "() → [number]", "load of 1, 5 and 15 minutes", NOTHING),
    function(
        "sys.terminal",
        "() → {columns, rows, isTTY, color}",
        "the terminal; isTTY is stdout's",
        NOTHING,
    ),
    function(
        "console.log",
        "(...values)",
        "a line on stderr; you see it, stdout does not",
        NOTHING,
    ),
    function("console.error", "(...values)", "the same", NOTHING),
    function("process.sleep", "(ms)", "wait", NOTHING),
    function("process.stdout.write", "(text)", "write to stdout, byte for byte", NOTHING),
    function(
        "input.prompt",
        "(question[, {default}]) → string",
        "ask the person at the terminal",
        NOTHING,
    ),
    function(
        "require",
        "(path) → exports",
        "CommonJS, by ./, ../ or an absolute path; .js and .json",
        "read",
    ),
];

/// What the engine has by itself, without a call.
const OWN: &[&str] = &[
    "process.cwd() → string",
    "process.args: the script's arguments",
    "process.exit([code]): end; nothing catches it",
    "agent.resume([context]): end, and hand over to the agent, with what it should know; nothing catches it",
];

/// The API as the model reads it, a function a line.
pub fn text() -> String {
    let called = API.iter().map(|function| {
        let asks =
            if function.asks.is_empty() { String::new() } else { format!(" [{}]", function.asks) };
        format!("{}{}: {}{asks}\n", function.name, function.form, function.meaning)
    });
    called.chain(OWN.iter().map(|line| format!("{line}\n"))).collect()
}

/// The table as a page has it.
pub fn markdown() -> String {
    let mut text = "| function | does | asks for |\n|---|---|---|\n".to_owned();
    for function in API {
        let form = function.form.replace('|', "\\|");
        text.push_str(&format!(
            "| `{}{form}` | {} | {} |\n",
            function.name, function.meaning, function.asks
        ));
    }
    text
}
