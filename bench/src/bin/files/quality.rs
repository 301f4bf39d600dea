//! How well files are cut: definitions that were cut, headings left alone, segments too small or too large.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use code::language::{self, Language};
use code::pack::CutRules;
use code::{cutter, grammar};

/// A parse that takes longer is given up; the file counts as strange.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Row {
    files: usize,
    strange: usize,
    bytes: u64,
    segments: usize,
    definitions: usize,
    /// Definitions that were cut, all of them too large for a segment but for those in `fitting`.
    cut: usize,
    fitting: usize,
    headings: usize,
    orphans: usize,
    /// Pairs that would fit into one segment, one of them below a quarter of the target.
    small: usize,
    over: usize,
    least: u64,
    most: u64,
}

/// Cuts everything below some folders and prints the table.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut rules = CutRules { target: 32 * 1024, natural: false };
    let mut folders = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--target" {
            let value = args.next().and_then(|value| value.parse().ok());
            rules.target = value.ok_or("--target takes a number of bytes")?;
        } else {
            folders.push(PathBuf::from(arg));
        }
    }
    if folders.is_empty() {
        return Err("name the folders to go through".to_owned());
    }
    let mut rows: BTreeMap<&'static str, Row> = BTreeMap::new();
    let mut wrong = Vec::new();
    for folder in &folders {
        let mut files = Vec::new();
        walk(folder, &mut files);
        for path in files {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let detected = language::detect(&name, &bytes[..bytes.len().min(64 * 1024)]);
            if !detected.is_text || bytes.len() as u64 <= rules.target {
                continue;
            }
            let row = rows.entry(detected.language.name()).or_default();
            look(&path, &bytes, detected.language, rules, row, &mut wrong);
        }
    }
    table(rules, &rows);
    wrong.truncate(20);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

fn look(
    path: &Path,
    bytes: &[u8],
    language: Language,
    rules: CutRules,
    row: &mut Row,
    wrong: &mut Vec<String>,
) {
    let segments = cutter::cut_text(language, bytes, rules);
    let mut at = 0;
    for (from, to) in &segments {
        if *from != at || *to <= at {
            wrong.push(format!("{}: a segment from {from} to {to}, behind {at}", path.display()));
        }
        at = *to;
        let size = to - from;
        row.over += usize::from(size > rules.target);
        row.least = if row.least == 0 { size } else { row.least.min(size) };
        row.most = row.most.max(size);
    }
    if at != bytes.len() as u64 {
        wrong.push(format!("{}: {at} of {} bytes", path.display(), bytes.len()));
    }
    for pair in segments.windows(2) {
        let sizes = [pair[0].1 - pair[0].0, pair[1].1 - pair[1].0];
        let small = sizes.iter().any(|size| size * 4 < rules.target);
        row.small += usize::from(small && sizes[0] + sizes[1] <= rules.target);
    }
    row.files += 1;
    row.bytes += bytes.len() as u64;
    row.segments += segments.len();
    let cuts: Vec<u64> = segments.iter().skip(1).map(|segment| segment.0).collect();
    let is_cut = |from: usize, to: usize| {
        let next = cuts.partition_point(|cut| *cut <= from as u64);
        cuts.get(next).is_some_and(|cut| *cut < to as u64)
    };
    let begin = Instant::now();
    match grammar::find_definitions(language, bytes, &mut || begin.elapsed() > LONGEST) {
        None => row.strange += 1,
        Some(definitions) => {
            for one in definitions {
                row.definitions += 1;
                if is_cut(one.start, one.end) {
                    row.cut += 1;
                    if one.len() as u64 <= rules.target {
                        row.fitting += 1;
                        wrong.push(format!(
                            "{}: the definition at byte {} fits and is cut",
                            path.display(),
                            one.start
                        ));
                    }
                }
            }
        }
    }
    if language == Language::Markdown {
        for heading in headings(bytes) {
            row.headings += 1;
            // Nothing but white space between the heading and the cut behind it.
            let cut = cuts.get(cuts.partition_point(|cut| *cut < heading as u64));
            let rest = cut.map(|cut| &bytes[heading..usize::try_from(*cut).unwrap_or(heading)]);
            row.orphans += usize::from(rest.is_some_and(|rest| rest.trim_ascii().is_empty()));
        }
    }
}

/// Where headings end, by a parse of the whole text.
fn headings(bytes: &[u8]) -> Vec<usize> {
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    Parser::new_ext(text, options)
        .into_offset_iter()
        .filter(|(event, _)| matches!(event, Event::Start(Tag::Heading { .. })))
        .map(|(_, range)| range.end)
        .collect()
}

fn table(rules: CutRules, rows: &BTreeMap<&'static str, Row>) {
    println!("Files over the target of {} bytes, cut in memory.\n", rules.target);
    println!(
        "| type | files | MB | segments | definitions | cut, too large | cut, would fit | headings | orphans | \
         needlessly small | over the target | smallest | largest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, row) in rows {
        println!(
            "| {name} | {} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.files,
            row.bytes as f64 / 1e6,
            row.segments,
            row.definitions,
            row.cut - row.fitting,
            row.fitting,
            row.headings,
            row.orphans,
            row.small,
            row.over,
            row.least,
            row.most,
        );
    }
}
