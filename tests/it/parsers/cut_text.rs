//! Where text, Markdown, tables and lines of JSON are cut: the segments are the file, none is larger than it may be, and
//! they are the same however much of the file is shown at once.

use super::input::Input;
use code::cutter::{Cutter, cut_text};
use code::language::{Language, detect};
use code::pack::CutRules;
use code::view::View;

const LANGUAGES: [Language; 4] =
    [Language::Text, Language::Markdown, Language::Csv, Language::JsonLines];

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let language = input.one_of(&LANGUAGES);
    let size = input.byte();
    let rules = CutRules { target: u64::from(size) + 1, natural: size.is_multiple_of(5) };
    let step = usize::from(input.byte() % 16) + 1;
    let bytes = input.rest;
    let whole = cut_text(language, bytes, rules);
    covers(&whole, bytes.len(), rules.target);
    let found = detect("x", &bytes[..bytes.len().min(1_000)]);
    let bit = streamed(Cutter::new(found.language, found.unit, found.is_text, rules), bytes, step);
    covers(&bit, bytes.len(), rules.target);
    let bit =
        streamed(Cutter::new(language, code::character::Unit::Byte, true, rules), bytes, step);
    assert_eq!(whole, bit);
}

/// Shows a file a few bytes at a time.
fn streamed(mut cutter: Cutter, bytes: &[u8], step: usize) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut shown = 0;
    loop {
        let from = usize::try_from(cutter.keep_from()).expect("a small file");
        let wants = usize::try_from(cutter.wanted_end()).unwrap_or(usize::MAX);
        shown = (shown + step).max(wants.min(bytes.len())).min(bytes.len());
        let last = shown == bytes.len();
        let view = View { base: from as u64, bytes: &bytes[from..shown] };
        if cutter.read_view(view, last, &mut || false, &mut out) {
            break;
        }
    }
    let from = usize::try_from(cutter.keep_from()).expect("a small file");
    cutter.finish(View { base: from as u64, bytes: &bytes[from..] }, &mut out);
    out
}

/// A character of up to four bytes is never cut, so the smallest target is not always kept.
fn covers(segments: &[(u64, u64)], length: usize, target: u64) {
    let mut end = 0;
    for (from, to) in segments {
        assert_eq!(*from, end);
        assert!(to > from || length == 0, "an empty segment");
        assert!(to - from <= target.max(4), "{from} to {to} with a target of {target}");
        end = *to;
    }
    assert_eq!(end, length as u64);
}
