//! What each look of `nagent-repl` shows, as whole screens: `tests/fixtures/looks`. `UPDATE_DOCS=1` writes them again.

use std::path::Path;

use crate::answers::Answer;
use crate::file_edit::{edit, write};
use crate::pty::Pty;
use crate::sandbox::{Sandbox, answer, shell, wait_until};

/// The terminals: a heading, columns, a variable.
const TERMINALS: [(&str, u16, (&str, &str)); 3] = [
    ("200 columns, with the numbers of styles", 200, ("TERM", "xterm")),
    ("20 columns, NO_COLOR, which becomes 40 in a line", 20, ("NO_COLOR", "1")),
    ("TERM=dumb, 200 columns", 200, ("TERM", "dumb")),
];

/// The looks, with their signs.
const LOOKS: [(&str, &str); 4] = [("plain", "»"), ("nano", "❯"), ("pair", "You:"), ("run", ">")];

/// A reply with each tag that a look has, and that works without a large file.
fn every_tag(look: &str) -> String {
    let list = "<nagent-list path=\".\"/>".to_owned();
    let files = [
        "<nagent-read path=\"a.txt\" numbers=\"true\"/>".to_owned(),
        "<nagent-glob pattern=\"*.txt\"/>".to_owned(),
        "<nagent-grep pattern=\"two\"/>".to_owned(),
        write("new.txt", "x\ny\n"),
        edit("a.txt", "two", "2"),
        edit("a.txt", "absent", "x"),
    ];
    let child = "<nagent-conversation name=\"kid\">part</nagent-conversation>".to_owned();
    let commands = [shell("seq 12"), shell("echo no >&2; exit 3")];
    let tags = match look {
        "run" => commands.to_vec(),
        "nano" => [&files[..], &commands].concat(),
        "pair" => [&[list][..], &files, &commands].concat(),
        _ => [&[list][..], &files, &commands, &[child]].concat(),
    };
    answer("I look.") + &tags.concat()
}

/// Types keys, waits for this text, and for the next prompt.
fn run(pty: &mut Pty, keys: &str, text: &str, sign: &str) {
    let before = pty.printed().matches(text).count();
    pty.type_keys(keys);
    pty.expect_times(text, before + 1);
    wait_until("the next prompt", || pty.screen().last().is_some_and(|line| line == sign));
}

fn session(look: &str, sign: &str, columns: u16, variable: (&str, &str)) -> Vec<String> {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let host = sandbox.llm.origin();
    let sandbox = sandbox.env("OLLAMA_HOST", &host).env("MODEL", "test-model");
    sandbox.llm.push(every_tag(look));
    if look == "plain" {
        sandbox.llm.push(shell("echo in the child"));
        sandbox.llm.push(answer("from the child"));
    }
    sandbox.llm.push(answer("All\ndone."));
    sandbox.llm.push(Answer::error(400, "invalid_request_error"));
    let args = ["--look", look, "--conversation", "c"];
    // The question has the path of the folder, whose rows depend on its length.
    let more: &[&str] = match look {
        "plain" => &["-w"],
        "run" if columns < 80 => &["--approve", "none"],
        _ => &[],
    };
    let args = [&args, more].concat();
    let call = sandbox.repl(&args).env("TERM", "xterm").env(variable.0, variable.1);
    let mut pty = call.on_pty(columns);
    wait_until("the prompt", || pty.screen().last().is_some_and(|line| line == sign));
    if look == "run" && columns >= 80 {
        for count in 1..=2 {
            pty.type_keys(if count == 1 { "go\r" } else { "y\r" });
            pty.expect_times("[n]: ", count);
        }
        run(&mut pty, "y\r", "done.", sign);
    } else {
        run(&mut pty, "go\r", "done.", sign);
    }
    if columns == 20 {
        pty.type_keys("a line of two rows to ");
        wait_until("it is shown", || pty.screen().last().unwrap().ends_with("to"));
        let before = pty.printed().len();
        pty.resize(40);
        // The blank may come behind it, by itself.
        wait_until("it is shown again", || pty.printed()[before..].contains("two rows to"));
    }
    run(&mut pty, "fail now\r", "server says no", sign);
    pty.type_keys("exit\r");
    assert!(pty.wait().success());
    let exit = format!("{sign} exit");
    let bye = if matches!(look, "nano" | "pair") { "Goodbye!" } else { &exit };
    wait_until("the last line", || pty.screen().last().is_some_and(|line| line == bye));
    let lines = if variable.0 == "TERM" { pty.styled_screen() } else { pty.screen() };
    let folder = sandbox.work().canonicalize().unwrap().display().to_string();
    let times = regex::Regex::new(r"[0-9.]+ s\b").unwrap();
    let address = host.trim_start_matches("http://");
    let lines = lines.into_iter().map(|line| {
        let line = line.replace(&folder, "FOLDER").replace(address, "ADDRESS");
        times.replace_all(&line, "0.0 s").into_owned()
    });
    // On a narrow terminal the rows of the banner depend on the length of a path.
    let banner = if columns < 80 { usize::MAX } else { 0 };
    let lines: Vec<String> = lines.collect();
    let first = lines.iter().position(|line| line.ends_with("go")).unwrap().min(banner);
    lines[first..].to_vec()
}

#[test]
fn the_screens_of_each_look_are_as_stored() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/looks");
    for (look, sign) in LOOKS {
        let mut page = String::new();
        for (heading, columns, variable) in TERMINALS {
            let lines = session(look, sign, columns, variable).join("\n");
            page.push_str(&format!("== {heading}\n{lines}\n\n"));
        }
        let path = folder.join(format!("{look}.txt"));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap();
        let differs = page.lines().zip(stored.lines()).find(|(new, old)| new != old);
        assert_eq!(differs, None, "{look}: UPDATE_DOCS=1 writes tests/fixtures/looks again");
        assert_eq!(page.lines().count(), stored.lines().count(), "{look}");
    }
}
