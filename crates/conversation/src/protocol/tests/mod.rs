//! Replies and what they come to: tables that the parser's tests and the grammars' tests share.

mod format;
mod grammars;
mod properties;
mod verdicts;

use super::{Action, Change, ParsedReply, ReplyItem, parse_reply};
use format::format;

/// Whether the reply parses and its values are right.
pub(super) fn is_sound(reply: &str) -> bool {
    let is_wrong = |item: &ReplyItem| matches!(item, ReplyItem::Action(Action::Wrong { .. }));
    matches!(parse_reply(reply), ParsedReply::Whole(items) if !items.iter().any(is_wrong))
}

pub(super) fn say(text: &str) -> ReplyItem {
    ReplyItem::Response(text.into())
}

pub(super) fn read(path: &str) -> ReplyItem {
    ReplyItem::Action(Action::Read { path: path.into(), offset: None, limit: None, numbers: false })
}

pub(super) fn lines(path: &str, offset: Option<u64>, limit: Option<u64>) -> ReplyItem {
    ReplyItem::Action(Action::Read { path: path.into(), offset, limit, numbers: false })
}

pub(super) fn write(path: &str, text: &str) -> ReplyItem {
    ReplyItem::Action(Action::Change(Change::Write { path: path.into(), text: text.into() }))
}

pub(super) fn edit(path: &str, blocks: &str) -> ReplyItem {
    ReplyItem::Action(Action::Change(Change::Edit {
        path: path.into(),
        blocks: blocks.into(),
        all: false,
    }))
}

pub(super) fn list(path: &str) -> ReplyItem {
    ReplyItem::Action(Action::List { path: path.into() })
}

pub(super) fn glob(pattern: &str, path: Option<&str>) -> ReplyItem {
    ReplyItem::Action(Action::Glob { pattern: pattern.into(), path: path.map(Into::into) })
}

pub(super) fn grep(pattern: &str, path: Option<&str>, glob: Option<&str>) -> ReplyItem {
    let (path, glob) = (path.map(Into::into), glob.map(Into::into));
    let (context, ignore_case) = (None, false);
    ReplyItem::Action(Action::Grep { pattern: pattern.into(), path, glob, context, ignore_case })
}

pub(super) fn shell(commands: &str) -> ReplyItem {
    ReplyItem::Action(Action::Shell {
        commands: commands.into(),
        timeout: None,
        keep: None,
        outside: None,
    })
}

pub(super) fn next(prompt: &str) -> ReplyItem {
    ReplyItem::Action(Action::Next { prompt: prompt.into() })
}

pub(super) fn child(prompt: &str, name: &str, from: &str, file: &str) -> ReplyItem {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (name, from, file) = (given(name), given(from), given(file));
    ReplyItem::Action(Action::Conversation { prompt: prompt.into(), name, from, file })
}

/// Replies that parser and grammars accept.
pub(super) fn plain() -> Vec<(&'static str, Vec<ReplyItem>)> {
    let timed = ReplyItem::Action(Action::Shell {
        commands: "ls".into(),
        timeout: Some(30),
        keep: None,
        outside: None,
    });
    vec![
        ("<nagent-response>hi</nagent-response>", vec![say("hi")]),
        (" \t\r\n<nagent-response>hi</nagent-response> \t\r\n", vec![say("hi")]),
        ("<nagent-response>\nhi\n</nagent-response>", vec![say("hi")]),
        ("<nagent-response>\r\n\n hi \n\r\n</nagent-response>", vec![say(" hi ")]),
        ("<nagent-response\n>hi</nagent-response>", vec![say("hi")]),
        (
            "<nagent-response>a < b && c > d \"e\" &lt;</nagent-response>",
            vec![say("a < b && c > d \"e\" &lt;")],
        ),
        ("<nagent-response><b>x</b></nagent-response>", vec![say("<b>x</b>")]),
        ("<nagent-response><</nagent-response>", vec![say("<")]),
        ("<nagent-response></</nagent-response>", vec![say("</")]),
        ("<nagent-response></nagent-respons</nagent-response>", vec![say("</nagent-respons")]),
        ("<nagent-response></nagent-<</nagent-response>", vec![say("</nagent-<")]),
        ("<nagent-response></nagent-response </nagent-response>", vec![say("</nagent-response ")]),
        ("<nagent-response></NAGENT-RESPONSE></nagent-response>", vec![say("</NAGENT-RESPONSE>")]),
        ("<nagent-response></nagent-shell></nagent-response>", vec![say("</nagent-shell>")]),
        ("<nagent-response><nagent-response></nagent-response>", vec![say("<nagent-response>")]),
        (
            "<nagent-response><nagent-shell>rm</nagent-shell></nagent-response>",
            vec![say("<nagent-shell>rm</nagent-shell>")],
        ),
        (
            "<nagent-response><nagent-shell-result>0</nagent-shell-result></nagent-response>",
            vec![say("<nagent-shell-result>0</nagent-shell-result>")],
        ),
        ("<nagent-response>héllo 世界 🦀</nagent-response>", vec![say("héllo 世界 🦀")]),
        ("<nagent-response>a\0b\u{1b}[31m</nagent-response>", vec![say("a\0b\u{1b}[31m")]),
        ("<nagent-response>\u{a0}</nagent-response>", vec![say("\u{a0}")]),
        (
            "<nagent-response>a</nagent-response><nagent-response>b</nagent-response>",
            vec![say("a"), say("b")],
        ),
        ("<nagent-read path=\"a\"/>", vec![read("a")]),
        ("<nagent-read path='a'/>", vec![read("a")]),
        ("<nagent-read path=\"a\" />", vec![read("a")]),
        ("<nagent-read\n\tpath\n=\n\"a\"\n/>", vec![read("a")]),
        ("<nagent-read path=\"a\"></nagent-read>", vec![read("a")]),
        ("<nagent-read path=\"a\">\n </nagent-read>", vec![read("a")]),
        ("<nagent-read path=\"a\" offset=\"3\"/>", vec![lines("a", Some(3), None)]),
        ("<nagent-read path=\"a\" limit='40'/>", vec![lines("a", None, Some(40))]),
        (
            "<nagent-read path=\"a\" offset=\"3\" limit=\"40\"/>",
            vec![lines("a", Some(3), Some(40))],
        ),
        (
            "<nagent-read path=\"a\" limit=\"9999999999999999999\"/>",
            vec![lines("a", None, Some(9_999_999_999_999_999_999))],
        ),
        ("<nagent-read path=\"a b/ü's.txt\"/>", vec![read("a b/ü's.txt")]),
        ("<nagent-read path='say \"hi\"'/>", vec![read("say \"hi\"")]),
        ("<nagent-read path=\"a>b/>c\"/>", vec![read("a>b/>c")]),
        (
            "<nagent-read path=\"<nagent-shell>rm</nagent-shell>\"/>",
            vec![read("<nagent-shell>rm</nagent-shell>")],
        ),
        ("<nagent-read path=\"a'/><nagent-shell>\"/>", vec![read("a'/><nagent-shell>")]),
        ("<nagent-read path=\"a\nb\"/>", vec![read("a\nb")]),
        ("<nagent-read path=\"&quot;&apos;&amp;&lt;&gt;\"/>", vec![read("\"'&<>")]),
        ("<nagent-read path=\"&amp;lt;&amp;amp;\"/>", vec![read("&lt;&amp;")]),
        (
            "<nagent-read path=\"a&b &nbsp; &#65; &LT; &lt &;\"/>",
            vec![read("a&b &nbsp; &#65; &LT; &lt &;")],
        ),
        ("<nagent-read path=\" \"/>", vec![read(" ")]),
        (
            "<nagent-file-read path=\"big\"/>",
            vec![ReplyItem::Action(Action::FileRead { path: "big".into() })],
        ),
        (
            "<nagent-file-patch index=\"s/index.json\"/>",
            vec![ReplyItem::Action(Action::Change(Change::FilePatch {
                index: "s/index.json".into(),
            }))],
        ),
        ("<nagent-write path=\"a\"></nagent-write>", vec![write("a", "")]),
        ("<nagent-write path=\"a\">\n</nagent-write>", vec![write("a", "")]),
        ("<nagent-write path=\"a\">\nline\n</nagent-write>", vec![write("a", "line\n")]),
        ("<nagent-write path=\"a\">line</nagent-write>", vec![write("a", "line")]),
        ("<nagent-write path=\"a\">\n\nline\n\n</nagent-write>", vec![write("a", "\nline\n\n")]),
        ("<nagent-write path=\"a\">\r\nline\r\n</nagent-write>", vec![write("a", "line\r\n")]),
        ("<nagent-write path=\"a\"> \nline</nagent-write>", vec![write("a", " \nline")]),
        ("<nagent-write path=\"a\"> </nagent-write>", vec![write("a", " ")]),
        ("<nagent-write path=\"a\">&lt;p&gt;</nagent-write>", vec![write("a", "&lt;p&gt;")]),
        ("<nagent-write path=\"a\"><p/></nagent-write>", vec![write("a", "<p/>")]),
        (
            "<nagent-edit path=\"a\">\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n</nagent-edit>",
            vec![edit("a", "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n")],
        ),
        ("<nagent-edit path=\"a\">no blocks</nagent-edit>", vec![edit("a", "no blocks")]),
        ("<nagent-list path=\".\"/>", vec![list(".")]),
        ("<nagent-glob pattern=\"**/*.rs\"/>", vec![glob("**/*.rs", None)]),
        ("<nagent-glob pattern=\"*\" path=\"src\"/>", vec![glob("*", Some("src"))]),
        ("<nagent-glob pattern=\"*\" path=\"\"/>", vec![glob("*", None)]),
        ("<nagent-grep pattern=\"fn \\w+&lt;\"/>", vec![grep("fn \\w+<", None, None)]),
        (
            "<nagent-grep pattern=\"x\" path='src' glob=\"*.rs\"/>",
            vec![grep("x", Some("src"), Some("*.rs"))],
        ),
        (
            "<nagent-edit path=\"a\" all=\"true\">x</nagent-edit>",
            vec![ReplyItem::Action(Action::Change(Change::Edit {
                path: "a".into(),
                blocks: "x".into(),
                all: true,
            }))],
        ),
        (
            "<nagent-grep pattern=\"x\" context=\"2\" ignore_case='true'/>",
            vec![ReplyItem::Action(Action::Grep {
                pattern: "x".into(),
                path: None,
                glob: None,
                context: Some(2),
                ignore_case: true,
            })],
        ),
        ("<nagent-shell>ls</nagent-shell>", vec![shell("ls")]),
        (
            "<nagent-shell>\nls -l\necho \"a\" > b && cat <<EOF\nx\nEOF\n</nagent-shell>",
            vec![shell("ls -l\necho \"a\" > b && cat <<EOF\nx\nEOF")],
        ),
        ("<nagent-shell timeout=\"30\">ls</nagent-shell>", vec![timed]),
        ("<nagent-next>go on</nagent-next>", vec![next("go on")]),
        ("<nagent-conversation>do</nagent-conversation>", vec![child("do", "", "", "")]),
        (
            "<nagent-conversation name=\"n\">do</nagent-conversation>",
            vec![child("do", "n", "", "")],
        ),
        (
            "<nagent-conversation name=\"n\" from=\"s\">do</nagent-conversation>",
            vec![child("do", "n", "s", "")],
        ),
        (
            "<nagent-conversation file=\"src/a.rs\">do</nagent-conversation>",
            vec![child("do", "", "", "src/a.rs")],
        ),
        (
            "<nagent-read path=\"a\"/><nagent-read path=\"b\"/>\n\n<nagent-shell>ls</nagent-shell><nagent-response>x</nagent-response>",
            vec![read("a"), read("b"), shell("ls"), say("x")],
        ),
        (
            "<nagent-shell>a</nagent-shell>\n<nagent-shell>a</nagent-shell>",
            vec![shell("a"), shell("a")],
        ),
    ]
}

/// Replies that only the parser accepts, since the grammars are narrower.
pub(super) fn parser_only() -> Vec<(&'static str, Vec<ReplyItem>)> {
    vec![
        ("\u{feff}<nagent-response>hi</nagent-response>", vec![say("hi")]),
        ("<nagent-read limit=\"2\" path=\"a\" offset=\"1\"/>", vec![lines("a", Some(1), Some(2))]),
        (
            "<nagent-read path=\"a\" limit=\"18446744073709551615\"/>",
            vec![lines("a", None, Some(u64::MAX))],
        ),
        ("<nagent-grep glob='*.rs' pattern='x'/>", vec![grep("x", None, Some("*.rs"))]),
        (
            "<nagent-conversation from=\"s\" name=\"n\">do</nagent-conversation>",
            vec![child("do", "n", "s", "")],
        ),
        (
            "<nagent-write path=\"a\" fence=\"E1\">x</nagent-write>y</nagent-write E1>",
            vec![write("a", "x</nagent-write>y")],
        ),
        (
            "<nagent-write fence='E1' path='a'>\nx</nagent-write E2></nagent-write E1>",
            vec![write("a", "x</nagent-write E2>")],
        ),
        ("<nagent-shell fence=\"a.b-c_d\">ls</nagent-shell a.b-c_d>", vec![shell("ls")]),
        (
            "<nagent-response fence=\"w\"></nagent-response></nagent-response w>",
            vec![say("</nagent-response>")],
        ),
        (
            "<nagent-shell fence=\"w\">a</nagent-shell></nagent-shell w> <nagent-shell>b</nagent-shell>",
            vec![shell("a</nagent-shell>"), shell("b")],
        ),
    ]
}

/// Replies whose form is right and one value is not: the reply, words of the complaint.
pub(super) const WRONG_VALUES: &[(&str, &str)] = &[
    ("<nagent-grep pattern=\"\"/>", "pattern of <nagent-grep> is empty"),
    ("<nagent-write path=''>x</nagent-write>", "is empty"),
    ("<nagent-read path=\"\"/>", "path of <nagent-read> is empty: it is the file"),
    (
        "<nagent-read path=\"a\" offset=\"0\"/>",
        "offset of <nagent-read> must be a whole number from 1, and is \"0\": it is the first line",
    ),
    ("<nagent-read path=\"a\" offset=\"-1\"/>", "whole number"),
    ("<nagent-read path=\"a\" offset=\"+1\"/>", "whole number"),
    ("<nagent-read path=\"a\" offset=\"01\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"1.5\"/>", "limit of <nagent-read> must be"),
    ("<nagent-read path=\"a\" limit=\" 1\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"ten\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"٣\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"18446744073709551616\"/>", "whole number"),
    ("<nagent-read path=\"a\" limit=\"99999999999999999999999\"/>", "whole number"),
    ("<nagent-edit path=\"a\" all=\"yes\">x</nagent-edit>", "all of <nagent-edit> is \"true\""),
    ("<nagent-shell timeout=\"10s\">ls</nagent-shell>", "timeout of <nagent-shell> must be"),
    (
        "<nagent-shell keep=\"a\" timeout=\"1\">ls</nagent-shell>",
        "cannot take both keep and timeout",
    ),
    ("<nagent-shell keep=\"\">ls</nagent-shell>", "keep of <nagent-shell> is empty: leave it out"),
    ("<nagent-shell></nagent-shell>", "<nagent-shell> has an empty body: write <nagent-shell"),
    ("<nagent-shell>\n \t\r\n</nagent-shell>", "has an empty body"),
    ("<nagent-shell fence=\"w\">\n</nagent-shell w>", "has an empty body"),
    ("<nagent-next>\n</nagent-next>", "has an empty body"),
    ("<nagent-edit path=\"a\">\n</nagent-edit>", "has an empty body"),
    ("<nagent-conversation></nagent-conversation>", "has an empty body"),
    (
        "<nagent-conversation name=\"a\" file=\"b\">x</nagent-conversation>",
        "cannot take both file and name",
    ),
    (
        "<nagent-conversation file=\"b\" from=\"a\">x</nagent-conversation>",
        "cannot take both file and from",
    ),
    (
        "<nagent-conversation file=\"\">x</nagent-conversation>",
        "file of <nagent-conversation> is empty",
    ),
    ("<nagent-conversation name=\"\">x</nagent-conversation>", "is empty"),
];

/// Words around tags, which are a message where there is an action.
pub(super) fn prose() -> Vec<(&'static str, Vec<ReplyItem>)> {
    vec![
        ("Sure!\n<nagent-shell>ls</nagent-shell>", vec![say("Sure!"), shell("ls")]),
        (" a < b\n\nso\n <nagent-shell>ls</nagent-shell>", vec![say("a < b\n\nso"), shell("ls")]),
        ("Let me look. <nagent-shell>ls</nagent-shell>", vec![say("Let me look."), shell("ls")]),
        ("<nagent-shell>ls</nagent-shell>\nDone.\n", vec![shell("ls"), say("Done.")]),
        ("<nagent-shell>ls</nagent-shell> Done.", vec![shell("ls"), say("Done.")]),
        (
            "Look:\n<nagent-shell>ls</nagent-shell><nagent-response>x</nagent-response>\n\nThen x > y.",
            vec![say("Look:"), shell("ls"), say("x"), say("Then x > y.")],
        ),
    ]
}

/// Replies that nothing accepts: the reply, the offset of what is wrong, words of the complaint.
pub(super) const BAD: &[(&str, usize, &str)] = &[
    ("", 0, "the reply is empty"),
    (" \n\t ", 4, "the reply is empty"),
    ("\u{feff}", 3, "the reply is empty"),
    // Text outside tags.
    (
        "Look:\n<nagent-raed path=\"a\"/>",
        0,
        "there is no tag <nagent-raed>; did you mean <nagent-read>?",
    ),
    ("hello", 0, "text outside of tags: put it in <nagent-response>"),
    ("I am done.\n<nagent-response>hi</nagent-response>", 0, "text outside of tags"),
    ("<nagent-response>hi</nagent-response>\nbye", 38, "text outside of tags"),
    ("Not <nagent-shell>rm</nagent-shell> but", 0, "text outside of tags"),
    ("First <b>\n<b>\n<nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("See </nagent-shell>\n<nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("I was sent <system> and\n<nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("Run ```ls```\n<nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("<nagent-shell>ls</nagent-shell>\n  <b>", 34, "there is no tag <b>"),
    ("<nagent-shell>ls</nagent-shell>\n```", 32, "a code fence outside of tags"),
    (
        "<nagent-shell>ls</nagent-shell>\nyes, go ahead\n<nagent-shell>rm</nagent-shell>",
        32,
        "text outside of tags",
    ),
    ("<nagent-shell>ls</nagent-shell>Done.", 31, "text outside of tags"),
    ("<nagent-shell>ls</nagent-shell>\u{a0}", 31, "text outside of tags"),
    ("<nagent-shell>ls</nagent-shell>\u{feff}", 31, "text outside of tags"),
    ("As in\n~~~xml\n<nagent-shell>ls</nagent-shell>\n~~~\nso.", 0, "text outside of tags"),
    ("As in\n\n    <nagent-shell>ls</nagent-shell>\n\nso.", 0, "text outside of tags"),
    ("You could <nagent-shell>ls</nagent-shell>\nHope this helps.", 0, "text outside of tags"),
    ("~~~\n<nagent-shell>ls</nagent-shell>\n~~~", 0, "a code fence outside of tags"),
    ("```xml\n<nagent-shell>ls</nagent-shell>\n```", 0, "a code fence outside of tags"),
    ("<!-- x --><nagent-shell>ls</nagent-shell>", 0, "comments are not allowed"),
    ("<![CDATA[<nagent-shell>ls</nagent-shell>]]>", 0, "comments are not allowed"),
    ("<?xml version=\"1.0\"?><nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("&lt;nagent-shell&gt;ls&lt;/nagent-shell&gt;", 0, "text outside of tags"),
    ("＜nagent-shell＞ls＜/nagent-shell＞", 0, "text outside of tags"),
    ("<\u{200b}nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("<\0nagent-shell>ls</nagent-shell>", 0, "text outside of tags"),
    ("<", 0, "text outside of tags"),
    ("<<<<", 0, "text outside of tags"),
    (">", 0, "text outside of tags"),
    ("<>", 0, "text outside of tags"),
    ("</>", 0, "text outside of tags"),
    ("{\"tool\": \"shell\"}", 0, "text outside of tags"),
    // Names.
    (
        "<thought>hm</thought>",
        0,
        "there is no tag <thought>; the tags are nagent-response, nagent-read",
    ),
    ("<nagent-sheel>ls</nagent-sheel>", 0, "did you mean <nagent-shell>?"),
    ("<nagent_shell>ls</nagent_shell>", 0, "did you mean <nagent-shell>?"),
    ("<Nagent-Shell>ls</Nagent-Shell>", 0, "did you mean <nagent-shell>?"),
    ("<shell>ls</shell>", 0, "did you mean <nagent-shell>?"),
    ("<nagent:shell>ls</nagent:shell>", 0, "there is no tag <nagent:shell>"),
    ("<nagent-shellx>ls</nagent-shellx>", 0, "did you mean <nagent-shell>?"),
    ("<nаgent-shell>ls</nаgent-shell>", 0, "there is no tag <n>"),
    ("<nagent->", 0, "there is no tag <nagent->"),
    ("< nagent-shell>ls</nagent-shell>", 0, "remove the white space between <"),
    ("<nagent-shell>ls</nagent-shell> <nope/>", 32, "there is no tag <nope>"),
    ("</nagent-shell>", 0, "</nagent-shell> has no opening tag"),
    ("</foo>", 0, "there is no such tag"),
    ("<nagent-shel", 0, "the reply ends inside a tag"),
    ("<tool_call>{}</tool_call>", 0, "there is no tag <tool_call>"),
    // Attributes.
    ("<nagent-read/>", 0, "<nagent-read> needs path, the file: write <nagent-read path=\"P\""),
    ("<nagent-read></nagent-read>", 0, "needs path"),
    ("<nagent-file-read/>", 0, "needs path"),
    ("<nagent-file-patch/>", 0, "needs index"),
    ("<nagent-file-patch path=\"x\"/>", 19, "no attribute path"),
    ("<nagent-write>x</nagent-write>", 0, "needs path"),
    ("<nagent-edit>x</nagent-edit>", 0, "needs path"),
    ("<nagent-list/>", 0, "needs path"),
    ("<nagent-glob path=\"x\"/>", 0, "needs pattern"),
    ("<nagent-grep glob=\"x\"/>", 0, "needs pattern"),
    ("<nagent-read path=\"a\" path=\"b\"/>", 22, "<nagent-read> has the attribute path twice"),
    ("<nagent-read path=\"a\" path=\"a\"/>", 22, "twice"),
    ("<nagent-glob pattern=\"a\" path=\"\" path=\"b\"/>", 33, "twice"),
    (
        "<nagent-shell fence=\"a\" fence=\"a\">x</nagent-shell a>",
        24,
        "<nagent-shell> has the attribute fence twice",
    ),
    (
        "<nagent-read file=\"a\"/>",
        13,
        "<nagent-read> has no attribute file; it takes path, offset, limit",
    ),
    ("<nagent-read Path=\"a\"/>", 13, "did you mean path?"),
    ("<nagent-read path=\"a\" lines=\"3\"/>", 22, "no attribute lines"),
    ("<nagent-read path=\"a\" fence=\"x\"/>", 22, "no attribute fence"),
    (
        "<nagent-shell cwd=\"x\">ls</nagent-shell>",
        14,
        "it takes timeout, keep, sandbox, reason, fence",
    ),
    ("<nagent-response to=\"x\">hi</nagent-response>", 17, "it takes fence"),
    ("<nagent-next x=\"\">hi</nagent-next>", 13, "no attribute x"),
    (
        "<nagent-conversation conversation-name=\"x\">hi</nagent-conversation>",
        21,
        "it takes name, from, file, fence",
    ),
    ("<nagent-shell fence=\"\">ls</nagent-shell >", 14, "a fence is one word"),
    ("<nagent-shell fence=\"a b\">ls</nagent-shell a b>", 14, "a fence is one word"),
    ("<nagent-shell fence=\"a&gt;\">ls</nagent-shell a>>", 14, "a fence is one word"),
    // The opening tag itself.
    ("<nagent-read path=a/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path='a\"/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a\"b\"/>", 21, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a\"limit=\"2\"/>", 21, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read \"a\"/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=“a”/>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a\" / >", 22, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a\"//>", 21, "cannot parse <nagent-read> from here on"),
    ("<nagent-read path=\"a\"", 21, "the reply ends inside <nagent-read>"),
    ("<nagent-read path=\"a\" ", 22, "the reply ends inside <nagent-read>"),
    ("<nagent-read <nagent-shell>", 13, "cannot parse <nagent-read> from here on"),
    ("<nagent-shell", 13, "the reply ends inside <nagent-shell>"),
    ("<nagent-shell ls>x</nagent-shell>", 14, "cannot parse <nagent-shell> from here on"),
    // Bodies.
    (
        "<nagent-shell/>",
        0,
        "<nagent-shell> needs a body: write <nagent-shell [timeout=\"S\"]>COMMANDS</nagent-shell>",
    ),
    ("<nagent-write path=\"a\"/>", 0, "needs a body"),
    ("<nagent-response></nagent-response>", 0, "has an empty body"),
    ("<nagent-read path=\"a\">", 0, "<nagent-read> has no body and ends in />"),
    ("<nagent-read path=\"a\">x</nagent-read>", 0, "has no body"),
    ("<nagent-read path=\"a\"></nagent-list>", 0, "has no body"),
    ("<nagent-list path=\"a\">\n<nagent-list path=\"b\">", 0, "has no body"),
    ("<nagent-shell>ls", 0, "<nagent-shell> is not closed: </nagent-shell> is missing"),
    ("<nagent-shell>ls</nagent-shell", 0, "is not closed"),
    ("<nagent-shell>ls</nagent-shell >", 0, "is not closed"),
    ("<nagent-shell>ls</NAGENT-SHELL>", 0, "is not closed"),
    ("<nagent-shell>ls</shell>", 0, "is not closed"),
    (
        "<nagent-response>a</nagent-response><nagent-response>b",
        36,
        "<nagent-response> is not closed",
    ),
    ("<nagent-shell fence=\"w\">ls</nagent-shell>", 0, "</nagent-shell w> is missing"),
    ("<nagent-shell fence=\"w\">ls</nagent-shell v>", 0, "is not closed"),
    ("<nagent-shell fence=\"w\">ls</nagent-shell  w>", 0, "is not closed"),
    // A body that ended too early.
    (
        "<nagent-write path=\"a\">x</nagent-write> y</nagent-write>",
        40,
        "the body of <nagent-write> ended at its first </nagent-write>",
    ),
    (
        "<nagent-write path=\"a\">x</nagent-write></nagent-write>",
        39,
        "has no opening tag; the body of <nagent-write> ended",
    ),
    (
        "<nagent-write path=\"a\">x</nagent-write> <b> </nagent-write>",
        40,
        "write <nagent-write fence=\"WORD\" …> and close it with </nagent-write WORD>",
    ),
    (
        "<nagent-write path=\"a\">x</nagent-write> <nagent-shell>rm</nagent-shell> y</nagent-write>",
        72,
        "the body of <nagent-write> ended",
    ),
    // What is valid does not save what is not.
    ("<nagent-shell>ls</nagent-shell><nagent-read/>", 31, "needs path"),
    // A driver's block with nothing before it.
    (
        "<nagent-shell-result>\n0\n</nagent-shell-result>",
        0,
        "only nagent writes <nagent-shell-result>",
    ),
    (
        "<agent-response><nagent-shell>ls</nagent-shell></agent-response>",
        0,
        "write your tags without it",
    ),
    ("<system>do</system><nagent-shell>ls</nagent-shell>", 0, "only nagent writes"),
    ("</agent-response>", 0, "only nagent writes <agent-response>"),
    ("hm <user-prompt>x</user-prompt>", 0, "text outside of tags"),
    ("<nagent-shell>ls</nagent-shell> hm <user-prompt>x</user-prompt>", 32, "text outside of tags"),
];
