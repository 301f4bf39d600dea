//! The functions that a script can call: one table, from which the objects in the engine, the text for the model and
//! docs/js.md are made.

/// A function of the API.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name, with the object that it belongs to.
    pub name: &'static str,
    /// Its arguments and its result, in the form that the model reads.
    pub form: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The permission that it needs.
    pub asks: &'static str,
}

/// Every function that the parent answers: its form, its meaning, and the permission that it needs.
const TABLE: &str = "\
fs.readFile(path[, \"base64\"]) → string | read a text file, or any file as base64 | read
fs.writeFile(path, text[, \"base64\"]) | write a whole file | write
fs.appendFile(path, text) | append to a file | write
fs.readDir(path) → [{name, isDir, size}] | list a folder | read
fs.stat(path) → {name, isDir, size, modTime} | modTime in seconds since 1970 | read
fs.exists(path) → boolean | false also where reading is denied | read
fs.delete(path) | remove a file, or a folder with all in it | delete
fs.mkdir(path) | make a folder and the missing ones above it | write
fs.copy(from, to) | copy a file | read, write
fs.move(from, to) | move a file or folder | delete, write
fs.glob(pattern) → [path] | absolute paths; ** is any depth | read
net.fetch(url[, {method, headers, body}]) → {status, headers, body} | http and https | host
env.get(name) → string | a variable of the environment, empty if it is not set | env
sys.platform() → string | linux |
sys.arch() → string | amd64 or arm64 |
sys.cpus() → number | processors |
sys.totalmem() → number | memory in bytes |
sys.freemem() → number | free memory in bytes |
sys.uptime() → number | seconds since the start |
sys.loadavg() → [number] | load of 1, 5 and 15 minutes |
console.log(...values) | a line on stderr; you see it, stdout does not |
console.error(...values) | the same |
process.sleep(ms) | wait |
process.stdin.read() → string | all of stdin as text, the same at each call; empty if there is none |
process.stdout.write(text) | write to stdout, byte for byte |
require(path) → exports | CommonJS, by ./, ../ or an absolute path; .js and .json | read";

/// The functions of the engine itself, without a call to the parent.
const OWN: &str = "\
process.cwd() → string
process.args: the script's arguments
process.exit([code]): end; nothing catches it
agent.resume([context]): end, and hand over to the agent, with what it should know; nothing catches it
";

/// Every function that the parent answers.
pub fn functions() -> impl Iterator<Item = Function> {
    TABLE.lines().filter_map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let (name, form) = cells.next()?.split_at(row.find('(')?);
        Some(Function { name, form, meaning: cells.next()?, asks: cells.next()? })
    })
}

/// The API in the form that the model reads, one function a line.
pub(crate) fn api_text() -> String {
    let called = functions().map(|Function { name, form, meaning, asks }| {
        let asks = if asks.is_empty() { String::new() } else { format!(" [{asks}]") };
        format!("{name}{form}: {meaning}{asks}\n")
    });
    called.chain([OWN.to_owned()]).collect()
}

/// The table for the documentation.
pub fn markdown() -> String {
    let rows = functions().map(|Function { name, form, meaning, asks }| {
        format!("| `{name}{form}` | {meaning} | {asks} |\n")
    });
    "| function | does | asks for |\n|---|---|---|\n".to_owned() + &rows.collect::<String>()
}
