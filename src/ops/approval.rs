//! Asks a person about an action: on the terminal, or through the front end that follows the run with `--lines`.

use std::cell::Cell;
use std::rc::Rc;

use super::call::Call;
use super::change_report::{FileChange, FileVersion};
use super::flags::Invocation;
use crate::apply;
use crate::approve::{self, Approval as Stored, Approve, Decision};
use crate::drive::approval::{Answer, Approval, Approver};
use crate::drive::run_context::RunContext;
use crate::format::edit;
use crate::format::harmless::{escape_line, escape_name};
use crate::limits;
use crate::problem::Problem;
use crate::protocol::Action;
use crate::sys::interrupt::Interrupts;
use crate::sys::tty::{self, Tty};
use crate::sys::{approvals, fs, stdin};
use crate::view::question::{action_rows, question_text};

/// What nobody can be asked about.
const NOBODY: &str = "it needs the user's approval, and nobody is there to ask";

/// The rules of a call, and who is asked. `asked` has the number of the action that a question is about.
pub(super) fn approval<'a>(
    call: &'a Call<'_>,
    asked: Rc<Cell<u64>>,
) -> Result<Approval<'a>, Problem> {
    let config = &call.settings.config;
    let approve = config.approve;
    let who = match () {
        () if call.which.invocation == Invocation::Delegated => Who::Parent,
        () if call.args.lines => Who::FrontEnd { asked, is_gone: false },
        () => Tty::open().map_or(Who::Nobody, Who::Terminal),
    };
    let approvals = match approve {
        Approve::None => approve::Approvals::default(),
        _ => approvals::load(call.root())?,
    };
    Ok(Approval {
        approve,
        has_stop_list: (approve != Approve::None || call.args.stop_list) && !call.args.dangerous,
        patterns: config.approve_allow.clone(),
        approvals,
        approver: Box::new(Person { call, who }),
    })
}

enum Who {
    Terminal(Tty),
    FrontEnd {
        asked: Rc<Cell<u64>>,
        is_gone: bool,
    },
    /// The conversation that started this one has a person to ask.
    Parent,
    Nobody,
}

struct Person<'a> {
    call: &'a Call<'a>,
    who: Who,
}

impl Approver for Person<'_> {
    fn ask(&mut self, action: &Action, context: &RunContext<'_>) -> Answer {
        match &mut self.who {
            Who::Terminal(tty) => ask_on_terminal(tty, action, context),
            Who::FrontEnd { is_gone: true, .. } | Who::Nobody => Answer::no(NOBODY),
            Who::FrontEnd { asked, is_gone } => {
                let answer = read_decision(asked.get(), context.interrupts);
                *is_gone = answer.is_none();
                answer.unwrap_or_else(|| Answer::no(NOBODY))
            }
            Who::Parent => {
                Answer::no("it needs the user's approval: ask in the first conversation")
            }
        }
    }

    fn store(&mut self, approval: Stored) {
        let stored = approvals::add(self.call.root(), approval, self.call.index_wait());
        if let Err(error) = stored {
            self.call.print_note(&format!("the approval counts for this run only: {error:#}"));
        }
    }
}

/// Asks on the terminal until there is an answer. What was typed before the question does not count.
fn ask_on_terminal(tty: &mut Tty, action: &Action, context: &RunContext<'_>) -> Answer {
    let mut shows_all = false;
    loop {
        let (columns, has_colours) = tty.look();
        let diff = preview(action, context);
        let folder = escape_name(context.folder.as_os_str().as_encoded_bytes());
        let head = format!("nagent asks: {} in {folder}", question_text(action));
        let mut text = if has_colours {
            format!("\x1b[7m {head} \x1b[0m\n")
        } else {
            format!("{}\n{head}\n", "-".repeat(columns.min(72)))
        };
        for row in action_rows(action, diff.as_deref(), columns, shows_all) {
            let code = row.style.code().filter(|_| has_colours);
            match code {
                Some(code) => text.push_str(&format!("\x1b[{code}m{}\x1b[0m\n", row.text)),
                None => text.push_str(&format!("{}\n", row.text)),
            }
        }
        tty.write(&text);
        tty.forget_input();
        let edits = if approve::body(action).is_some() { ", e edits it" } else { "" };
        tty.write(&format!(
            "y once, a always this in this folder{edits}, n REASON or Enter for no: "
        ));
        let Some(line) = tty.read_line(context.interrupts) else {
            tty.write("\n");
            return Answer::no("the user gave no answer");
        };
        let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        match word.to_lowercase().as_str() {
            "y" | "yes" => return Answer { decision: Decision::Allow, is_for_good: false },
            "a" | "always" => return Answer { decision: Decision::Allow, is_for_good: true },
            "" | "n" | "no" => return Answer::no(refusal(reason)),
            "v" => shows_all = true,
            "e" => match edit_action(action) {
                Ok(action) => {
                    return Answer { decision: Decision::Replace(action), is_for_good: false };
                }
                Err(why) => tty.write(&format!("{}\n", escape_line(&why, 400))),
            },
            _ => tty.write("that is not an answer\n"),
        }
    }
}

fn refusal(reason: &str) -> String {
    match reason.trim() {
        "" => "the user said no".to_owned(),
        reason => format!("the user said no: {reason}"),
    }
}

/// The action that its user makes of it in the editor: what is saved is what runs.
fn edit_action(action: &Action) -> Result<Action, String> {
    let body = approve::body(action).ok_or("there is nothing to edit")?;
    let saved = tty::edit_text(body).map_err(|error| format!("{error:#}"))?;
    // Editors end a file in a line feed.
    let saved = if body.ends_with('\n') { saved } else { saved.trim_end_matches('\n').to_owned() };
    if saved.trim().is_empty() && !matches!(action, Action::Write { .. }) {
        return Err("nothing was left of it; n is no".to_owned());
    }
    approve::with_body(action, saved).ok_or_else(|| "there is nothing to edit".to_owned())
}

/// The change that a write or an edit would make. `None` where that cannot be said: then it is shown as it was sent.
fn preview(action: &Action, context: &RunContext<'_>) -> Option<String> {
    let (Action::Write { path, .. } | Action::Edit { path, .. }) = action else { return None };
    let path = context.folder.join(path);
    let before = fs::read_bytes(&path, limits::KEPT_CONTENT).ok()?;
    let after = match action {
        Action::Write { text, .. } => text.clone(),
        Action::Edit { blocks, all, .. } => {
            let text = String::from_utf8(before.clone().unwrap_or_default()).ok()?;
            let apply = if *all { apply::apply_everywhere } else { apply::apply };
            apply(&text, &edit::parse(blocks).ok()?).ok()?.text
        }
        _ => return None,
    };
    let (before, after) =
        (FileVersion::from_bytes(before), FileVersion::from_bytes(Some(after.into_bytes())));
    let diff = FileChange { path: &path, before: &before, after: &after }.text_diff()?;
    (!diff.is_cut).then_some(diff.text)
}

/// A line on the input of `--lines`: the answer to the question about action `n`. `None`: there is nobody any more.
fn read_decision(n: u64, interrupts: &Interrupts) -> Option<Answer> {
    let fail = |why: String| {
        Some(Answer { decision: Decision::Fail(format!("--lines: {why}")), is_for_good: false })
    };
    let input = match stdin::read_line(interrupts) {
        Ok(Ok(input)) => input,
        Ok(Err(_)) => return None,
        Err(error) => return fail(format!("{error:#}")),
    };
    let mut lines = input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let line = lines.next()?;
    let decision: DecisionLine = match serde_json::from_slice(line) {
        Ok(decision) => decision,
        Err(error) => {
            return fail(format!(
                "action {n} waits for {{\"decide\": {n}, \"allow\": BOOL}} on stdin: {error}"
            ));
        }
    };
    if decision.decide != n || lines.next().is_some() {
        return fail(format!("action {n} waits for a decision, and for no other"));
    }
    if !decision.allow {
        return Some(Answer::no(refusal(decision.reason.as_deref().unwrap_or_default())));
    }
    Some(Answer { decision: Decision::Allow, is_for_good: decision.always.unwrap_or(false) })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionLine {
    decide: u64,
    allow: bool,
    reason: Option<String>,
    always: Option<bool>,
}
