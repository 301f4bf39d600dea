//! What the compiler does not check: head comments, sizes, leftovers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the project, by their path in it: those that git knows, else those that are there.
fn files() -> Vec<String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(top()).output();
    let listed = listed.ok().filter(|output| output.status.success() && !output.stdout.is_empty());
    let names: Vec<String> = match listed {
        Some(output) => String::from_utf8(output.stdout)
            .unwrap()
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        None => ["src", "crates", "tests", "bench/src"]
            .iter()
            .flat_map(|folder| below(folder))
            .collect(),
    };
    names.into_iter().filter(|name| top().join(name).is_file()).collect()
}

fn below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(top().join(folder)).unwrap() {
        let name = format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy());
        if top().join(&name).is_dir() { found.extend(below(&name)) } else { found.push(name) }
    }
    found.sort();
    found
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The sources of the program: the application, and the crates that it is made of.
pub(crate) fn sources() -> Vec<String> {
    let crates = rust_files("crates");
    rust_files("src").into_iter().chain(crates).collect()
}

pub(crate) fn rust_files(folder: &str) -> Vec<String> {
    let rust =
        |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "rs");
    below(folder).into_iter().filter(rust).collect()
}

#[track_caller]
fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let names = sources().into_iter().chain(rust_files("tests/it")).chain(rust_files("bench/src"));
    // What is included in other files cannot.
    let names = names.filter(|name| name != "src/stub.rs");
    let found: Vec<_> = names.filter(|name| !text(name).starts_with("//! ")).collect();
    none("these files do not open with //!", &found);
}

/// The files that lift the ban on effects. The fixtures of the wire formats are files, read by tests alone; the stubs link
/// nothing of the library.
const EFFECTS: [&str; 5] = [
    "crates/history/src/lib.rs",
    "crates/sandbox/src/lib.rs",
    "crates/sys/src/lib.rs",
    "crates/models/src/tests/replies.rs",
    "src/stub.rs",
];

#[test]
fn effects_are_in_three_crates_alone() {
    let lifted = |name: &String| text(name).contains("clippy::disallowed_methods");
    let found: Vec<_> = sources()
        .into_iter()
        .filter(lifted)
        .filter(|name| !EFFECTS.contains(&name.as_str()))
        .collect();
    none("these files lift the ban on effects", &found);
}

#[test]
fn files_are_of_a_size_to_read() {
    let mut found = Vec::new();
    for name in sources().into_iter().chain(rust_files("tests/it")).chain(rust_files("bench/src")) {
        let text = text(&name);
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let lines = text.lines().count();
        if lines > 600 && !head.contains("longer than") {
            found.push(format!(
                "{name}: {lines} lines, and its head does not say why it is longer than 600"
            ));
        }
    }
    none("files over 600 lines", &found);
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    let marks = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
    ];
    let names = sources().into_iter().chain(rust_files("tests")).chain(rust_files("bench/src"));
    let names = names.chain(rust_files("torture/src"));
    let found: Vec<_> =
        names.filter(|name| marks.iter().any(|mark| text(name).contains(mark))).collect();
    none("these files hold a mark of undone work", &found);
}

/// Files whose text people write: no fixtures, whose bytes are what they are.
fn written() -> Vec<String> {
    let kinds = ["rs", "md", "toml", "json", "yml", "yaml", "sh"];
    let kind = |name: &str| {
        Path::new(name).extension().is_some_and(|kind| kinds.iter().any(|known| kind == *known))
    };
    let plain = |name: &str| ["Makefile", "LICENSE", ".ci/run"].contains(&name) || kind(name);
    files().into_iter().filter(|name| plain(name) && !name.contains("fixtures/")).collect()
}

#[test]
fn no_line_ends_in_blanks() {
    let mut found = Vec::new();
    for name in written() {
        let text = text(&name);
        let lines = text.lines().enumerate().filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
        found.extend(lines.map(|(at, _)| format!("{name}:{}", at + 1)));
        if !text.is_empty() && !text.ends_with('\n') {
            found.push(format!("{name}: no line feed at its end"));
        }
    }
    none("trailing blanks", &found);
}

#[test]
fn nothing_of_the_machine_it_was_written_on_is_in_the_project() {
    let mut foreign = vec![Regex::new(concat!(r"(^|[^A-Za-z0-9_.}/-])/wo", "rk/")).unwrap()];
    // The host of a registry that stands in for the usual one is named in cargo's own configuration.
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let hosts = Regex::new(r#"https?://([^/:"']+\.[^/:"']+)"#).unwrap();
    for name in ["config.toml", "config"] {
        let Some(config) =
            home.as_ref().and_then(|home| std::fs::read_to_string(home.join(name)).ok())
        else {
            continue;
        };
        for host in hosts.captures_iter(&config) {
            if !["github.com", concat!("crates", ".io")]
                .iter()
                .any(|known| host[1].ends_with(known))
            {
                foreign.push(Regex::new(&regex::escape(&host[1])).unwrap());
            }
        }
    }
    let mut found = Vec::new();
    for name in files() {
        let bytes = std::fs::read(top().join(&name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for (at, line) in text.lines().enumerate() {
            if foreign.iter().any(|pattern| pattern.is_match(line)) {
                found.push(format!("{name}:{}", at + 1));
            }
        }
    }
    none("paths or hosts of one machine", &found);
}

#[test]
fn every_file_of_tests_is_in_the_list_of_modules() {
    let main = text("tests/it/main.rs");
    let listed: BTreeSet<String> = Regex::new(r"(?m)^mod (?:r#)?(\w+);.*// \w")
        .unwrap()
        .captures_iter(&main)
        .map(|module| module[1].to_owned())
        .collect();
    let there: BTreeSet<String> = rust_files("tests/it")
        .iter()
        .map(|name| name.trim_start_matches("tests/it/").trim_end_matches(".rs"))
        .map(|name| name.trim_end_matches("/mod").to_owned())
        .filter(|name| name != "main" && !name.contains('/'))
        .collect();
    assert_eq!(listed, there, "each file of tests/it is a module with a sentence");
}

#[test]
fn every_mutant_has_one_place_to_break() {
    let table = text("mutants/table");
    let mut found = Vec::new();
    for record in table.split("\n\n") {
        let field = |key: &str| record.lines().find_map(|line| line.strip_prefix(key));
        let Some(name) = field("name: ") else { continue };
        let files = match field("in: ") {
            Some(place) if top().join(place).is_dir() => below(place),
            Some(place) => vec![place.to_owned()],
            None => [below("src"), below("crates")].concat(),
        };
        let old = field("old: ").unwrap();
        let count: usize = files.iter().map(|file| text(file).matches(old).count()).sum();
        if count != 1 {
            found.push(format!("{name}: {count} times"));
        }
    }
    none("mutants/table names a text that does not occur exactly once", &found);
}
