//! A repository that looks like one that people worked on for years: modules of a few files each, with tests beside them,
//! changed together; files that move, side branches that are merged, now and then a change of everything.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Modules: each has a source, a header and a test.
const MODULES: u64 = 120;

/// Files whose history is looked at: changed often, moved twice, changed rarely.
pub(crate) const FILES: [&str; 3] = ["src/core/engine.c", "lib/moved/parser.c", "docs/rare.md"];

/// A sequence that looks like nothing: a linear congruence (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A git that knows nothing of who runs it.
pub(crate) fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("git: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("git failed: {status}")) }
}

/// Makes it, packed.
pub(crate) fn make(folder: &Path, commits: u64) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    run(git(folder).args(["init", "--quiet", "-b", "main"]))?;
    let mut child = git(folder)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("git fast-import: {error}"))?;
    let mut pipe = child.stdin.take().ok_or("no pipe")?;
    let mut stream = String::new();
    let mut writer = Writer {
        numbers: Numbers(commits),
        mark: 0,
        stream: &mut stream,
        side: Vec::new(),
        side_is_open: false,
    };
    for number in 0..commits {
        writer.commit(number, commits);
        if writer.stream.len() > 1 << 20 {
            pipe.write_all(writer.stream.as_bytes()).map_err(|error| error.to_string())?;
            writer.stream.clear();
        }
    }
    pipe.write_all(stream.as_bytes()).map_err(|error| error.to_string())?;
    drop(pipe);
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("git fast-import failed: {status}"));
    }
    run(git(folder).args(["repack", "-adq"]))?;
    run(git(folder).args(["reset", "--hard", "--quiet", "main"]))
}

struct Writer<'a> {
    numbers: Numbers,
    mark: u64,
    stream: &'a mut String,
    /// What the side branch wrote: path and the number of the commit.
    side: Vec<(String, u64)>,
    side_is_open: bool,
}

impl Writer<'_> {
    fn commit(&mut self, number: u64, commits: u64) {
        self.mark += 1;
        let mark = self.mark;
        let time = 1_200_000_000 + number * 3600;
        let author = self.numbers.next(30);
        // Every fifteenth begins a side branch of two, which the next one merges.
        let phase = number % 15;
        let branch = if number > 15 && (phase == 12 || phase == 13) { "side" } else { "main" };
        let _ = writeln!(self.stream, "commit refs/heads/{branch}\nmark :{mark}");
        let _ = writeln!(
            self.stream,
            "author Person {author} <p{author}@example.org> {time} +0100\n\
             committer Person {author} <p{author}@example.org> {time} +0100"
        );
        let message = format!("Change number {number}\n\nIt says why.\n");
        let _ = write!(self.stream, "data {}\n{message}", message.len());
        if number > 15 {
            match phase {
                12 => {
                    let _ = writeln!(self.stream, "from :{}", mark - 1);
                }
                // The main line goes on from before the branch; what the branch wrote is put in.
                14 => {
                    let _ = writeln!(self.stream, "from :{}\nmerge :{}", mark - 3, mark - 1);
                    for (path, number) in std::mem::take(&mut self.side) {
                        self.file(&path, number);
                    }
                }
                _ => {}
            }
        }
        self.side_is_open = branch == "side";
        if number == 0 {
            for module in 0..MODULES {
                for kind in ["c", "h", "t"] {
                    self.module(module, kind, commits, number);
                }
            }
            for path in ["src/core/engine.c", "src/parser.c", "docs/rare.md"] {
                self.file(path, 0);
            }
        } else if number % 997 == 500 {
            for module in 0..MODULES {
                self.module(module, "c", commits, number);
            }
            self.file("src/core/engine.c", number);
        } else {
            let module = self.numbers.next(MODULES);
            self.module(module, "c", commits, number);
            if self.numbers.next(2) == 0 {
                self.module(module, "t", commits, number);
            }
            if self.numbers.next(4) == 0 {
                self.module(module, "h", commits, number);
            }
            if self.numbers.next(40) == 0 {
                self.file("src/core/engine.c", number);
            }
            if number % (commits / 8).max(1) == 7 {
                self.file("docs/rare.md", number);
            }
        }
        self.parser(number, commits);
    }

    /// The file that moves: at a third and at two thirds.
    fn parser(&mut self, number: u64, commits: u64) {
        let (first, second) = (commits / 3 / 15 * 15 + 1, commits * 2 / 3 / 15 * 15 + 1);
        if number == first {
            self.stream.push_str("R src/parser.c src/front/parser.c\n");
        } else if number == second {
            self.stream.push_str("R src/front/parser.c lib/moved/parser.c\n");
        }
        let path = match number {
            _ if number < first => "src/parser.c",
            _ if number < second => "src/front/parser.c",
            _ => "lib/moved/parser.c",
        };
        if number == first || number == second || self.numbers.next(60) == 0 {
            self.file(path, number);
        }
    }

    fn module(&mut self, module: u64, kind: &str, commits: u64, number: u64) {
        // Some modules lie in deep folders, and each tenth moves once.
        let moved = module % 10 == 3 && number >= commits / 2;
        let folder = if moved { "moved/deep" } else { "src" };
        self.file(&format!("{folder}/m{}/part{module}.{kind}", module / 8), number);
    }

    /// A file of some sixty lines, a few of which change each time.
    fn file(&mut self, path: &str, number: u64) {
        if self.side_is_open {
            self.side.push((path.to_owned(), number));
        }
        let seed: u64 = path.rsplit('/').next().unwrap_or(path).bytes().map(u64::from).sum();
        let mut text = String::new();
        for line in 0..60 {
            let version = if (line + number).is_multiple_of(20) { number } else { number / 400 };
            let _ = writeln!(text, "line {line} of {seed}: {version}");
        }
        let _ = write!(self.stream, "M 100644 inline {path}\ndata {}\n{text}", text.len());
    }
}
