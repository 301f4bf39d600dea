//! What a terminal shows of an answer, as rows; where the window is not filled, in any cut of the stream it is the same.

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar;

use super::*;
use conversation::format::columns::width;

/// A terminal with the few controls that are used here. Panics at a cursor that leaves the window upwards.
#[derive(Default)]
struct Screen {
    columns: usize,
    height: usize,
    rows: Vec<String>,
    row: usize,
    column: usize,
}

impl Screen {
    fn new((columns, height): (usize, usize)) -> Self {
        Self { columns, height, rows: vec![String::new()], ..Self::default() }
    }

    fn print(&mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\x1b' => {
                    let from = rest.strip_prefix('[').expect("a control sequence");
                    let end = from.find(|c: char| c.is_ascii_alphabetic()).expect("its end");
                    self.control(&from[end..=end], from[..end].parse().unwrap_or(1));
                    rest = &from[end + 1..];
                }
                '\r' => self.column = 0,
                '\n' => (self.row, self.column) = (self.row + 1, 0),
                '\t' => self.column = (self.column / 8 + 1) * 8,
                c => self.draw(c),
            }
            self.rows.resize(self.rows.len().max(self.row + 1), String::new());
        }
    }

    fn draw(&mut self, c: char) {
        assert!(!c.is_control(), "{c:?}");
        let wide = c.width().unwrap_or(0);
        if self.column + wide > self.columns {
            (self.row, self.column) = (self.row + 1, 0);
            self.rows.resize(self.rows.len().max(self.row + 1), String::new());
        }
        let row = &mut self.rows[self.row];
        while width(row) < self.column {
            row.push(' ');
        }
        row.push(c);
        self.column += wide;
    }

    fn control(&mut self, name: &str, count: usize) {
        let (row, column) = (self.row, self.column);
        let top = self.rows.len().saturating_sub(self.height);
        match name {
            "A" => {
                assert!(row >= top + count, "up {count} from row {row} of {}", self.rows.len());
                self.row -= count;
            }
            "C" => self.column += count,
            "K" | "J" => {
                while width(&self.rows[row]) > column {
                    self.rows[row].pop();
                }
                if name == "J" {
                    self.rows.truncate(row + 1);
                }
            }
            "m" => {}
            other => panic!("ESC [{other}"),
        }
    }

    fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.trim_end().to_owned()).collect()
    }
}

fn shown_in_parts<'a>(parts: impl Iterator<Item = &'a str>, window: (usize, usize)) -> Vec<String> {
    let (mut screen, mut markdown) = (Screen::new(window), Markdown::default());
    for part in parts {
        screen.print(&markdown.push(part, window));
    }
    screen.print(&markdown.end());
    screen.lines()
}

fn shown(text: &str, window: (usize, usize)) -> Vec<String> {
    shown_in_parts(std::iter::once(text), window)
}

#[track_caller]
fn check(text: &str, columns: usize, expect: &[&str]) {
    let mut lines = shown(text, (columns, 24));
    assert_eq!(lines.pop().as_deref(), Some(""));
    assert_eq!(lines, expect, "{text:?}");
    let chars = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
    let mut lines = shown_in_parts(chars, (columns, 24));
    lines.pop();
    assert_eq!(lines, expect, "by characters: {text:?}");
}

#[test]
fn blocks_are_shown_as_what_they_mean() {
    check("# Title\n\n## Part **two** #x\n", 40, &["Title", "", "Part two #x"]);
    check("#no\n", 40, &["#no"]);
    check(
        "- one two three\n  - four five\n",
        12,
        &["• one two", "  three", "  • four", "    five"],
    );
    // A joiner between two characters stays, wherever a piece ends; a soft hyphen and a mark of direction are none.
    let family = "👨\u{200d}👩 می\u{200c}خواهم";
    let marked = format!("{family} **{family}** x\n");
    let each = marked.char_indices().map(|(at, c)| &marked[at..at + c.len_utf8()]);
    assert_eq!(shown_in_parts(each, (40, 24)), shown(&marked, (40, 24)));
    assert!(!shown(&marked[..marked.len() - 1], (10, 2)).concat().contains("\\u{"));
    let mut pieces = Pieces::default();
    let plain: String = family.chars().map(|c| pieces.escape(c.encode_utf8(&mut [0; 4]))).collect();
    assert_eq!(plain, family);
    assert_eq!(
        pieces.escape("\x1b[2J") + &pieces.escape("\u{200d}") + &pieces.escape("x"),
        "\\u{1b}[2J\\u{200d}x"
    );
    check(&format!("{family} hy\u{ad}phen\u{200f}\n"), 40, &[&format!("{family} hyphen")]);
    check("a\u{200d}b\n", 40, &["a\\u{200d}b"]);
    check("9. one two three\n", 12, &["9. one two", "   three"]);
    check("- [ ] a\n- [x] b\n* c\n+ d\n", 40, &["• [ ] a", "• [x] b", "• c", "• d"]);
    check("> one two three\n> > four\n", 12, &["│ one two", "│ three", "│ │ four"]);
    check("> - one two three\n", 12, &["│ • one two", "│   three"]);
    check("a\n\n---\n* * *\n", 10, &["a", "", "──────────", "──────────"]);
    check("<div>\n*a*\n</div>\n\n*b*\n", 40, &["<div>", "a", "</div>", "", "b"]);
    check("a:\n\n    x *y*\n", 40, &["a:", "", "    x *y*"]);
    check("- a\n\n    b *c*\n", 40, &["• a", "", "    b c"]);
    check("Title\n=====\n", 40, &["Title", "====="]);
}

#[test]
fn inline_marks_are_styles_and_links_have_their_address() {
    check("**a** *b* ~~c~~ `d e` __f__\n", 40, &["a b ~~c~~ d e f"]);
    check("a * b * c, snake_case_name, 2*3\n", 40, &["a * b * c, snake_case_name, 2*3"]);
    check("[t](http://a \"w\") <http://b> ![i](c)\n", 60, &["t (http://a w) http://b i (c)"]);
    check("[a](a) [b] [^1] <b>\n", 40, &["a [b] [^1] <b>"]);
    check("\\*a\\* \\(x\\) C:\\dir &lt;\n", 40, &["*a* \\(x\\) C:\\dir <"]);
    check("**never closed `x\n", 40, &["**never closed `x"]);
}

#[test]
fn words_are_not_broken_unless_they_are_wider_than_the_window() {
    check("one two three", 8, &["one two", "three"]);
    check("a 1234567890 b", 8, &["a", "12345678", "90 b"]);
    // The mark makes it wide.
    check("❤\u{fe0f} ab", 4, &["❤\u{fe0f}", "ab"]);
    check("世界 世界", 6, &["世界", "世界"]);
    check("e\u{301}e\u{301}e\u{301} f", 3, &["e\u{301}e\u{301}e\u{301}", "f"]);
}

#[test]
fn code_is_shown_exactly() {
    check(
        "```rust\nlet a = \"*b*\";\n  x  \n```\n*c*\n",
        20,
        &["```rust", "let a = \"*b*\";", "  x", "```", "c"],
    );
    check(
        "- a\n  ```\n  one two\n    three\n  ```\n",
        9,
        &["• a", "  ```", "  one two", "    three", "  ```"],
    );
    check("> ```\n> *a*\n> ```\n*b*\n", 20, &["> ```", "> *a*", "> ```", "b"]);
    check("```\nnever closed\n# x\n", 20, &["```", "never closed", "# x"]);
    check("~~~\n```\n~~~\n", 20, &["~~~", "```", "~~~"]);
    check("```\n12345678901\n```\n", 8, &["```", "12345678", "901", "```"]);
}

#[test]
fn tables_are_aligned_where_they_fit() {
    let table = "| a | bb |\n|---|--:|\n| one **two** | 3 |\nend\n";
    check(table, 40, &["a        bb", "───────────", "one two   3", "end"]);
    let wide = "| a | n |\n|---|--:|\n| one two three four | 3 |\n| x | 14 |\nend\n";
    let rows = ["a         n", "───────────", "one two   3", "three", "four", "x        14", "end"];
    check(wide, 12, &rows);
    check(table, 10, &["| a | bb |", "|---|--:|", "| one two", "| 3 |", "end"]);
    check("|a|b|\n|:-:|-|\n|x\\|y|z|\n", 40, &["a    b", "──────", "x|y  z"]);
    check("|a|\n|-|\n|b|c|\n", 40, &["|a|", "|-|", "|b|c|"]);
    check("|a\n\n| b\n", 40, &["|a", "", "| b"]);
}

#[test]
fn controls_do_not_reach_the_terminal_by_any_way() {
    check("a\x1b[2Jb &#27;[2J &#x9b; &#10;\r\n", 80, &["a\\u{1b}[2Jb \\u{1b}[2J \\u{9b}"]);
    check("```\na\x00\x1b[\n```\n", 80, &["```", "a\\u{0}\\u{1b}[", "```"]);
    check("a\rb\r", 80, &["ab"]);
}

#[test]
fn after_a_resize_the_rest_is_printed_and_nothing_is_erased() {
    for text in [
        "**bold** and *more* words\nnext\n",
        "|a|b|\n|-|-|\n|c|d|\nend\n",
        "```rust\nlet a;\n```\n",
    ] {
        for at in 1..text.len() {
            let mut markdown = Markdown::default();
            let first = markdown.push(&text[..at], (40, 24));
            let second = markdown.push(&text[at..], (20, 10));
            let mut screen = Screen::new((200, 24));
            screen.print(&first);
            let before = screen.lines().concat();
            screen.print(&second);
            screen.print(&markdown.end());
            let is_kept = screen.lines().concat().starts_with(before.trim_end());
            assert!(is_kept, "{text:?} at {at}: {before:?} {:?}", screen.lines());
            let words =
                |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
            assert_eq!(words(&screen.lines().concat()), words(text), "at {at}");
        }
    }
}

/// The time for a character does not depend on what came before.
#[test]
fn an_answer_of_any_shape_takes_bounded_work_and_memory() {
    let word = "**a ".repeat(10_000);
    let shapes = [
        "x".repeat(40_000),
        word,
        "`[".repeat(20_000),
        "a\n".repeat(20_000),
        format!("```rust\n{}", "fn f() { (\n".repeat(4_000)),
        format!("```yaml\n{}", "- ".repeat(20_000)),
        format!("|a|b|\n|-|-|\n{}", "|c|d|\n".repeat(6_000)),
        "|".repeat(40_000),
        "> ".repeat(20_000),
    ];
    for shape in shapes {
        let (mut markdown, mut most) = (Markdown::default(), 0);
        for chunk in shape.as_bytes().chunks(50) {
            let out = markdown.push(std::str::from_utf8(chunk).unwrap(), (80, 24));
            assert!(out.len() < 50_000, "{} bytes", out.len());
            most = most.max(markdown.line.len() + markdown.table.len() + markdown.drawn.0.len());
        }
        assert!(most < 20_000, "{most} bytes are kept of {:?}", &shape[..20]);
    }
}

fn text_of_marks() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => "[a-z]{1,12}",
        1 => "[a-z]{1,50}",
        2 => "(\\*\\*|\\*|`|_|~~|\\[|\\]\\(u\\)|\\||#|>|-|1\\.|<b>|```|```rust|\\|-\\||&amp;|\\\\)",
        1 => "(世界|e\u{301}|\t|\r|\u{0})",
    ];
    let gap = prop_oneof![6 => Just(" "), 2 => Just("\n"), 1 => Just(""), 1 => Just("\n\n")];
    prop::collection::vec((word, gap), 0..60).prop_map(|parts| {
        parts.into_iter().flat_map(|(word, gap)| [word, gap.to_owned()]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cut_of_the_stream_is_shown_alike_with_every_word(
        text in text_of_marks(),
        window in prop_oneof![Just((80, 100)), Just((40, 100)), Just((7, 1000)), Just((20, 10)), Just((7, 3))],
        cuts in prop::collection::vec(0_usize..400, 0..20),
    ) {
        let whole = shown(&text, window);
        let mut cuts: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(*at)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        let screen = shown_in_parts(parts, window);
        if window.1 > 10 {
            prop_assert_eq!(&screen, &whole);
        }
        let seen: String = screen.concat().chars().filter(char::is_ascii_lowercase).collect();
        let words: String = text.replace("&amp;", "").chars().filter(char::is_ascii_lowercase).collect();
        let mut left = seen.chars();
        if !text.contains('|') && !text.contains(['\r', '\0', '\u{7f}']) {
            prop_assert!(words.chars().all(|c| left.any(|other| other == c)), "{words} in {seen}");
        }
    }
}

#[test]
fn what_was_drawn_before_another_program_wrote_stays() {
    let window = (40, 24);
    let mut markdown = Markdown::default();
    markdown.push("| a | b |\n|---|---|\n| 1", window);
    markdown.keep_drawn();
    let rest = markdown.push(" | 2 |\n**c**\n", window) + &markdown.end();
    assert_eq!(rest, " 1 | 2 |\n\x1b[1mc\x1b[0m\n");
}
