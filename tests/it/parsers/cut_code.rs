//! Where sources are cut, by each grammar: the segments are the file, none is larger than it may be; and what the file
//! defines lies within it.

use super::input::Input;
use code::cutter::cut_text;
use code::grammar::find_definitions;
use code::language::{Language, NAMES};
use code::pack::CutRules;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let languages = NAMES.map(|(language, ..)| language);
    let language = input.one_of(&languages);
    let size = input.byte();
    let rules = CutRules { target: u64::from(size) * 4 + 4, natural: size.is_multiple_of(5) };
    let bytes = input.rest;
    let mut end = 0;
    for (from, to) in cut_text(language, bytes, rules) {
        assert_eq!(from, end);
        assert!(to > from || bytes.is_empty(), "an empty segment");
        assert!(to - from <= rules.target, "{from} to {to} with a target of {}", rules.target);
        end = to;
    }
    assert_eq!(end, bytes.len() as u64);
    if language == Language::Yaml {
        return;
    }
    for one in find_definitions(language, bytes, &mut || false).expect("nobody stops it") {
        assert!(one.start <= one.end && one.end <= bytes.len());
    }
}
