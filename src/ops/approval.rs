//! Asks a person about an action: on the terminal, or through the front end that follows the run with `--lines`.

use std::cell::Cell;
use std::rc::Rc;

use super::call::Call;
use super::flags::Invocation;
use super::question::{Reply, ask};
use crate::approve::{self, Approval as Stored, Approve, Decision};
use crate::drive::approval::{Answer, Approval, Approver};
use crate::drive::run_context::RunContext;
use crate::problem::Problem;
use crate::protocol::Action;
use crate::sys::interrupt::Interrupts;
use crate::sys::tty::Tty;
use crate::sys::{approvals, stdin};

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
            Who::Terminal(tty) => match ask(tty, action, &context.folder, context.interrupts) {
                Reply::Once => Answer { decision: Decision::Allow, is_for_good: false },
                Reply::Always => Answer { decision: Decision::Allow, is_for_good: true },
                Reply::Edited(text) => replace(action, text),
                Reply::No(reason) => Answer::no(refusal(&reason)),
                Reply::None => Answer::no("the user gave no answer"),
            },
            Who::FrontEnd { is_gone: true, .. } | Who::Nobody => Answer::no(NOBODY),
            Who::FrontEnd { asked, is_gone } => {
                let answer = read_decision(action, asked.get(), context.interrupts);
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

/// The answer that does something else in an action's place.
fn replace(action: &Action, text: String) -> Answer {
    match approve::with_body(action, text) {
        Some(action) => Answer { decision: Decision::Replace(action), is_for_good: false },
        None => Answer::no("the user sent a text for an action that has none"),
    }
}

fn refusal(reason: &str) -> String {
    match reason.trim() {
        "" => "the user said no".to_owned(),
        reason => format!("the user said no: {reason}"),
    }
}

/// A line on the input of `--lines`: the answer to the question about action `n`. `None`: there is nobody any more.
fn read_decision(action: &Action, n: u64, interrupts: &Interrupts) -> Option<Answer> {
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
    if let (true, Some(text)) = (decision.allow, decision.text) {
        return Some(replace(action, text));
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
    /// What is done in its place: another body of the tag.
    text: Option<String>,
}
