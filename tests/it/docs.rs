//! What is written about the executables is what they do.
//!
//! Some documents come from the code: they are compared here, and written anew under `UPDATE_DOCS=1`. Of the others,
//! what can be checked is: flags, links, make targets, tables. What runs leave behind is compared in `runs`, what they
//! print as JSON in `keys`; the README's sessions are run in `readme`.

mod keys;
mod runs;

use std::collections::BTreeSet;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use nagent::apply::{Cause, How};
use nagent::code::language::NAMES;
use nagent::exit::Exit;
use nagent::history::co_change::{self, CoChangeCounts};
use nagent::llm::price;
use nagent::ops::file_memory;
use nagent::sys::tools::TOOLS;
use nagent::{cmd, protocol};
use regex::Regex;

use crate::sandbox::Sandbox;

/// The documents that people write.
const WRITTEN: [&str; 14] = [
    "SECURITY.md",
    "CHANGELOG.md",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/config.md",
    "docs/sandbox.md",
    "docs/editors.md",
    "docs/edits.md",
    "docs/file-memory.md",
    "docs/json.md",
    "docs/large-files.md",
    "docs/protocol.md",
    "docs/recipes.md",
];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The cells of the table whose first column has this head.
fn table(name: &str, head: &str) -> Vec<Vec<String>> {
    let text = text(name);
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    assert!(lines.next().is_some(), "{name} has no table {head}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// What stands in backquotes, fenced blocks left out.
fn quoted(text: &str) -> Vec<String> {
    let prose = Regex::new(r"(?ms)^```.*?^```$").unwrap().replace_all(text, "");
    let quotes = Regex::new("`([^`\n]+)`").unwrap();
    quotes.captures_iter(&prose).map(|found| found[1].to_owned()).collect()
}

/// The first column, without backquotes.
fn names(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| quoted(&row[0]).into_iter().next().unwrap_or(row[0].clone())).collect()
}

// Documents that come from the code.

fn cli_page() -> String {
    let mut page = String::from(
        "# The command lines\n\nWhat `--help` prints. Generated: see CONTRIBUTING.md.\n",
    );
    for command in cmd::all() {
        page.push_str(&format!(
            "\n## {}\n\n```text\n{}```\n",
            command.get_name(),
            help_of(command.clone())
        ));
        for (name, help) in verbs_of(command) {
            page.push_str(&format!("\n### {name}\n\n```text\n{help}```\n"));
        }
    }
    page
}

/// What `--help` prints, 80 columns wide.
fn help_of(command: clap::Command) -> String {
    let help = command.term_width(80).render_long_help().to_string();
    help.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The verbs of a tool that has some, with their help.
fn verbs_of(mut command: clap::Command) -> Vec<(String, String)> {
    command.build();
    let verbs = command.get_subcommands().cloned();
    verbs.map(|verb| (verb.get_bin_name().unwrap().to_owned(), help_of(verb))).collect()
}

/// The flags of a tool, those of its verbs too.
fn arguments(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().chain(command.get_subcommands().flat_map(clap::Command::get_arguments))
}

fn man_page(mut command: clap::Command) -> String {
    let plain = |cell: &str| cell.replace('`', "");
    let name = command.get_name().to_owned();
    let usage = command.render_usage().to_string();
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut below = below.split("\n\n");
    let (examples, more) = (below.next().unwrap_or_default(), below.next().unwrap_or_default());
    let verbs = verbs_of(command.clone());
    let command = command.after_help(None::<&str>).override_usage(usage.replace("Usage: ", ""));
    let man = Man::new(command).manual("nagent");
    let mut out = Vec::new();
    man.render_title(&mut out).unwrap();
    man.render_name_section(&mut out).unwrap();
    man.render_synopsis_section(&mut out).unwrap();
    man.render_description_section(&mut out).unwrap();
    let mut roff = Roff::new();
    if !more.is_empty() {
        roff.control("PP", []).text([roman(more.replace('\n', " "))]);
    }
    roff.to_writer(&mut out).unwrap();
    man.render_options_section(&mut out).unwrap();
    let mut roff = Roff::new();
    for (name, help) in verbs {
        roff.control("SS", [name.as_str()]).control("nf", []);
        for line in help.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    for (title, name, head, before) in [
        ("EXIT STATUS", "README.md", "exit", ""),
        ("ENVIRONMENT", "docs/config.md", "variable", ""),
        ("FILES", "ARCHITECTURE.md", "file", "~/.nagent/"),
    ] {
        roff.control("SH", [title]);
        for row in table(name, head) {
            roff.control("TP", []);
            roff.text([bold(format!("{before}{}", plain(&row[0])))]);
            roff.text([roman(plain(&row[1]))]);
        }
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines().skip(1) {
            roff.text([roman(line.trim())]);
        }
        roff.control("fi", []);
    }
    let others: Vec<String> =
        TOOLS.iter().filter(|other| **other != name).map(|other| format!("{other}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    roff.to_writer(&mut out).unwrap();
    // Each section brings the same two lines about quotes; once is enough.
    let page = String::from_utf8(out).unwrap();
    let quotes = |line: &str| line.starts_with(".ie ") || line.starts_with(".el ");
    let lines = page.lines().enumerate().filter(|(at, line)| *at < 2 || !quotes(line));
    lines.map(|(_, line)| format!("{}\n", line.trim_end())).collect()
}

fn protocol_page() -> String {
    let old = text("docs/protocol.md");
    let (head, rest) = old.split_once("<!-- generated: protocol -->").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let protocol = protocol::protocol_text();
    format!("{head}<!-- generated: protocol -->\n\n```text\n{protocol}```\n\n<!-- end -->{tail}")
}

fn limits_page() -> String {
    let mut page = "# Limits\n\n<!-- Generated from the module `limits`: UPDATE_DOCS=1 writes it again. -->\n\n\
        Every input has a maximum. Anything larger is refused with an error, or truncated with a note; files stay as they are.\n\
        The defaults of flags and settings are in [config](config.md).\n"
        .to_owned();
    for (section, limits) in nagent::limits::table() {
        page += &format!("\n## {section}\n\n| what | maximum | beyond it |\n|---|---|---|\n");
        for limit in limits {
            page += &format!("| {} | {} | {} |\n", limit.bounds, limit.maximum, limit.beyond);
        }
    }
    page
}

#[test]
fn generated_documents_are_what_the_code_says() {
    let mut pages = vec![
        ("docs/cli.md".to_owned(), cli_page()),
        ("docs/protocol.md".to_owned(), protocol_page()),
        ("docs/limits.md".to_owned(), limits_page()),
    ];
    for command in cmd::all() {
        pages.push((format!("man/{}.1", command.get_name()), man_page(command)));
    }
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for (name, page) in pages {
        if std::fs::read_to_string(top().join(&name)).is_ok_and(|old| old == page) {
            continue;
        }
        if update { std::fs::write(top().join(&name), page).unwrap() } else { stale.push(name) }
    }
    assert!(stale.is_empty(), "not what the code says: {stale:?}; UPDATE_DOCS=1 writes them anew");
}

#[test]
fn help_is_worded_as_contributing_says() {
    let mut wrong = Vec::new();
    for command in cmd::all() {
        for argument in arguments(&command) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let first = help.chars().next().is_some_and(char::is_uppercase);
            if !first || help.ends_with('.') {
                wrong.push(format!("{} {}: {help}", command.get_name(), argument.get_id()));
            }
        }
        let mut narrow = command.clone().term_width(80);
        let pages = [narrow.render_help().to_string(), narrow.render_long_help().to_string()];
        let lines = pages.iter().flat_map(|page| page.lines());
        wrong.extend(lines.filter(|line| line.chars().count() > 80).map(str::to_owned));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// What the written documents name.

#[test]
fn flags_that_are_named_exist() {
    // Of other programs.
    let mut known: BTreeSet<String> = ["test", "help", "version"].map(str::to_owned).into();
    for command in cmd::all() {
        known.extend(arguments(&command).filter_map(|a| a.get_long()).map(str::to_owned));
    }
    let flag = Regex::new(r#"(?m)(?:^|[\s`'"(|])--([a-z][a-z-]*)"#).unwrap();
    let mut wrong = Vec::new();
    for name in WRITTEN {
        for found in flag.captures_iter(&text(name)) {
            if !known.contains(&found[1]) {
                wrong.push(format!("{name}: --{}", &found[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn links_and_make_targets_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#]*)(?:#([a-z0-9-]+))?\)").unwrap();
    let make = Regex::new(r"(?m)^make ([a-z]+)|`make ([a-z]+)`").unwrap();
    let makefile = text("Makefile");
    let mut wrong = Vec::new();
    for name in WRITTEN {
        let text = text(name);
        let folder = top().join(name).parent().unwrap().to_owned();
        for found in link.captures_iter(&text).filter(|found| !found[1].contains("://")) {
            let target =
                if found[1].is_empty() { top().join(name) } else { folder.join(&found[1]) };
            let Ok(page) = std::fs::read_to_string(&target) else {
                wrong.push(format!("{name}: {}", &found[1]));
                continue;
            };
            let heading = |line: &str| {
                let kept = |c: &char| c.is_alphanumeric() || *c == '-' || *c == ' ';
                let words: String =
                    line.trim_start_matches(['#', ' ']).chars().filter(kept).collect();
                words.to_lowercase().replace(' ', "-")
            };
            if let Some(anchor) = found.get(2)
                && !page.lines().any(|l| l.starts_with('#') && heading(l) == anchor.as_str())
            {
                wrong.push(format!("{name}: {}#{}", &found[1], anchor.as_str()));
            }
        }
        for found in make.captures_iter(&text) {
            let target = found.get(1).or(found.get(2)).unwrap().as_str();
            if !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                wrong.push(format!("{name}: make {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Each promise of SECURITY.md names tests that there are, and each mutant breaks one promise.
#[test]
fn every_promise_names_its_tests() {
    let parts = text("torture/src/main.rs");
    let mutants = text("mutants/table");
    let mutants: BTreeSet<&str> =
        mutants.lines().filter_map(|line| line.strip_prefix("name: ")).collect();
    let mut broken = BTreeSet::new();
    for row in table("SECURITY.md", "promise") {
        let [promise, tests, torture, killed] = &row[..] else { panic!("{row:?}") };
        for module in quoted(tests) {
            let is_there = ["", "/mod"]
                .iter()
                .any(|end| top().join(format!("tests/it/{module}{end}.rs")).is_file());
            assert!(is_there, "{promise}: tests/it has no {module}");
        }
        for part in quoted(torture) {
            assert!(parts.contains(&format!("\"{part}\",")), "{promise}: no torture part {part}");
        }
        assert!(!quoted(tests).is_empty() || !quoted(torture).is_empty(), "{promise}: no test");
        for name in quoted(killed) {
            assert!(mutants.contains(name.as_str()), "{promise}: no mutant {name}");
            assert!(broken.insert(name.clone()), "{name} breaks two promises");
        }
    }
    assert_eq!(broken.len(), mutants.len(), "a mutant that breaks no promise");
}

#[test]
fn every_module_is_in_the_code_map() {
    let map = text("ARCHITECTURE.md");
    let library = text("src/lib.rs");
    for module in Regex::new(r"(?m)^pub mod (\w+);").unwrap().captures_iter(&library) {
        assert!(map.contains(&format!("**`{}`**", &module[1])), "{} in ARCHITECTURE", &module[1]);
        let line = Regex::new(&format!(r"//! - \[`(mod@)?{}`\]: ", &module[1])).unwrap();
        assert!(line.is_match(&library), "{} in src/lib.rs", &module[1]);
    }
}

// The tables.

#[test]
fn the_tables_of_the_readme_are_complete() {
    assert_eq!(names(&table("README.md", "tool")), TOOLS);

    let codes = Exit::ALL.map(|exit| exit.code().to_string());
    let rows = names(&table("README.md", "exit"));
    assert_eq!(rows.join(", ").split(", ").collect::<Vec<_>>(), codes);

    let list = Sandbox::new().run(&["--list-providers", "--json"]).assert_exit(0).json();
    let rows = table("README.md", "provider");
    let providers = list["providers"].as_array().unwrap();
    assert_eq!(rows.len(), providers.len());
    for (row, provider) in rows.iter().zip(providers) {
        let mut expect = vec![provider["provider"].as_str().unwrap()];
        expect.extend(provider["aliases"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()));
        assert_eq!(quoted(&row[0]), expect);
        match provider["default_model"].as_str() {
            Some(model) => assert_eq!(quoted(&row[1]), [model]),
            None => assert!(!row[1].starts_with('`'), "{row:?}"),
        }
        for credential in provider["credentials"].as_array().unwrap() {
            assert!(quoted(&row[2]).iter().any(|name| credential == name), "{row:?}");
        }
    }
}

#[test]
fn every_key_of_the_config_is_told_with_its_default() {
    let rows = table("docs/config.md", "key");
    let run = Sandbox::new().config_text("{\"zzzzzzzz\": 1}").run(&["--status"]).assert_exit(2);
    let keys = run.stderr.split("known keys: ").nth(1).unwrap().trim();
    assert_eq!(names(&rows).join(", "), keys);

    // Two keys count only beside others; where they do is tested in `commands`.
    let defaults = Sandbox::new().config_text("{}").run(&["--status", "--json"]).json();
    for row in rows {
        let (key, example) = (&quoted(&row[0])[0], &quoted(&row[1])[0]);
        let value: serde_json::Value = serde_json::from_str(example).unwrap();
        let mut config = serde_json::json!({ key.as_str(): value.clone() });
        if key == "profile" {
            config["profiles"] = serde_json::json!({ value.as_str().unwrap(): {} });
        }
        let sandbox = Sandbox::new().config(config);
        let status = sandbox.run(&["--status", "--json"]).assert_exit(0).no_stderr().json();
        let Some(default) = defaults["settings"].get(key) else { continue };
        if default["from"] != "default" || ["provider", "model", "base_url"].contains(&key.as_str())
        {
            continue;
        }
        let told = &row[2];
        let default = match &default["value"] {
            serde_json::Value::String(text) => text.replace("bash, else sh", "`bash`, else `sh`"),
            serde_json::Value::Null => String::new(),
            // Seconds are told as 30.0.
            other => other.to_string().trim_end_matches(".0").to_owned(),
        };
        assert!(told.contains(&default), "{key}: {told} is not {default}");
        let now = &status["settings"][key]["value"];
        assert!(now == &value || now.as_f64() == value.as_f64(), "{key}: {now} is not {value}");
    }
}

#[test]
fn the_built_in_prices_are_those_of_the_page() {
    let code: Vec<[String; 6]> = price::BUILT_IN
        .iter()
        .map(|row| {
            let from =
                if row.from.is_empty() { String::new() } else { format!(", from {}", row.from) };
            let price::Price { input, cached, cache_write, output, .. } = row.price;
            let model = format!("`{}`{from}", row.model);
            let published = row.published.to_owned();
            [
                model,
                published,
                input.to_string(),
                cached.unwrap().to_string(),
                cache_write.unwrap().to_string(),
                output.to_string(),
            ]
        })
        .collect();
    let page: Vec<Vec<String>> = table("docs/config.md", "model");
    assert_eq!(page, code.into_iter().map(Vec::from).collect::<Vec<_>>());
    let long = price::BUILT_IN[0].price.long.unwrap();
    assert_eq!((long.above, long.input, long.output), (272_000, 2.0, 1.5));
}

#[test]
fn the_example_of_a_config_is_one() {
    let example = top().join("config.example.json").display().to_string();
    let run = Sandbox::new().run(&["--config", &example, "--status"]).assert_exit(0).no_stderr();
    let config: serde_json::Value = serde_json::from_str(&text("config.example.json")).unwrap();
    let expect =
        format!("provider:{} model:{}", config["provider"], config["model"]).replace('"', "");
    assert!(run.stdout.contains(&expect), "{}", run.stdout);
}

#[test]
fn every_type_is_in_the_page_about_large_files() {
    let told: BTreeSet<String> =
        table("docs/large-files.md", "type").iter().flat_map(|row| quoted(&row[0])).collect();
    let known = NAMES.map(|(_, names, _)| names[0].to_owned());
    assert_eq!(told, BTreeSet::from(known));
}

#[test]
fn the_page_about_edits_has_every_reading_and_every_cause() {
    let readings = [
        How::Exact,
        How::LineEnds,
        How::Trailing,
        How::Indent,
        How::Quotes,
        How::BlankLines,
        How::PartOfLine,
    ];
    assert_eq!(names(&table("docs/edits.md", "`how`")), readings.map(How::as_str));
    let causes = [
        Cause::Missing,
        Cause::Twice,
        Cause::PartOfLine,
        Cause::Indentation,
        Cause::AlreadyApplied,
        Cause::Empty,
        Cause::NoChange,
        Cause::Overlap,
        Cause::Unclear,
    ];
    let causes = causes.map(|cause| serde_json::json!(cause).as_str().unwrap().to_owned());
    assert_eq!(names(&table("docs/edits.md", "`cause`")), causes);
    let told = quoted(&text("docs/json.md"));
    let names = readings.map(How::as_str).into_iter().chain(causes.iter().map(String::as_str));
    for name in names {
        assert!(told.iter().any(|word| word == name), "docs/json.md does not tell {name}");
    }
}

#[test]
fn the_figures_of_memory_on_files_are_those_of_the_code() {
    let page = text("docs/file-memory.md");
    let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
    let told = [
        format!("the latest {} commits", nagent::limits::HISTORY_STEPS),
        format!("of more than {} files do not count", co_change::LARGEST_COMMIT),
        format!("blank, up to {} of text", kib(file_memory::MAX_SHORT)),
        format!("over {} of text", kib(file_memory::MIN_LONG)),
        format!("Diffs are cut at {}", kib(nagent::limits::COMMIT_DIFF as u64)),
    ];
    for told in told {
        assert!(page.contains(&told), "docs/file-memory.md does not say: {told}");
    }
    for (files, weighs) in
        [(2, "two files weighs 1"), (5, "five files 0.5"), (101, "101 files 0.1")]
    {
        let weight = (co_change::weight(files) as f64 / 1e6).to_string();
        assert!(page.contains(weighs) && weighs.ends_with(&weight), "{files}: {weight}");
    }
    // A pair of rows that stands just on each line of the table, and one just below it.
    let rate = |together: u64, alone: u64, files: u64| {
        let mut counts = CoChangeCounts::default();
        for at in 0..together + alone {
            counts.add_commit(0, files, (at < together).then_some(b"other".as_slice()));
        }
        counts.list_files()[0].likelihood.label().to_owned()
    };
    assert_eq!([rate(2, 2, 17), rate(2, 3, 17), rate(1, 0, 2)], ["high", "medium", "low"]);
    assert_eq!([rate(2, 8, 65), rate(2, 9, 65), rate(2, 8, 66)], ["medium", "low", "low"]);
    let rows: Vec<String> =
        table("docs/file-memory.md", "rate").iter().map(|row| row[1..].join(", ")).collect();
    assert!(
        rows[0].starts_with("50 % or more, at least 2 commits") && rows[0].ends_with("0.5 or more")
    );
    assert!(
        rows[1].starts_with("20 % or more, at least 2 commits")
            && rows[1].ends_with("0.25 or more")
    );
    let most = format!("the nearest first, {} at most", co_change::MAX_LISTED);
    assert!(text("docs/json.md").contains(&most), "{most}");
}
