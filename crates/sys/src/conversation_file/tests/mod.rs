//! Tests of the journal: tails cut at every byte, damage, files that others changed, modes. Real files in a temp folder.

mod model;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use conversation::format::file::Block;

/// A conversation as a run writes it: fenced bodies, one of which holds whole blocks of another conversation.
const OTHER: &str = "<user-prompt at=\"x\">\nhi\n</user-prompt>\n\n<agent-response>\n\
    <nagent-response>ä</nagent-response>\n</agent-response>\n\n<nagent-turn-status turn=\"1\" />\n";

fn conversation() -> Vec<String> {
    let mut n = 0;
    let mut word = || {
        n += 1;
        format!("word{n}")
    };
    let own = ["nagent-shell", "nagent-response"];
    [
        Block::new("initial_context").body("# Role\n<nagent-shell>"),
        Block::new("user-prompt").with("cwd", "/a \"b\"\n<c>").body("look at the file, grüße"),
        Block::new("agent-response").body("<nagent-shell>cat other</nagent-shell>"),
        Block::new("nagent-turn-status").with("turn", 1),
        Block::new("nagent-shell-result").with("status", "ok").body(format!("{OTHER}\nend")),
        Block::new("nagent-shell-result").with("status", "ok").body("<hook-per-turn>\nplain"),
        Block::new("system").body("</system>\n</user-prompt>\n<system>\nx\n</system>\n"),
    ]
    .iter()
    .map(|block| block.format(&own, &mut word))
    .collect()
}

pub(super) fn world() -> (tempfile::TempDir, Root) {
    // In memory where there is such a folder: thousands of syncs would take their time.
    let memory = Some(Path::new("/dev/shm")).filter(|path| path.is_dir());
    let folder = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let root = Root { folder: folder.path().join("root") };
    root.prepare().unwrap();
    (folder, root)
}

pub(super) fn open(root: &Root, name: &str) -> Result<ConversationFile, LockError> {
    ConversationFile::open(root, name, Duration::ZERO, &Interrupts::none(), &mut |_| ())
}

fn put(root: &Root, bytes: impl AsRef<[u8]>) {
    std::fs::write(root.conversation("c"), bytes).unwrap();
}

pub(super) fn get(root: &Root, name: &str) -> String {
    std::fs::read_to_string(root.conversation(name)).unwrap()
}

/// Opens what a killed run left.
fn open_after_crash(root: &Root) -> ConversationFile {
    std::fs::write(root.run_note("c"), "{}").unwrap();
    open(root, "c").unwrap()
}

#[test]
fn a_tail_cut_at_any_byte_is_moved_aside_and_the_next_append_begins_a_line() {
    let blocks = conversation();
    let text = blocks.join("\n");
    for cut in 0..=text.len() {
        let (_folder, root) = world();
        put(&root, &text.as_bytes()[..cut]);
        let mut journal = open_after_crash(&root);
        // A block is whole without its last line feed; what stands between blocks is blank.
        let mut end = 0;
        let whole = blocks.iter().take_while(|block| {
            end += block.len() + 1;
            end - 2 <= cut
        });
        let whole = whole.count();
        assert_eq!(journal.pieces().len(), whole, "cut at {cut}");
        let kept = get(&root, "c");
        let torn = journal.torn_tail().map(|path| std::fs::read(path).unwrap()).unwrap_or_default();
        let both = [kept.as_bytes(), &torn].concat();
        let is_blank = text.as_bytes()[both.len()..cut].iter().all(u8::is_ascii_whitespace);
        assert!(text.as_bytes().starts_with(&both) && is_blank, "nothing is lost, cut at {cut}");

        journal.append("<system>\nnew\n</system>\n").unwrap();
        let again = file::parse(&get(&root, "c"));
        assert_eq!((again.trouble, again.pieces.len()), (None, whole + 1), "cut at {cut}");
        assert_eq!(journal.pieces().len(), whole + 1);
    }
}

#[test]
fn without_a_crash_only_a_tail_that_may_be_a_hands_work_is_refused() {
    let text = conversation().join("\n");
    let mut refused = Vec::new();
    for cut in 0..=text.len() {
        let (_folder, root) = world();
        put(&root, &text.as_bytes()[..cut]);
        if open(&root, "c").is_err() {
            refused.push(&text[..cut]);
        }
    }
    let ends = [
        "</agent-response>\n",
        "</agent-response>\n\n",
        "<nagent-turn-status turn=\"1\" />\n",
        "/>\n\n",
    ];
    assert!(refused.iter().all(|text| ends.iter().any(|end| text.ends_with(end))), "{refused:?}");
    assert_eq!(refused.len(), 4);
}

#[test]
fn damage_in_the_middle_is_refused_and_the_file_stays() {
    let text = conversation().join("\n");
    let no_end = text.replace("</initial_context word1>\n", "");
    let no_body_end =
        text.replace("</user-prompt>\n\n<agent-response>\n<nagent-shell>", "<nagent-shell>");
    for damaged in [
        no_end.into_bytes(),
        no_body_end.into_bytes(),
        text.replace("look", "lo\0ok").into_bytes(),
        text.replace("cat", "\0\0\0").into_bytes(),
        text.replace("plain", "pl\0ain").into_bytes(),
        text.bytes().map(|byte| if byte == b'k' { 0xff } else { byte }).collect(),
    ] {
        let (_folder, root) = world();
        put(&root, &damaged);
        let error = open(&root, "c").unwrap_err().to_string();
        assert!(error.contains("damaged at line "), "{error}");
        assert_eq!(std::fs::read(root.conversation("c")).unwrap(), damaged);
        assert!(!fs::exists(&root.invalid_replies_folder("c")) && !fs::exists(&root.run_note("c")));
    }
}

#[test]
fn zeros_of_a_file_system_behind_the_last_block_are_a_torn_tail() {
    let text = conversation().join("\n");
    for tail in [&b"\0\0\0\0"[..], b"<system>\nha\0\0\0\0\0", b"<sys\0\0"] {
        let (_folder, root) = world();
        put(&root, [text.as_bytes(), tail].concat());
        let journal = open(&root, "c").unwrap();
        assert_eq!(journal.pieces().len(), conversation().len());
        assert!(std::fs::read(journal.torn_tail().unwrap()).unwrap().ends_with(tail));
    }
}

#[test]
fn a_hole_in_the_last_append_is_a_torn_tail_after_a_crash_alone() {
    let text = conversation().join("\n");
    let hole = |behind: &str| [text.as_bytes(), &b"\n\0\0\0\0"[..], behind.as_bytes()].concat();
    let (prompt, reply) = ("half\n</user-prompt>\n", format!("half\n</user-prompt>\n\n{OTHER}"));
    // What a fenced block quotes is its own text, whether its opening tag is in the hole or not.
    let quoting =
        format!("{OTHER}</initial_context w1>\n\n<system fence=\"w2\">\n{OTHER}</system w2>\n");
    let answered = format!(
        "{quoting}\n<agent-response fence=\"w3\">\n<agent-response>\n</agent-response w3>\n"
    );
    for (behind, after_crash, is_torn) in [
        (prompt, true, true),
        (prompt, false, false),
        (&reply, true, false),
        (&quoting, true, true),
        (&answered, true, false),
    ] {
        let (_folder, root) = world();
        put(&root, hole(behind));
        if after_crash {
            std::fs::write(root.run_note("c"), "").unwrap();
        }
        match open(&root, "c") {
            Ok(journal) => {
                assert!(is_torn, "{behind}");
                assert_eq!(journal.pieces().len(), conversation().len());
                let torn = std::fs::read(journal.torn_tail().unwrap()).unwrap();
                assert_eq!([journal.text().as_bytes(), &torn].concat(), hole(behind));
            }
            Err(error) => {
                assert!(!is_torn && error.to_string().contains("damaged at line "), "{error}");
                assert_eq!(std::fs::read(root.conversation("c")).unwrap(), hole(behind));
            }
        }
    }
}

/// Changes the file behind a run's back, and looks at the fork that its next append makes.
fn forks(change: impl Fn(&Path)) {
    let (_folder, root) = world();
    put(&root, "<system>\none\n</system>\n");
    let mut journal = open(&root, "c").unwrap();
    change(&root.conversation("c"));
    let left = std::fs::read(root.conversation("c")).ok();
    let forked = journal.append("<system>\ntwo\n</system>\n").unwrap();
    let Some(name) = forked else { panic!("{forked:?}") };
    assert!(name.starts_with("c-") && name == journal.name());
    assert_eq!(journal.path(), root.conversation(&name));
    assert_eq!(get(&root, &name), "<system>\none\n</system>\n\n<system>\ntwo\n</system>\n");
    assert_eq!(std::fs::read(root.conversation("c")).ok(), left, "what the other left stands");
    assert_eq!(journal.append("<system>\nthree\n</system>\n").unwrap(), None);

    // The fork is locked and says by whom; the other file is free.
    assert!(fs::exists(&root.run_note(&name)) && !fs::exists(&root.run_note("c")));
    assert!(matches!(open(&root, &name), Err(LockError::Busy(_))));
    match open(&root, "c") {
        Ok(other) => drop(other),
        Err(error) => assert!(error.to_string().contains("not UTF-8"), "{error}"),
    }
    drop(journal);
    assert!(!fs::exists(&root.run_note(&name)));
    assert_eq!(open(&root, &name).unwrap().pieces().len(), 3);
}

#[test]
fn a_file_that_another_program_changed_is_left_and_the_run_goes_on_in_a_fork() {
    forks(|path| std::fs::write(path, "").unwrap());
    forks(|path| std::fs::write(path, "<system>\nlonger by much\n</system>\n").unwrap());
    forks(|path| std::fs::remove_file(path).unwrap());
    // An addition that is not whole, and one that is not text.
    for added in [&b"<system>\nx\n"[..], b"\xff\n"] {
        forks(|path| {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(added).unwrap();
        });
    }
}

#[test]
fn a_run_goes_on_with_what_another_program_has_added() {
    let check = |edited: &str, by_rename: bool| {
        let (_folder, root) = world();
        put(&root, "<system>\none\n</system>\n\n<system>\ntwo\n</system>\n");
        let mut journal = open(&root, "c").unwrap();
        let path = root.conversation("c");
        let new = if by_rename { path.with_file_name(".c.swp") } else { path.clone() };
        std::fs::write(&new, edited).unwrap();
        std::fs::rename(new, path).unwrap();
        for number in ["three", "four"] {
            let block = format!("<system>\n{number}\n</system>\n");
            assert_eq!(journal.append(&block).unwrap(), None, "{edited}");
        }
        let expect = format!("{edited}\n<system>\nthree\n</system>\n\n<system>\nfour\n</system>\n");
        assert_eq!(get(&root, "c"), expect);
        assert_eq!(journal.text(), expect);
        drop(journal);
        assert_eq!(open(&root, "c").unwrap().text(), expect);
    };
    for by_rename in [false, true] {
        check("a note\n\n<system>\none\n</system>\n\n<system>\ntwo\n</system>\n", by_rename);
        check("<system>\none\n</system>\n\n<system>\ntwo\n</system>\n\na note\n", by_rename);
        check("<system>\none\nmore\n</system>\n\n<system>\ntwo\n</system>\nnote\n", by_rename);
        check("<system>\none and a half\n</system>\n\n<system>\ntwo\n</system>\n", by_rename);
    }
}

#[test]
fn what_was_left_behind_leads_to_the_fork() {
    let check = |edited: Option<&str>, expect: Option<&str>| {
        let (_folder, root) = world();
        put(&root, "<system>\none\n</system>\n");
        let mut journal = open(&root, "c").unwrap();
        let path = root.conversation("c");
        match edited {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        assert!(journal.append("<system>\ntwo\n</system>\n").unwrap().is_some());
        journal.append_to_left("<system fork=\"x\" />\n");
        assert_eq!(std::fs::read_to_string(path).ok().as_deref(), expect);
        drop(open(&root, "c").unwrap());
    };
    let other = "<system>\nanother\n</system>\n";
    check(Some(other), Some(&format!("{other}\n<system fork=\"x\" />\n")));
    // It is not written to what is no conversation any more.
    check(Some(""), Some(""));
    check(None, None);
    check(Some("<system>\nhalf"), Some("<system>\nhalf"));
}

#[test]
fn a_new_conversation_whose_file_appears_meanwhile_is_a_fork_too() {
    let (_folder, root) = world();
    let mut journal = open(&root, "c").unwrap();
    put(&root, "somebody else's");
    assert!(journal.append("<system>\na\n</system>\n").unwrap().is_some());
    assert_eq!(get(&root, "c"), "somebody else's");
}

#[test]
fn links_are_followed_and_written_in_place() {
    let (folder, root) = world();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "<system>\none\n</system>\n").unwrap();
    std::fs::hard_link(&elsewhere, folder.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, root.conversation("c")).unwrap();
    let mut journal = open(&root, "c").unwrap();
    assert_eq!(journal.append("<system>\ntwo\n</system>\n").unwrap(), None);
    assert!(std::fs::read_to_string(folder.path().join("hard")).unwrap().contains("two"));
    assert!(std::fs::symlink_metadata(root.conversation("c")).unwrap().is_symlink());
}

#[test]
fn a_fifo_is_refused_without_waiting() {
    let (_folder, root) = world();
    let path = root.conversation("c");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(
        format!("{:#}", ConversationFile::read_only(&root, "c").unwrap_err())
            .contains("not a regular file")
    );
    assert!(open(&root, "c").is_err());
}

#[test]
fn all_that_is_made_is_for_its_owner_alone() {
    let (_folder, root) = world();
    put(&root, "<system>\none\n</system>\n<sys");
    let mut journal = open(&root, "c").unwrap();
    std::fs::remove_file(root.conversation("c")).unwrap();
    let Some(_) = journal.append("<system>\n</system>\n").unwrap() else { panic!() };
    let mut folders = vec![root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let metadata = entry.metadata().unwrap();
            let expect = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.permissions().mode() & 0o777, expect, "{}", entry.path().display());
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

/// Five turns, each of four blocks.
fn turns() -> String {
    let turn = |n: usize| {
        // No flipped bit makes one of them another.
        let mut word = || ["kzqh", "bwea", "mxog", "trid", "uplf"][n - 1].to_owned();
        let own = ["nagent-shell"];
        [
            Block::new("user-prompt")
                .with("at", "2026-11-21T10:00:00Z")
                .with("cwd", "/a")
                .body(format!("prompt {n}")),
            Block::new("agent-response").body(format!("<nagent-shell>echo {n}</nagent-shell>")),
            Block::new("nagent-turn-status").with("turn", n).with("tokens_in", 12),
            Block::new("nagent-shell-result")
                .with("status", "ok")
                .body(format!("</system>\nresult {n}")),
        ]
        .map(|block| block.format(&own, &mut word))
        .join("\n")
    };
    (1..=5).map(turn).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_flipped_bit_in_a_header_is_refused_with_its_line_or_hides_no_later_turn() {
    let text = turns();
    let second = text.find("prompt 2").unwrap();
    let second = text[..second].rfind("<user-prompt").unwrap();
    let third = text.find("prompt 3").unwrap();
    let third = text[..third].rfind("<user-prompt").unwrap();
    let mut at = second;
    let headers = text[second..third].split_inclusive('\n').flat_map(|line| {
        let from = at;
        at += line.len();
        let is_tag =
            line.starts_with('<') && !line.starts_with("</") && !line.starts_with("<nagent-shell>");
        if is_tag { from..from + line.len() } else { 0..0 }
    });
    let (mut refused, mut read) = (0, 0);
    let (_folder, root) = world();
    for (at, bit) in
        headers.flat_map(|at| (at % 2..8).step_by(2).map(move |bit| (at, bit))).collect::<Vec<_>>()
    {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1 << bit;
        for after_crash in [false, true] {
            put(&root, &bytes);
            // What was refused after a crash keeps the note.
            let _ = std::fs::remove_file(root.run_note("c"));
            if after_crash {
                std::fs::write(root.run_note("c"), "{}").unwrap();
            }
            match open(&root, "c") {
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("damaged at line ") || error.contains("no text file"),
                        "{at} {bit}: {error}"
                    );
                    refused += 1;
                }
                // After a crash, a block that never ends may be the one that the crash tore: what is behind its
                // beginning is kept aside, and that is said.
                Ok(journal) if after_crash && journal.torn_tail().is_some() => {
                    let torn = std::fs::read(journal.torn_tail().unwrap()).unwrap();
                    assert_eq!([journal.text().as_bytes(), &torn].concat(), bytes);
                    continue;
                }
                Ok(journal) => {
                    read += 1;
                    for n in [1, 3, 4, 5] {
                        let of = |name: &str, words: String| {
                            let pieces =
                                journal.pieces().iter().filter(|piece| piece.name() == Some(name));
                            pieces
                                .filter(|piece| piece.body_text(journal.text()).contains(&words))
                                .count()
                        };
                        let all = [
                            of("user-prompt", format!("prompt {n}")),
                            of("agent-response", format!("echo {n}")),
                            of("nagent-shell-result", format!("result {n}")),
                        ];
                        assert_eq!(
                            all,
                            [1, 1, 1],
                            "turn {n}, byte {at} bit {bit} after a crash: {after_crash}"
                        );
                    }
                    assert_eq!(journal.text().as_bytes(), bytes);
                }
            }
            assert_eq!(
                std::fs::read(root.conversation("c")).unwrap(),
                bytes,
                "byte {at} bit {bit}"
            );
        }
    }
    assert!(refused > 100 && read > 100, "{refused} refused, {read} read");
}

#[test]
fn line_ends_of_all_kinds_stay_what_they_are() {
    let body = "a\u{2028}b\u{2029}c\u{85}d\re\r\nf\u{feff}g\x0bh\x0ci";
    let (_folder, root) = world();
    let mut journal = open(&root, "c").unwrap();
    let mut word = || "word".to_owned();
    for _ in 0..3 {
        journal.append(&Block::new("user-prompt").body(body).format(&[], &mut word)).unwrap();
    }
    let text = get(&root, "c");
    drop(journal);
    let mut journal = open(&root, "c").unwrap();
    assert_eq!((journal.pieces().len(), journal.text()), (3, text.as_str()));
    assert!(journal.pieces().iter().all(|piece| piece.body_text(journal.text()) == body));
    journal.append("<system>\nmore\n</system>\n").unwrap();
    assert!(get(&root, "c").starts_with(&text));
    drop(journal);

    // A whole file that an editor has saved with other line ends, or with a mark at its head.
    for edited in [text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        put(&root, &edited);
        match open(&root, "c") {
            Ok(journal) => {
                let prompts =
                    journal.pieces().iter().filter(|piece| piece.name() == Some("user-prompt"));
                assert!(prompts.count() >= 2, "{:?}", journal.pieces());
            }
            Err(error) => assert!(error.to_string().contains("damaged at line "), "{error}"),
        }
        assert_eq!(get(&root, "c"), edited);
    }
}

#[test]
fn ten_thousand_turns_are_read_and_appended_to() {
    let (_folder, root) = world();
    let filler = "x".repeat(1900);
    let turn = |n: usize| format!("<user-prompt at=\"x\">\nprompt {n}\n{filler}\n</user-prompt>\n");
    put(&root, (0..10_000).map(turn).collect::<Vec<_>>().join("\n"));
    let mut journal = open(&root, "c").unwrap();
    assert!(journal.text().len() > 19_000_000);
    assert_eq!(journal.pieces().len(), 10_000);
    assert_eq!(journal.append("<system>\nmore\n</system>\n").unwrap(), None);
    assert_eq!(journal.pieces().len(), 10_001);
}

#[test]
fn an_older_file_is_made_private_and_new_ones_are_so_under_any_umask() {
    let (_folder, root) = world();
    put(&root, "<system>\none\n</system>\n");
    let path = root.conversation("c");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    open(&root, "c").unwrap().append("<system>\ntwo\n</system>\n").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    open(&root, "new").unwrap().append("<system>\ntwo\n</system>\n").unwrap();
    for path in [root.conversation("new"), root.locks().join("new")] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_prompt_leaves_room_for_what_comes_of_it() {
    let (_folder, root) = world();
    put(&root, conversation().join("\n"));
    let journal = open(&root, "c").unwrap();
    let most = usize::try_from(CONVERSATION - CONVERSATION_SPARE).unwrap() - journal.text().len();
    journal.check_room(most).unwrap();
    let error = journal.check_room(most + 1).unwrap_err().to_string();
    assert!(error.contains("nagent-conversations clear"), "{error}");
}
