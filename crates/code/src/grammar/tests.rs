//! Cuts of small texts, language by language, as segments.

use super::*;
use crate::character::Unit;
use crate::pack::{CutRules, Packer};
use crate::view::View;

/// The segments of a text, with the piece that is parsed at once, or all of it.
fn cut(language: Language, text: &str, target: u64, piece: usize) -> Vec<String> {
    let mut packer = Packer::new(CutRules { target, natural: false }, Unit::Byte);
    let view = View { base: 0, bytes: &[] };
    let mut context = ParseContext::default();
    let mut at = 0;
    loop {
        let end = (at + piece).min(text.len());
        let window = boundaries(
            language,
            &text.as_bytes()[at..end],
            target,
            end == text.len(),
            &mut context,
            &mut || false,
        )
        .unwrap();
        for boundary in window.boundaries {
            packer.add_boundary(view, CutBoundary { at: boundary.at + at as u64, ..boundary });
        }
        if end == text.len() {
            break;
        }
        at += window.end;
    }
    packer.finish(view, text.len() as u64);
    let place = |at: &u64| usize::try_from(*at).unwrap();
    let text = |(from, to): &(u64, u64)| text[place(from)..place(to)].to_owned();
    packer.settled.iter().map(text).collect()
}

#[track_caller]
fn check(language: Language, target: u64, expect: &[&str]) {
    assert_eq!(cut(language, &expect.concat(), target, usize::MAX / 2), expect);
}

#[test]
fn definitions_keep_their_comments_attributes_and_decorators() {
    check(
        Language::Rust,
        60,
        &[
            "//! Head.\n\n/// A.\n#[inline]\nfn a() {\n    b();\n}\n\n",
            "/// B, not a { brace.\n\n#[test]\nfn b() { \"}\"; } // after\n",
            "fn c() {\n\n    d();\n\n    e();\n}\n",
        ],
    );
    check(
        Language::Python,
        50,
        &[
            "import a\n\n",
            "# About f.\n@one\n@two(3)\ndef f():\n    pass\n\n\n",
            "def g():\n    \"\"\"\ndef no\n\n    \"\"\"\n    h()\n",
        ],
    );
    check(
        Language::Cpp,
        40,
        &[
            "class A {\n public:\n  // One.\n  int a();\n",
            " private:\n  int b() { return '}'; }\n};\n",
        ],
    );
    check(
        Language::Python,
        40,
        &["if a:\n", "    # About f.\n    def f():\n        b()\n", "    def g():\n        c()\n"],
    );
    check(Language::Tsx, 32, &["class A {\n  @one()\n  b() { }\n\n", "  @two()\n  c() { }\n}\n"]);
}

#[test]
fn what_does_not_fit_is_cut_between_its_members_then_its_statements() {
    check(
        Language::Java,
        64,
        &[
            "package a;\n\n/** A. */\nclass A {\n  int x = 1;\n\n",
            "  /** B: { */\n  @Override\n  void b() { c(); }\n\n",
            "  void d() {\n    String s = \"}\";\n    e(s);\n    f(s);\n",
            "    g(s, s, s, s, s, s);\n  }\n}\n",
        ],
    );
}

#[test]
fn elements_at_the_shallowest_depth_that_fits() {
    check(
        Language::Json,
        24,
        &["[\n  {\"a\": [1, 2]},\n", "  {\"b\": [3, \"],\"]},\n", "  4, 5,\n  6\n]\n"],
    );
    check(Language::Json, 16, &["[[1,2,3],[4,5],", "[6,\"[\"],[7,8,9],", "[0]]"]);
    check(
        Language::Xml,
        40,
        &["<r>\n  <a x=\">\">1</a>\n", "  <b><c/>\n  <!-- </b> --></b>\n</r>\n"],
    );
    check(
        Language::Yaml,
        40,
        &["a:\n  - b: |\n      c:\n\n      d\n", "# Of e.\ne:\n  f: 1\n---\ng: 2\n"],
    );
}

#[test]
fn the_inside_of_what_fits_is_never_cut() {
    // The line feeds lie in definitions that share a line; each fits, the two do not.
    check(
        Language::JavaScript,
        40,
        &["function a() {\n  x();\n  y();\n  z();\n} ", "function b() {\n  x();\n  y();\n}\n"],
    );
    // It fits, but not with the blanks before it.
    let method = "def f(self):\n        return 12345678";
    let text = format!("class A:\n    x = 1\n    {method}\n    y = 2\n");
    let segments = cut(Language::Python, &text, method.len() as u64, usize::MAX / 2);
    assert!(segments.iter().any(|segment| segment.contains(method)), "{segments:?}");
}

#[test]
fn pieces_are_cut_as_the_whole_would_be() {
    let repeat = |first: &str, one: &str, last: &str| format!("{first}{}{last}", one.repeat(400));
    for (language, text) in [
        (Language::Json, repeat("{\"a\": {\"b\": [\n", "  {\"c\": [1, 2]},\n", "  3\n]}}\n")),
        (Language::Xml, repeat("<r>\n<s t=\"1\">\n", "  <a>1</a>\n", "</s>\n</r>\n")),
        (Language::Rust, repeat("", "/// A.\nfn a() {\n    b();\n}\n", "")),
        (Language::Yaml, repeat("", "- a: 1\n  b: 2\n", "")),
    ] {
        let whole = cut(language, &text, 100, usize::MAX / 2);
        let pieces = cut(language, &text, 100, 1_500);
        assert_eq!(pieces.concat(), text);
        for segment in &pieces[..pieces.len() - 1] {
            assert!(whole.contains(segment), "{language:?}: {segment:?}");
        }
    }
}

#[test]
fn what_the_parser_cannot_take_is_left_to_lines() {
    let deep: String = (0..3_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let mut context = ParseContext::default();
    let mut never = || false;
    let yaml = |text: &str, context: &mut ParseContext, stop: &mut dyn FnMut() -> bool| {
        boundaries(Language::Yaml, text.as_bytes(), 100, true, context, stop)
    };
    assert_eq!(yaml(&deep, &mut context, &mut never), None);
    let long = "- a\n".repeat(10_000);
    assert!(yaml(&long, &mut context, &mut never).is_some());
    assert_eq!(yaml(&long, &mut context, &mut || true), None);
}

#[test]
fn a_hundred_thousand_brackets() {
    let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let segments = cut(Language::Json, &text, 32_768, usize::MAX / 2);
    assert_eq!(segments.concat(), text);
    assert!(segments.len() <= 10, "{}", segments.len());
}

#[test]
fn unbalanced_code_is_cut_no_worse_than_lines() {
    for language in [Language::C, Language::Rust, Language::Python, Language::Json, Language::Html]
    {
        let text = "int f( {\n\"open\n}}}\n<a b='\n".repeat(300);
        let segments = cut(language, &text, 500, usize::MAX / 2);
        assert_eq!(segments.concat(), text);
        for segment in &segments {
            assert!(segment.len() <= 500 && segment.ends_with('\n'), "{language:?} {segment:?}");
        }
    }
}

#[test]
fn definitions_in_definitions() {
    let check = |language, text: &str, expect: &[usize]| {
        let found = find_definitions(language, text.as_bytes(), &mut || false).unwrap();
        assert_eq!(found.iter().map(Range::len).collect::<Vec<_>>(), expect);
    };
    check(
        Language::Python,
        "class A:\n  def b(self):\n    def c(): 1\n  def d(): 2\ndef e(): 3\n",
        &[51, 27, 10, 10, 10],
    );
    check(Language::Rust, "impl A { fn b() {} }\nmod c;", &[20, 9, 6]);
    check(Language::Json, "{}", &[]);
    check(Language::Text, "def a(): 1", &[]);
    let text = "fn a() {}\n".repeat(10_000);
    assert_eq!(find_definitions(Language::Rust, text.as_bytes(), &mut || true), None);
}
