//! Properties of splitting over files that people wrote: the sources of the crates that this project is built from. `make
//! quality` goes through all of them, and through more; here it is a sample, in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use code::language::{self, Language};
use code::pack::CutRules;
use code::{cutter, grammar};

/// The target of the segments: small, so that ordinary files have several.
const TARGET: u64 = 3_000;

/// How many bytes of each type are looked at. Debug builds parse a few MB a second.
const SAMPLE: u64 = 150_000;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Where cargo keeps the sources of crates.
fn registry() -> PathBuf {
    let in_home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(in_home, PathBuf::from).join("registry/src")
}

#[test]
fn segments_of_real_files_are_the_file_and_cut_no_definition_that_fits() {
    let mut paths = Vec::new();
    files(&registry(), &mut paths);
    assert!(!paths.is_empty(), "no sources of crates in {}", registry().display());
    // From all over the registry, not from its first crates alone.
    let step = paths.len() / 7 + 1;
    let mut looked: BTreeMap<Language, u64> = BTreeMap::new();
    let mut definitions = 0;
    for path in (0..step).flat_map(|first| paths.iter().skip(first).step_by(step)) {
        let name = path.file_name().unwrap().to_string_lossy();
        let Some(language) = name.rsplit_once('.').and_then(|(_, end)| Language::from_name(end))
        else {
            continue;
        };
        if looked.get(&language).is_some_and(|bytes| *bytes > SAMPLE) {
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        if !(TARGET..300_000).contains(&(bytes.len() as u64)) {
            continue;
        }
        let detected = language::detect(&name, &bytes[..bytes.len().min(64 * 1024)]);
        if !detected.is_text {
            continue;
        }
        *looked.entry(language).or_default() += bytes.len() as u64;
        definitions += check(path, detected.language, &bytes);
    }
    assert!(definitions > 400 && looked.len() > 5, "{definitions} definitions of {looked:?}");
}

/// Checks the segments of one file, and gives the number of its definitions.
fn check(path: &Path, language: Language, bytes: &[u8]) -> usize {
    let segments = cutter::cut_text(language, bytes, CutRules { target: TARGET, natural: false });
    let shown = path.display();
    let mut at = 0;
    for (from, to) in &segments {
        assert!(*from == at && *to > at, "{shown}: {from} to {to} behind {at}");
        assert!(to - from <= TARGET, "{shown}: {from} to {to} is over the target");
        at = *to;
    }
    assert_eq!(at, bytes.len() as u64, "{shown}: to its end");
    for pair in segments.windows(2) {
        let sizes = [pair[0].1 - pair[0].0, pair[1].1 - pair[1].0];
        let small = sizes.iter().any(|size| size * 4 < TARGET);
        assert!(!small || sizes[0] + sizes[1] > TARGET, "{shown}: needlessly small: {pair:?}");
    }
    let definitions = grammar::find_definitions(language, bytes, &mut || false).unwrap_or_default();
    for one in &definitions {
        let (start, end) = (one.start as u64, one.end as u64);
        let whole = segments.iter().any(|(from, to)| *from <= start && end <= *to);
        assert!(
            whole || end - start > TARGET,
            "{shown}: the definition at byte {start} fits and is cut"
        );
    }
    definitions.len()
}
