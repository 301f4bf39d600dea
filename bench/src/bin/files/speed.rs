//! The time of splitting and patching, beside `cat`, `sha256sum`, `diff -u` and a bare parse of the same files.
//!
//! The programs run in turns, round by round; ratios are medians over rounds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tree_sitter::Parser;

use crate::stats::{ratio, spread};
use crate::usage;

struct Options {
    bin: PathBuf,
    rounds: usize,
    megabytes: Vec<usize>,
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut found = Options { bin: PathBuf::new(), rounds: 5, megabytes: vec![10, 100] };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--bin" => found.bin = value.into(),
            "--rounds" => found.rounds = value.parse().map_err(|_| "--rounds takes a number")?,
            "--megabytes" => {
                let sizes: Result<_, _> = value.split(',').map(str::parse).collect();
                found.megabytes = sizes.map_err(|_| "--megabytes takes numbers")?;
            }
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if found.bin.as_os_str().is_empty() {
        return Err("--bin DIR is needed: the folder of the executables to measure".to_owned());
    }
    found.bin = std::fs::canonicalize(&found.bin).map_err(|error| error.to_string())?;
    Ok(found)
}

/// Reads a file, parses it, and does nothing with the tree.
pub(crate) fn parse(args: &[String]) -> Result<(), String> {
    let [kind, path] = args else { return Err("parse takes a type and a file".to_owned()) };
    let grammar = match kind.as_str() {
        "py" => tree_sitter_python::LANGUAGE.into(),
        "json" => tree_sitter_json::LANGUAGE.into(),
        _ => return Err(format!("no grammar for {kind}")),
    };
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut parser = Parser::new();
    parser.set_language(&grammar).map_err(|error| error.to_string())?;
    parser.parse(&text, None).map(drop).ok_or_else(|| "no tree".to_owned())
}

/// Makes a file of a type and a size in MB.
pub(crate) fn generate(args: &[String]) -> Result<(), String> {
    let [kind, megabytes, path] = args else {
        return Err("generate takes a type, a number of MB and a file".to_owned());
    };
    let (_, make) = GENERATORS
        .iter()
        .find(|(known, _)| known == kind)
        .ok_or_else(|| format!("no such type: {kind}"))?;
    let megabytes: usize = megabytes.parse().map_err(|_| "the size is a number")?;
    std::fs::write(path, make(megabytes * 1_000_000)).map_err(|error| error.to_string())
}

/// What one run took, in seconds and MB.
struct Sample {
    wall: f64,
    cpu: f64,
    peak: f64,
}

fn timed(command: &mut Command, codes: &[i32]) -> Result<Sample, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let ended = usage::wait(child.id())?;
    let wall = begin.elapsed().as_secs_f64();
    if !codes.contains(&ended.code) {
        return Err(format!("{command:?} exited {}", ended.code));
    }
    Ok(Sample { wall, cpu: ended.cpu.as_secs_f64(), peak: ended.peak as f64 / 1024.0 })
}

/// The rows of one table, by name.
#[derive(Default)]
struct Table {
    rows: Vec<(String, Vec<Sample>)>,
}

impl Table {
    fn add(&mut self, name: &str, sample: Sample) {
        match self.rows.iter_mut().find(|(known, _)| known == name) {
            Some((_, samples)) => samples.push(sample),
            None => self.rows.push((name.to_owned(), vec![sample])),
        }
    }

    /// Prints the rows; ratios of wall time are to the row called `base`.
    fn print(&self, title: &str, base: &str) {
        let all = |samples: &[Sample], of: fn(&Sample) -> f64| -> Vec<f64> {
            samples.iter().map(of).collect()
        };
        let walls = |name: &str| {
            let row = self.rows.iter().find(|(known, _)| known == name);
            row.map(|(_, samples)| all(samples, |sample| sample.wall * 1000.0)).unwrap_or_default()
        };
        let base_walls = walls(base);
        println!(
            "\n{title}\n\n| command | wall ms | CPU ms | peak MB | wall ÷ {base} |\n|---|---|---|---|---|"
        );
        for (name, samples) in &self.rows {
            println!(
                "| {name} | {} | {} | {} | {} |",
                spread(&walls(name)),
                spread(&all(samples, |sample| sample.cpu * 1000.0)),
                spread(&all(samples, |sample| sample.peak)),
                ratio(&walls(name), &base_walls),
            );
        }
    }
}

/// Measures and prints.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let folder = std::env::temp_dir().join(format!("nagent-bench-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let done = all(&options, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn all(options: &Options, folder: &Path) -> Result<(), String> {
    println!("Medians of {} rounds (least–most), all programs in turns.", options.rounds);
    for megabytes in &options.megabytes {
        for (kind, _) in GENERATORS {
            let file = folder.join(format!("big.{kind}"));
            // By another process: the kernel counts what this one has held for a peak of its children.
            let mut command =
                Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.args(["generate", kind, &megabytes.to_string()]).arg(&file);
            timed(&mut command, &[0])?;
            split(options, folder, &file, kind, *megabytes)?;
            if kind == "txt" || kind == "py" {
                patch(options, folder, &file, kind, *megabytes)?;
            }
            std::fs::remove_file(&file).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn split(
    options: &Options,
    folder: &Path,
    file: &Path,
    kind: &str,
    megabytes: usize,
) -> Result<(), String> {
    let mut table = Table::default();
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let is_parsed = ["py", "json"].contains(&kind);
    for _ in 0..options.rounds {
        table.add("cat", timed(Command::new("cat").arg(file), &[0])?);
        table.add("sha256sum", timed(Command::new("sha256sum").arg(file), &[0])?);
        if is_parsed {
            table
                .add("bare parse", timed(Command::new(&me).args(["parse", kind]).arg(file), &[0])?);
        }
        let out = folder.join("split");
        table.add("nagent-file-split", timed(&mut splitter(options, file, &out, None), &[0])?);
        std::fs::remove_dir_all(&out).map_err(|error| error.to_string())?;
    }
    let base = if is_parsed { "bare parse" } else { "sha256sum" };
    table.print(&format!("Split, {kind}, {megabytes} MB"), base);
    Ok(())
}

fn splitter(options: &Options, file: &Path, out: &Path, target: Option<u64>) -> Command {
    let mut command = Command::new(options.bin.join("nagent-file-split"));
    command.arg("--file").arg(file).arg("--output").arg(out);
    if let Some(target) = target {
        command.arg("--target-bytes").arg(target.to_string());
    }
    command
}

/// Five edits, with the source in one segment, in about a thousand, and by the default target.
fn patch(
    options: &Options,
    folder: &Path,
    file: &Path,
    kind: &str,
    megabytes: usize,
) -> Result<(), String> {
    let size = (megabytes * 1_000_000) as u64;
    let mut table = Table::default();
    let source = folder.join(format!("source.{kind}"));
    let out = folder.join("split");
    let mut counts = String::new();
    for round in 0..options.rounds {
        for (name, target) in
            [("1 segment", Some(size * 2)), ("1000 segments", Some(size / 1000)), ("default", None)]
        {
            std::fs::copy(file, &source).map_err(|error| error.to_string())?;
            timed(&mut splitter(options, &source, &out, target), &[0])?;
            let count = edit(&out)?;
            if round == 0 {
                let _ = write!(counts, " {name}: {count};");
            }
            let before = timed(Command::new("sha256sum").arg(&source), &[0])?;
            let mut command = Command::new(options.bin.join("nagent-file-patch"));
            command.arg("--index").arg(out.join("index.json"));
            let sample = timed(&mut command, &[0])?;
            if name == "default" {
                table.add("sha256sum", before);
                let diff = timed(Command::new("diff").arg("-u").arg(file).arg(&source), &[1])?;
                table.add("diff -u", diff);
            }
            table.add(&format!("nagent-file-patch, {name}"), sample);
            std::fs::remove_dir_all(&out).map_err(|error| error.to_string())?;
        }
    }
    std::fs::remove_file(&source).map_err(|error| error.to_string())?;
    table
        .print(&format!("Patch, {kind}, {megabytes} MB, 5 edits (segments:{counts})"), "sha256sum");
    Ok(())
}

/// Changes a line in five segments, or five lines in one; the number of segments.
fn edit(folder: &Path) -> Result<usize, String> {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("source-"))
        .collect();
    segments.sort();
    let few = segments.len().min(5);
    for number in 0..few {
        let path = &segments[number * segments.len() / few];
        let mut bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        for edit in 0..5 / few {
            let from = bytes.len() * (edit + 1) / 7;
            let at =
                bytes[from..].iter().position(|byte| *byte == b'\n').map_or(0, |at| from + at + 1);
            bytes.splice(at..at, *b"# a line that was not there\n");
        }
        std::fs::write(path, bytes).map_err(|error| error.to_string())?;
    }
    Ok(segments.len())
}

/// Text of so many bytes, more or less.
type Generator = fn(usize) -> String;

/// Types with what makes a file of a size.
const GENERATORS: [(&str, Generator); 4] =
    [("txt", text), ("md", markdown), ("py", python), ("json", json)];

/// A sequence that looks like nothing: a linear congruence (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn words(text: &mut String, numbers: &mut Numbers, count: u64) {
    for _ in 0..count {
        let _ = write!(text, "word{} ", numbers.next(5000));
    }
}

fn text(size: usize) -> String {
    let (mut text, mut numbers) = (String::with_capacity(size + 4096), Numbers(1));
    while text.len() < size {
        for _ in 0..=numbers.next(8) {
            let count = numbers.next(12) + 1;
            words(&mut text, &mut numbers, count);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

fn markdown(size: usize) -> String {
    let (mut text, mut numbers) = (String::with_capacity(size + 4096), Numbers(2));
    while text.len() < size {
        let level = usize::try_from(numbers.next(4) + 1).unwrap_or(1);
        let _ = writeln!(text, "{} Heading {}\n", "#".repeat(level), numbers.next(9999));
        for _ in 0..=numbers.next(4) {
            let count = numbers.next(60) + 1;
            words(&mut text, &mut numbers, count);
            text.push_str("\n\n");
        }
        text.push_str("```sh\n# no heading\n```\n\n");
    }
    text
}

fn python(size: usize) -> String {
    let (mut text, mut numbers) = (String::with_capacity(size + 4096), Numbers(3));
    while text.len() < size {
        let name = numbers.next(1_000_000);
        let _ = write!(
            text,
            "class C{name}:\n    \"\"\"About {name}.\n\n    def not_this\n    \"\"\"\n\n"
        );
        for method in 0..=numbers.next(6) {
            let value = numbers.next(9999);
            let _ = write!(
                text,
                "    # It returns {value}.\n    @decorated({value})\n    def method_{method}(self, a, b={value}):\n        \
                 if a > b:\n            return [a, b, \"{{{value}\"]\n\n        return {{'k': a * {value}}}\n\n"
            );
        }
        text.push('\n');
    }
    text
}

fn json(size: usize) -> String {
    let (mut text, mut numbers) = (String::with_capacity(size + 4096), Numbers(4));
    text.push_str("[\n");
    while text.len() < size {
        let (id, value) = (numbers.next(999_999), numbers.next(999));
        let _ = write!(
            text,
            "  {{\n    \"id\": {id},\n    \"name\": \"n}} {value}\",\n    \"tags\": [\n      \"a\",\n      {value}\n    ]\n  }},\n"
        );
    }
    text.push_str("  {}\n]\n");
    text
}
