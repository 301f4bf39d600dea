//! How long an edit takes in a file of 10,000 lines, beside the least that it could be: `str::find` and one copy, and reading
//! the file. One round has each case once, so that what the host does to one it does to all.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin nagent-bench-edits -- [ROUNDS]` prints a Markdown table.
#![expect(clippy::disallowed_methods, reason = "the toolkit's layers are not this program's")]

#[path = "../../stats.rs"]
mod stats;

use std::hint::black_box;
use std::time::Instant;

use edits::apply::apply;
use conversation::format::edit::EditBlock;

/// 10,000 lines of functions that are much like each other.
fn text() -> String {
    let mut text = String::new();
    for i in 0..834 {
        text.push_str(&format!(
            "fn step_{i}(input: &[u32]) -> u32 {{\n    let limit = {};\n    let mut sum = 0;\n    for item in input {{\n        if *item > limit {{\n            sum += item;\n        }} else {{\n            sum += 1;\n        }}\n    }}\n    sum\n}}\n",
            i * 7
        ));
    }
    text
}

fn main() {
    let rounds =
        std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(200_usize);
    let file = text();
    let search = "fn step_600(input: &[u32]) -> u32 {\n    let limit = 4200;\n    let mut sum = 0;\n    for item in input {\n";
    let replace = search.replace("4200", "4300");
    let map = |text: &str, with: &dyn Fn(&str) -> String| {
        text.lines().map(|line| with(line) + "\n").collect::<String>()
    };
    let block = |with: &dyn Fn(&str) -> String| EditBlock {
        search: map(search, with),
        replace: map(&replace, with),
        line: 1,
    };
    let cases: Vec<(&str, EditBlock)> = vec![
        ("exact", block(&str::to_owned)),
        ("blanks at ends", block(&|line| format!("{line} "))),
        ("indented", block(&|line| format!("    {line}"))),
        ("tabs for spaces", block(&|line| line.replace("    ", "\t"))),
        ("CR LF", block(&|line| format!("{line}\r"))),
        ("no-break blanks", block(&|line| line.replace(' ', "\u{a0}"))),
        ("a blank line too many", block(&|line| line.replace("    let mut", "\n    let mut"))),
        ("refused: one stale value", block(&|line| line.replace("4200", "4201"))),
        (
            "refused: found many times",
            EditBlock {
                search: "    let mut sum = 0;\n    for item in input {\n".to_owned(),
                replace: "    for item in input {\n".to_owned(),
                line: 1,
            },
        ),
        (
            "refused: already applied",
            EditBlock { search: replace.clone(), replace: search.to_owned(), line: 1 },
        ),
        ("refused: its own indentation", block(&|line| line.replace("    let mut", "  let mut"))),
        (
            "refused: nothing alike",
            EditBlock {
                search: "@@ quite unlike @@\n@@ anything @@\n".to_owned(),
                replace: "new\n".to_owned(),
                line: 1,
            },
        ),
    ];
    let path = std::env::temp_dir().join(format!("nagent-bench-edits-{}", std::process::id()));
    std::fs::write(&path, &file).expect("the temp folder can be written");
    let mut times: Vec<(String, Vec<f64>)> = Vec::new();
    let names = ["`str::find`, one copy", "reading the file"].into_iter().map(str::to_owned);
    let names = names.chain(cases.iter().map(|(name, _)| (*name).to_owned()));
    times.extend(names.map(|name| (name, Vec::new())));
    for _ in 0..rounds {
        let mut took = Vec::with_capacity(times.len());
        let mut time = |run: &mut dyn FnMut()| {
            let start = Instant::now();
            run();
            took.push(start.elapsed().as_secs_f64() * 1e3);
        };
        time(&mut || {
            let at = black_box(&file).find(search).expect("it is there");
            black_box([&file[..at], &replace, &file[at + search.len()..]].concat());
        });
        time(&mut || {
            black_box(std::fs::read_to_string(&path).expect("it was written"));
        });
        for (_, block) in &cases {
            time(&mut || drop(black_box(apply(black_box(&file), std::slice::from_ref(block), false))));
        }
        for ((_, times), took) in times.iter_mut().zip(took) {
            times.push(took);
        }
    }
    std::fs::remove_file(&path).expect("it was written");
    let (lines, bytes) = (file.lines().count(), file.len());
    let mut table = format!(
        "An edit of a file of {lines} lines, {bytes} bytes; ms, median (range) of {rounds} rounds.\n\n| edit | ms | to `str::find` | to reading |\n|---|--:|--:|--:|\n"
    );
    for (name, values) in &times {
        table.push_str(&format!(
            "| {name} | {} | {} | {} |\n",
            stats::spread(values),
            stats::ratio(values, &times[0].1),
            stats::ratio(values, &times[1].1)
        ));
    }
    use std::io::Write;
    std::io::stdout().write_all(table.as_bytes()).expect("stdout can be written");
}
