//! The files that edits are tried on: those of `tests/edits/`, written for it, and one of 3,000 lines made here.

use super::trial::Dice;

/// A file, as lines and what is said of the rest.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<String>,
    pub(crate) end: &'static str,
    pub(crate) mark: bool,
    pub(crate) last_end: bool,
    /// One step of its indentation.
    pub(crate) step: &'static str,
    /// Fewer cases are made of a large one.
    pub(crate) large: bool,
}

macro_rules! fixtures {
    ($($name:literal $step:literal),*) => {
        [$(($name, include_str!(concat!("../../edits/", $name, ".txt")), $step)),*]
    };
}

/// All of them, in one order.
pub(crate) fn all() -> Vec<Fixture> {
    let files = fixtures![
        "search.rs" "    ", "types.rs" "    ", "store.py" "    ", "client.ts" "  ", "walk.js" "    ", "server.go" "\t",
        "ring.c" "        ", "build.mk" "\t", "check.sh" "\t", "deploy.yaml" "  ", "settings.json" "  ", "page.html" "  ",
        "garden.md" "  ", "words.txt" "  ", "Wizard.java" "    ", "Counter.cs" "    ", "dos.ini" "  ", "library.sql" "    "
    ];
    let mut all: Vec<Fixture> =
        files.into_iter().map(|(name, text, step)| of(name, text, step)).collect();
    all.push(generated());
    all
}

fn of(name: &'static str, text: &str, step: &'static str) -> Fixture {
    let (mark, text) = text.strip_prefix('\u{feff}').map_or((false, text), |text| (true, text));
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let last_end = text.ends_with('\n');
    let body = if last_end { &text[..text.len() - end.len()] } else { text };
    let lines = body.split(end).map(str::to_owned).collect();
    Fixture { name, lines, end, mark, last_end, step, large: false }
}

/// 3,000 lines of functions that are much like each other.
pub(crate) fn generated() -> Fixture {
    let mut dice = Dice::for_part("generated");
    let words = ["alpha", "beta", "gamma", "delta", "omega", "kappa", "sigma"];
    let mut text = String::from("// Made by a machine.\n\n");
    let mut lines = 2;
    let mut number = 0;
    while lines < 2_990 {
        number += 1;
        let (a, b) = (dice.pick(&words), dice.pick(&words));
        let body = [
            format!("fn {a}_{number}({b}: u32) -> u32 {{"),
            format!("    let {a} = {b} + {};", dice.below(9)),
            "    let mut sum = 0;".to_owned(),
            format!("    for i in 0..{a} {{"),
            format!("        if i % {} == 0 {{", 2 + dice.below(3)),
            "            sum += i;".to_owned(),
            "        } else {".to_owned(),
            format!("            sum += {};", dice.below(5)),
            "        }".to_owned(),
            "    }".to_owned(),
            "    sum".to_owned(),
            "}".to_owned(),
            String::new(),
        ];
        lines += body.len();
        text.extend(body.iter().flat_map(|line| [line.as_str(), "\n"]));
    }
    while lines < 3_000 {
        lines += 1;
        text.push_str(&format!("// end {lines}\n"));
    }
    Fixture { large: true, ..of("3,000 lines", &text, "    ") }
}
