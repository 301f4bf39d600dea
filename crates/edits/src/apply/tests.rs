//! Edits as a table: a file, blocks, and what must come out.

use super::{Applied, Cause, How};
use conversation::format::edit::EditBlock;
use proptest::prelude::*;

fn apply(text: &str, blocks: &[EditBlock]) -> Result<Applied, Vec<super::EditRefusal>> {
    super::apply(text, blocks, false)
}

fn blocks(pairs: &[(&str, &str)]) -> Vec<EditBlock> {
    let block = |(i, (s, r)): (usize, &(&str, &str))| EditBlock {
        search: (*s).into(),
        replace: (*r).into(),
        line: i + 1,
    };
    pairs.iter().enumerate().map(block).collect()
}

/// Applied: the text, and how the first block was found. Refused: the first cause, and a part of what is said.
#[track_caller]
fn check(file: &str, pairs: &[(&str, &str)], expect: Result<(&str, How), (Cause, &str)>) {
    match (apply(file, &blocks(pairs)), expect) {
        (Ok(applied), Ok((text, how))) => {
            assert_eq!(applied.text, text);
            assert_eq!(applied.changes[0].how, how);
        }
        (Err(refusals), Err((cause, part))) => {
            let said = refusals[0].to_string();
            assert_eq!(refusals[0].cause, cause, "{said}");
            assert!(said.contains(part), "{said}");
            assert!(refusals.iter().all(
                |r| r.near.len() <= 12 && r.near.iter().all(|q| q.text.chars().count() <= 201)
            ));
        }
        (got, expect) => panic!("\n  got {got:?}\n  for {expect:?}"),
    }
}

const CODE: &str = "fn one() {\n    let a = 1;\n    let b = 2;\n    a + b\n}\n\nfn two() {\n    let a = 1;\n    a\n}\n";

#[test]
fn exact() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::Exact)));
    ok("a\nb\nc\n", "b\n", "B\n", "a\nB\nc\n");
    ok("a\nb\nc\n", "a\n", "A\n", "A\nb\nc\n");
    ok("a\nb\nc\n", "c\n", "C\n", "a\nb\nC\n");
    ok("a\nb\nc\n", "b\n", "", "a\nc\n");
    ok("a\nb\nc\n", "a\nb\nc\n", "", "");
    ok("a\nb\nc\n", "b\n", "b\nx\n", "a\nb\nx\nc\n");
    ok("a\nb\nc\n", "b\n", "x\nb\n", "a\nx\nb\nc\n");
    ok("a\nb\nc\n", "b\n", "\n", "a\n\nc\n");
    ok("a\n\nb\n", "a\n\nb\n", "a\nb\n", "a\nb\n");
    ok("a\nb  \nc\n", "b  \n", "b\n", "a\nb\nc\n");
    ok("  a\n a\na\n", " a\n", " b\n", "  a\n b\na\n");
    ok("a \na\n", "a\n", "b\n", "a \nb\n");
    ok("\ta\n", "\ta\n", "\tb\n    c\n", "\tb\n    c\n");
    ok("“é”\n", "“é”\n", "\"e\"\n", "\"e\"\n");
    ok("", "", "new\nfile\n", "new\nfile\n");
    ok("", "", "new\r\nfile\r\n", "new\r\nfile\r\n");
    check(
        CODE,
        &[("    a + b\n", "    a * b\n")],
        Ok((&CODE.replace("a + b", "a * b"), How::Exact)),
    );
    ok("x\n}\n}\n", "x\n}\n}\n", "x\n}\n}\n}\n", "x\n}\n}\n}\n");
}

#[test]
fn several_blocks() {
    let ok = |pairs: &[(&str, &str)], text| check("a\nb\nc\nd\n", pairs, Ok((text, How::Exact)));
    ok(&[("a\n", "A\n"), ("c\n", "C\n")], "A\nb\nC\nd\n");
    ok(&[("c\n", "C\n"), ("a\n", "A\n")], "A\nb\nC\nd\n");
    ok(&[("a\nb\n", ""), ("c\nd\n", "e\n")], "e\n");
    ok(&[("a\n", "b\n"), ("b\n", "a\n")], "b\na\nc\nd\n");
    let no = |pairs: &[(&str, &str)], cause, part| check("a\nb\nc\nd\n", pairs, Err((cause, part)));
    no(
        &[("a\nb\n", "x\n"), ("b\nc\n", "y\n")],
        Cause::Overlap,
        "block 2: it changes lines 2 to 3, but block 1 changes",
    );
    no(&[("a\n", "x\n"), ("a\n", "x\n")], Cause::Overlap, "merge the two blocks");
    no(&[("a\n", "x\n"), ("x\n", "y\n")], Cause::Missing, "(block 1 writes such lines");
    no(&[("a\n", "x\n"), ("q\n", "y\n")], Cause::Missing, "block 2: ");
    check("", &[("", "x\n"), ("", "y\n")], Err((Cause::Overlap, "merge the two blocks")));
    assert_eq!(apply("a\n", &blocks(&[("q\n", "x\n"), ("z\n", "x\n")])).unwrap_err().len(), 2);
}

#[test]
fn changes_are_counted_in_the_new_text() {
    let applied =
        apply("a\nb\nc\nd\n", &blocks(&[("c\n", "C\nC2\n"), ("a\n", "a\nx\ny\n")])).unwrap();
    let counts: Vec<_> =
        applied.changes.iter().map(|c| (c.first_line, c.removed, c.added)).collect();
    assert_eq!(
        (applied.text.as_str(), counts),
        ("a\nx\ny\nb\nC\nC2\nd\n", vec![(5, 1, 2), (1, 0, 2)])
    );
}

#[test]
fn line_ends() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::LineEnds)));
    ok("a\r\nb\r\nc\r\n", "b\n", "B\nx\n", "a\r\nB\r\nx\r\nc\r\n");
    ok("a\nb\nc\n", "b\r\n", "B\r\nx\r\n", "a\nB\nx\nc\n");
    ok("a\nb", "b\n", "B\n", "a\nB");
    ok("a\nb", "b\n", "b\nc\n", "a\nb\nc");
    ok("a\nb", "b\n", "x\nb\n", "a\nx\nb");
    ok("a\nb", "b\n", "", "a\n");
    ok("a\r\nb", "b\n", "b\nc\n", "a\r\nb\r\nc");
    ok("a", "a\n", "a\r\nb\r\n", "a\r\nb");
    ok("a\r\nb\nc\r\nd\n", "b\nc\n", "b\nx\nc\n", "a\r\nb\nx\nc\r\nd\n");
    ok("a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nc\n", "a\r\nc\r\nd\n");
    ok("a\r\nb\nc\r\nd\n", "b\nc\n", "B\nC\n", "a\r\nB\nC\r\nd\n");
    ok("\u{feff}a\nb\n", "a\n", "x\n", "\u{feff}x\nb\n");
    ok("a\nb\n", "\u{feff}a\n", "\u{feff}x\n", "x\nb\n");
    ok("\u{feff}a\r\nb", "a\nb\n", "a\nx\nb\n", "\u{feff}a\r\nx\r\nb");
    check("\u{feff}a\nb\n", &[("\u{feff}a\n", "\u{feff}x\n")], Ok(("\u{feff}x\nb\n", How::Exact)));
    check("\u{feff}a\nb\n", &[("b\n", "x\n")], Ok(("\u{feff}a\nx\n", How::Exact)));
    check("\u{feff}", &[("", "x\n")], Ok(("\u{feff}x\n", How::Exact)));
    check("a\r\nx\na\n", &[("a\n", "b\n")], Err((Cause::Twice, "at lines 1, 3")));
}

#[test]
fn trailing_blanks() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::Trailing)));
    ok("a  \nb\n", "a\nb\n", "a\nB\n", "a  \nB\n");
    ok("a\nb\n", "a  \nb\n", "a  \nB\n", "a\nB\n");
    ok("a\nb\n", "a\t\nb \n", "A\t\nb \n", "A\nb\n");
    ok("a\n   \nb\n", "a\n\nb\n", "a\n\nB\n", "a\n   \nB\n");
    ok("a\n\nb\n", "a\n  \nb\n", "a\n  \nB\n", "a\n\nB\n");
    ok("a \r\nb\r\n", "a\nb\n", "a\nx\n", "a \r\nx\r\n");
    ok("a \nb", "a\nb\n", "a\nb\nc\n", "a \nb\nc");
    check(
        "a \nx\na\t\n",
        &[("a\n", "b\n")],
        Err((Cause::Twice, "(ignoring trailing blanks), at lines 1, 3")),
    );
}

#[test]
fn indentation() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::Indent)));
    ok("if x:\n    a\n    b\n", "a\nb\n", "a\nc\n", "if x:\n    a\n    c\n");
    ok("if x:\n    a\n", "a\n", "if y:\n    a\n", "if x:\n    if y:\n        a\n");
    ok("if x:\n    a\n\n    b\n", "a\n\nb\n", "a\n\n\nb\n", "if x:\n    a\n\n\n    b\n");
    ok("a\nb\n", "    a\n    b\n", "    a\n    c\n", "a\nc\n");
    ok("  a\n    b\n", "    a\n      b\n", "    a\n      c\n        d\n", "  a\n    c\n      d\n");
    ok(
        "{\n\ta\n\t\tb\n}\n",
        "    a\n        b\n",
        "    a\n        c\n            d\n",
        "{\n\ta\n\t\tc\n\t\t\td\n}\n",
    );
    ok(
        "{\n\ta\n}\n",
        "    a\n",
        "    if (b) {\n        a\n    }\n",
        "{\n\tif (b) {\n\t\ta\n\t}\n}\n",
    );
    ok("{\n\ta\n}\n", "  a\n", "  if (b) {\n    a\n  }\n", "{\n\tif (b) {\n\t\ta\n\t}\n}\n");
    ok(
        "{\n    a\n}\n",
        "\ta\n",
        "\tif (b) {\n\t\ta\n\t}\n",
        "{\n    if (b) {\n        a\n    }\n}\n",
    );
    ok("{\n  a\n    b\n}\n", "\ta\n\t\tb\n", "\ta\n\t\tc\n", "{\n  a\n    c\n}\n");
    ok("{\n\ta\n}\n", "a\n", "if (b) {\n    a\n}\n", "{\n\tif (b) {\n\t\ta\n\t}\n}\n");
    ok("{\n\t\ta\n\t\t\tb\n}\n", "    a\n        b\n", "    a\n    c\n", "{\n\t\ta\n\t\tc\n}\n");
    ok("    a\r\n", "a\n", "b\nc\n", "    b\r\n    c\r\n");
    ok("    a\n    b", "a\nb\n", "a\nc\n", "    a\n    c");
    let no = |file, s, r, cause, part| check(file, &[(s, r)], Err((cause, part)));
    no("    a\n  a\n", "a\n", "b\n", Cause::Twice, "(ignoring indentation), at lines 1, 2");
    no("\ta\n  a\n", "a\n", "b\n", Cause::Twice, "at lines 1, 2");
    no(
        "    a\n      b\n",
        "a\nb\n",
        "a\nc\n",
        Cause::Indentation,
        "line 1, but with different indentation",
    );
    no(
        "\ta\n\t\tb\n\t\t\t\tc\n",
        "    a\n        b\n            c\n",
        "    c\n",
        Cause::Indentation,
        "different indentation",
    );
    no("    a\n", "a\n", "    b\n", Cause::Unclear, "a different indentation");
    no("a\n", "    a\n", "b\n", Cause::Unclear, "a different indentation");
    no("  a\n", "      a\n", "      x\ny\n", Cause::Unclear, "indentation");
    no("  a\n", "      a\n", "      x\n   y\n", Cause::Unclear, "is indented too little");
}

#[test]
fn quotes() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::Quotes)));
    ok(
        "It’s a “good” day\n",
        "It's a \"good\" day\n",
        "It's a \"bad\" day\n",
        "It’s a “bad” day\n",
    );
    ok("say(\"hi\")\nx\n", "say(“hi”)\nx\n", "say(“ho”)\nx\n", "say(\"ho\")\nx\n");
    ok("say('hi')\n", "say(‘hi’)\n", "say(‘hi’)\nsay(‘ho’)\n", "say('hi')\nsay('ho')\n");
    ok("a — b\n", "a - b\n", "a - c\n", "a — c\n");
    ok("    It’s\n", "It's\n", "It's so\n", "    It’s so\n");
    ok("“a”\nx\n", "\"a\"\nx\n", "\"a\"\ny\n", "“a”\ny\n");
    check(
        "“a”\nx\n\"a\u{201d}\n",
        &[("\"a\"\n", "b\n")],
        Err((Cause::Twice, "(ignoring the shape of quotes)")),
    );
}

#[test]
fn blank_lines() {
    let ok = |file, s, r, text| check(file, &[(s, r)], Ok((text, How::BlankLines)));
    ok("a\n\nb\nc\n", "a\nb\n", "a\nB\n", "a\n\nB\nc\n");
    ok("a\n\nb\nc\n", "a\nb\n", "A\nb\n", "A\n\nb\nc\n");
    ok("a\n\nb\nc\n", "a\nb\n", "A\nB\n", "A\n\nB\nc\n");
    ok("a\n\nb\nc\n", "a\nb\n", "A\n\nB\n", "A\n\nB\nc\n");
    ok("a\n\nb\nc\n", "a\nb\nc\n", "a\nb\nC\n", "a\n\nb\nC\n");
    ok("a\n\nb\nc\n", "a\nb\n", "a\n\nx\nb\n", "a\n\nx\nb\nc\n");
    ok("a\n\nb\nc\n", "a\nb\n", "", "c\n");
    ok("a\nb\nc\n", "a\n\nb\n", "a\n\nB\n", "a\nB\nc\n");
    ok("a\nb\nc\n", "a\n\nb\n", "a\n\nx\n\nb\n", "a\n\nx\n\nb\nc\n");
    ok("a\nb\nc\n", "a\n\nb\n", "a\nB\n", "a\nB\nc\n");
    ok("a\nb\nc\n", "\nb\n", "\nB\n", "a\nB\nc\n");
    ok("a\nb\nc\n", "\nb\n\n", "\nB\n\n", "a\nB\nc\n");
    ok("a\n\n\nb\n", "a\n\nb\n", "a\n\nB\n", "a\n\n\nB\n");
    ok("  a\n\n  b\n", "a\nb\n", "a\nB\n", "  a\n\n  B\n");
    let no = |file, s, r, cause, part| check(file, &[(s, r)], Err((cause, part)));
    no("a\n\nb\nc\n", "a\nb\n", "a\nx\nb\n", Cause::Unclear, "leaves out line 2, a blank line");
    no("a\n\nb\nc\n", "a\nb\n", "X\nY\nZ\n", Cause::Unclear, "leaves out line 2, a blank line");
    no(
        "a\n\n\nb\n",
        "a\nb\n",
        "a\nB\n",
        Cause::Indentation,
        "different indentation or blank lines",
    );
    no("a\n\nb\na\n\nb\n", "a\nb\n", "B\n", Cause::Twice, "(ignoring blank lines), at lines 1, 4");
}

#[test]
fn no_search_takes_long() {
    let same = "a\n".repeat(6_000);
    let search = "a\n".repeat(3_000);
    let no = |s: &str, cause, part| check(&same, &[(s, "x\n")], Err((cause, part)));
    no(&search, Cause::Twice, "100 places or more");
    no(&(search.clone() + "b\n"), Cause::Missing, "line 3001 of the search, `b`, is `a`");
    no(&(search.replace('a', "  a") + "    a\n"), Cause::Indentation, "differ");
}

#[test]
fn not_certain() {
    let no = |file, s, r, cause, part| check(file, &[(s, r)], Err((cause, part)));
    no(
        CODE,
        "    let a = 1;\n",
        "    let a = 3;\n",
        Cause::Twice,
        "2 places in the file, at lines 2, 8",
    );
    no("a\na\na\n", "a\na\n", "b\n", Cause::Twice, "at lines 1, 2");
    no(CODE, "", "x\n", Cause::Empty, "the search is empty");
    no(CODE, "\n", "x\n", Cause::Empty, "the search is empty");
    no("\n", "", "x\n", Cause::Empty, "the search is empty");
    no("", "", "", Cause::NoChange, "the same");
    no("", "a\n", "b\n", Cause::Missing, "the file is empty");
    no(CODE, "    a + b\n", "    a + b\n", Cause::NoChange, "the same");
    no(CODE, "    a + b\n", "    a + b\r\n", Cause::NoChange, "the same");
    no("a\n", "a  \n", "a\n", Cause::AlreadyApplied, "replacement is at line 1");
}

#[test]
fn already_applied() {
    let no = |file, s, r| {
        check(
            file,
            &[(s, r)],
            Err((Cause::AlreadyApplied, "already applied: the replacement is at")),
        );
    };
    no("a\nB\nc\n", "b\n", "B\n");
    no("a\nB\nc\n", "a\nb\n", "a\nB\n");
    no("a\nx\nb\n", "a\n", "a\nx\n");
    no("a\nx\nb\n", "b\n", "x\nb\n");
    no("a\nx\nb\n", "a\nb\n", "a\nx\nb\n");
    no("a\nc\n", "a\nb\nc\n", "a\nc\n");
    no("  a\n  x\n", "a\n", "a\nx\n");
    no("a\r\nB\r\n", "b\n", "B\n");
    check("a\nb\n", &[("b\n", "b\n\n")], Ok(("a\nb\n\n", How::Exact)));
    check("a\na\nb\n", &[("a\nb\n", "a\na\nb\n")], Ok(("a\na\na\nb\n", How::Exact)));
}

#[test]
fn nearest_lines() {
    let no = |s, part| check(CODE, &[(s, "x\n")], Err((Cause::Missing, part)));
    // One word differs.
    no(
        "    let a = 1;\n    let b = 3;\n    a + b\n",
        "line 2 of the search, `let b = 3;`, is `let b = 2;` at line 3",
    );
    no(
        "    let a = 1;\n    let b = 3;\n    a + b\n",
        "\n  2 |     let a = 1;\n  3 |     let b = 2;\n  4 |     a + b",
    );
    // A line is left out.
    no(
        "    let a = 1;\n    a + b\n",
        "match lines 2 to 4, but the search leaves out line 3 of the file, `let b = 2;`",
    );
    // A line is invented.
    no(
        "    let b = 2;\n    print(b);\n    a + b\n",
        "line 2 of the search, `print(b);`, is not in the file after line 3",
    );
    // First and last line alike.
    no("fn one() {\n    nothing();\n    else_();\n    here();\n}\n", "of 5 lines match");
    no("    a - b\n", "closest match is");
    no("completely unrelated words\n", "no line is similar to the search");
    let readme = "# Similar: A Library\n\n[![similar](similar.svg)](similar)\n";
    check(readme, &[("# similar: a libary\n", "x\n")], Err((Cause::Missing, "1 | # Similar")));
    check("alpha\nbeta\ngamma\n", &[("betta\n", "x\n")], Err((Cause::Missing, "2 | beta")));
    check(CODE, &[("a + b\n", "a\n")], Ok((&CODE.replace("a + b", "a"), How::Indent)));
    check(CODE, &[("+ b\n", "a\n")], Err((Cause::PartOfLine, "(in line 4)")));
    check(&"ab ".repeat(500), &[("ab cd\n", "x\n")], Err((Cause::Missing, "ab ab")));
}

#[test]
fn a_first_or_last_line_that_is_cut_and_stays() {
    let ok = |search, replace, text: &str| {
        check(CODE, &[(search, replace)], Ok((text, How::PartOfLine)));
    };
    let text = CODE.replacen("let a = 1;\n    let b", "let a = 3;\n    let b", 1);
    ok("    let a = 1;\n    let b\n", "    let a = 3;\n    let b\n", &text);
    let text = CODE.replace("let b = 2;", "let b = 4;");
    ok("t a = 1;\n    let b = 2;\n", "t a = 1;\n    let b = 4;\n", &text);
    // The cut line changes, or there are two such places.
    let no = |search, replace| match apply(CODE, &blocks(&[(search, replace)])) {
        Err(_) => {}
        Ok(applied) => panic!("{search:?} made\n{}", applied.text),
    };
    no("    let a = 1;\n    let b\n", "    let a = 3;\n    let c\n");
    no("    let a\n", "    let a\n    more\n");
    no("}\n\nfn\n", "}\n\n\nfn\n");
}

#[test]
fn a_part_of_a_very_long_line_that_is_there_once() {
    let pad = "word, ".repeat(200);
    let line = |value: &str| format!("first\n{pad}\"id\": {value}, {pad}\nlast\n");
    let text = line("12");
    let block = [("\"id\": 12\n", "\"id\": 15\n")];
    check(&text, &block, Ok((&line("15"), How::PartOfLine)));
    // It is a part of a word there, or there twice, or too short, or the line is short.
    let no = |text: &str, block: &[_], words| check(text, block, Err((Cause::PartOfLine, words)));
    no(&line("123"), &block, "occurs once in line 2, within long lines, and is cut in the middle");
    let twice = line("12, \"id\": 12");
    no(&twice, &block, "occurs 2 times in line 2, within long lines, and is ambiguous");
    no(&twice, &block, "word, \"id\": 12, \"id\": 12, word");
    no(&line("12"), &[("12\n", "x\n")], "has too few letters and digits");
    no("x \"id\": 12, y\n", &block, "(in line 1); blocks need whole lines");
    // Everywhere, if that is asked for.
    let all = |text: &str| super::apply(text, &blocks(&block), true).map(|applied| applied.text);
    assert_eq!(all(&twice), Ok(line("15, \"id\": 15")));
    assert_eq!(all(&format!("{twice}{twice}")), Ok(line("15, \"id\": 15").repeat(2)));
    assert!(all(&line("12, \"id\": 123")).is_err(), "one of them is cut");
    assert!(all(&format!("{twice}x \"id\": 12, y\n")).is_err(), "one is in a short line");
    let broken = super::apply(&twice, &blocks(&[("\"id\": 12\n", "a\nb\n")]), true).unwrap();
    assert_eq!(broken.text, format!("first\n{pad}a\nb, a\nb, {pad}\nlast\n"));
    assert_eq!((broken.changes[0].removed, broken.changes[0].added), (1, 3));
}

#[test]
fn every_place_is_changed_where_that_is_asked_for() {
    let everywhere = |pairs| super::apply(CODE, &blocks(pairs), true).map(|applied| applied.text);
    let text = CODE.replace("let a = 1;", "let a = 7;");
    assert_eq!(everywhere(&[("    let a = 1;\n", "    let a = 7;\n")]), Ok(text));
    assert_eq!(everywhere(&[("    a + b\n", "    b\n")]), Ok(CODE.replace("a + b", "b")));
    assert!(everywhere(&[("    let a = 2;\n", "x\n")]).is_err());
    // However many there are; those that overlap are not certain.
    let many = "same\n".repeat(5_000);
    let applied = super::apply(&many, &blocks(&[("same\n", "x\n")]), true).unwrap();
    assert_eq!((applied.text, applied.places), ("x\n".repeat(5_000), 5_000));
    let half = "same\n".repeat(2_500);
    assert!(super::apply(&many, &blocks(&[(&half, "x\n")]), true).is_err());
}

/// Lines of few kinds, so that they repeat, with all line ends.
fn text() -> impl Strategy<Value = String> {
    let line =
        prop_oneof![Just(String::new()), "[ab]{1,2}", "[ \t]{0,3}[ab(){}'’“é]{0,3}[ \t]{0,2}"];
    let ends = prop_oneof![6 => Just("\n"), 1 => Just("\r\n")];
    (proptest::collection::vec((line, ends), 0..20), "[ab]{0,2}").prop_map(|(lines, last)| {
        lines.into_iter().map(|(line, end)| line + end).collect::<String>() + &last
    })
}

fn body() -> impl Strategy<Value = String> {
    text().prop_map(|text| if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_slice_that_stands_once_is_replaced(file in text(), crlf in any::<bool>(), from in 0..20usize, many in 1..6usize, new in "[xyz]{1,3}(\n[xyz]{0,3}){0,4}\n") {
        let file = if crlf { file.replace("\r\n", "\n").replace('\n', "\r\n") } else { file.replace("\r\n", "\n") };
        let end = if file.contains('\r') { "\r\n" } else { "\n" };
        let lines: Vec<&str> = file.split_inclusive('\n').collect();
        prop_assume!(from + many <= lines.len());
        let slice: Vec<&str> = lines[from..from + many].iter().map(|line| line.trim_end_matches(['\r', '\n'])).collect();
        prop_assume!(slice.iter().any(|line| !line.trim().is_empty()));
        let count = lines.windows(many).filter(|w| w.iter().map(|line| line.trim_end_matches(['\r', '\n'])).eq(slice.iter().copied())).count();
        let search: String = slice.iter().flat_map(|line| [*line, "\n"]).collect();
        let got = apply(&file, &blocks(&[(&search, &new)]));
        if count == 1 {
            let mut expect = lines[..from].concat() + &new.replace('\n', end);
            if from + many == lines.len() && !file.ends_with('\n') {
                expect.truncate(expect.len() - end.len());
            }
            expect += &lines[from + many..].concat();
            prop_assert_eq!(got.unwrap().text, expect);
        } else {
            prop_assert_eq!(got.unwrap_err()[0].cause, Cause::Twice);
        }
    }

    #[test]
    fn bytes_outside_stay(file in text(), s in body(), r in body()) {
        if let Ok(Applied { text, changes, .. }) = apply(&file, &blocks(&[(&s, &r)])) {
            let (old, new): (Vec<&str>, Vec<&str>) = (file.split_inclusive('\n').collect(), text.split_inclusive('\n').collect());
            let before = changes[0].first_line - 1;
            let searched = s.lines().filter(|line| !line.trim().is_empty()).count();
            prop_assert_eq!(&old[..before], &new[..before]);
            // What was looked for ends within its own length and a blank line or two.
            let most = before + s.lines().count() + 1;
            let least = before + searched;
            let tail = (least..=most.min(old.len())).any(|end| text.ends_with(&old[end..].concat()));
            prop_assert!(old.is_empty() || tail);
        }
    }

    #[test]
    fn nothing_panics(file in "(?s).{0,60}", s in "(?s).{0,30}", r in "(?s).{0,30}", other in text(), t in body(), u in body()) {
        let _ = apply(&file, &blocks(&[(&s, &r), (&t, &u)]));
        for refusal in apply(&other, &blocks(&[(&t, &u), (&s, &r)])).err().into_iter().flatten() {
            prop_assert!(refusal.near.len() <= 12 && !refusal.to_string().is_empty());
        }
        let cut: String = file.chars().skip(5).take(20).collect();
        let _ = apply(&file, &blocks(&[(&cut, &r)]));
    }
}
