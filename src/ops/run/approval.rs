//! Asks a person about an action: on the terminal, or through the front end that follows the run with `--lines`.

use std::cell::Cell;
use std::rc::Rc;

use super::call::Call;
use super::question::{DecisionReply, ask_about_action};
use crate::drive::approval::{ApprovalRules, Approver};
use crate::drive::run_context::RunContext;
use crate::ops::setup::flags::Invocation;
use conversation::approve::{self, Approve, Decision};
use conversation::exit::Signal;
use conversation::problem::Problem;
use conversation::protocol::Action;
use conversation::reason::{Failure, Reason};
use sandbox::SandboxMode;
use sys::interrupt::Interrupts;
use sys::tty::Tty;
use sys::{clock, entry_file, stdin};
use view::event::Start;

/// The reason for the model when there is nobody to ask.
const NOBODY: &str = "this needs the user's approval, and there is no terminal to ask on";

/// The advice for the model whose command may not leave the sandbox.
const STAY: &str = "\nTell the user which command is needed outside of the sandbox, and why: they can run it themselves, or start nagent with --sandbox off, or with --write DIR for a folder";

/// The file of permanent approvals.
const FILE: &str = "approvals.json";

/// The rules of a call, and who is asked. `asked` has the number of the action that a question is about; it is 0 once something
/// starts that the user was not shown.
pub(crate) fn approval<'a>(
    call: &'a Call<'_>,
    asked: Rc<Cell<u64>>,
) -> Result<ApprovalRules<'a>, Problem> {
    let config = &call.settings.config;
    let approve = config.approve;
    let who = match () {
        () if call.which.invocation == Invocation::Delegated => Who::Nobody(
            "this needs the user's approval, which a child conversation cannot ask for\nReport it in your answer.",
        ),
        () if call.args.lines => Who::FrontEnd,
        () => Tty::open().map_or(Who::Nobody(NOBODY), Who::Terminal),
    };
    let asks = approve != Approve::None || config.sandbox != Some(SandboxMode::Off);
    let approvals = if asks { entry_file::load_entries(call.root(), FILE)? } else { Vec::new() };
    Ok(ApprovalRules {
        approve,
        has_stop_list: !call.args.dangerous,
        patterns: config.approve_allow.clone(),
        approvals,
        approver: Box::new(TerminalApprover { call, who, asked }),
    })
}

enum Who {
    Terminal(Tty),
    FrontEnd,
    /// There is nobody to ask; with the text for the model.
    Nobody(&'static str),
}

struct TerminalApprover<'a> {
    call: &'a Call<'a>,
    who: Who,
    asked: Rc<Cell<u64>>,
}

impl Approver for TerminalApprover<'_> {
    fn has_person(&self) -> bool {
        !matches!(self.who, Who::Nobody(_))
    }

    fn ask_user(&mut self, action: &Action, context: &RunContext<'_>) -> Decision {
        let (n, interrupts) = (self.asked.get(), context.interrupts);
        let reply = match &mut self.who {
            Who::Terminal(tty) => {
                let has_sandbox = context.sandbox.is_some();
                let start = Start::to_decide(n, action, &context.folder, has_sandbox);
                ask_about_action(tty, &start, interrupts, None)
            }
            Who::FrontEnd => match read_reply(n, interrupts) {
                Ok(Some(reply)) => reply,
                Ok(None) => {
                    self.who = Who::Nobody(NOBODY);
                    return Decision::Refuse(Failure::new(Reason::Declined, NOBODY));
                }
                Err(why) => return Decision::Fail(format!("--lines: {why}")),
            },
            Who::Nobody(why) => {
                let is_outside = matches!(action, Action::Shell { outside: Some(_), .. });
                let text = format!("{why}{}", if is_outside { STAY } else { "" });
                return Decision::Refuse(Failure::new(Reason::Declined, text));
            }
        };
        if reply.stop == Some(true) && interrupts.pending().is_none() {
            interrupts.raise(Signal::Int);
        }
        let reason = reply.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
        match (reply.allow, reply.text) {
            (true, None) if reply.always == Some(true) => {
                Decision::Always { first_two: reply.first_two == Some(true) }
            }
            (true, None) => Decision::Allow,
            (true, Some(text)) => {
                self.asked.set(0);
                let mut other = action.clone();
                match approve::body_mut(&mut other).map(|body| *body = text) {
                    Some(()) => Decision::Replace(other),
                    None => {
                        Decision::Refuse("the user sent a text for an action that has none".into())
                    }
                }
            }
            (false, _) => {
                let said = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                let text = format!("the user said no{said}");
                Decision::Refuse(Failure::new(Reason::Declined, text))
            }
        }
    }

    fn store(
        &mut self,
        action: &Action,
        folder: &str,
        first_two: bool,
    ) -> approve::StandingApproval {
        let (root, interrupts) = (self.call.root(), &self.call.interrupts);
        let approval = approve::StandingApproval::new(action, folder, clock::now(), first_two);
        let add = |all: &mut Vec<_>| all.push(approval.clone());
        if let Err(error) = entry_file::update_entries(root, FILE, interrupts, add) {
            self.call.print_note(&format!("the approval counts for this run only: {error:#}"));
        }
        approval
    }
}

/// Reads a line of the input of `--lines`: the answer to the question about action `n`. `None`: the front end is gone.
fn read_reply(n: u64, interrupts: &Interrupts) -> Result<Option<DecisionReply>, String> {
    let input = match stdin::read_line(interrupts) {
        Ok(Ok(input)) => input,
        Ok(Err(_)) => return Ok(None),
        Err(error) => return Err(format!("{error:#}")),
    };
    let mut lines = input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let Some(line) = lines.next() else { return Ok(None) };
    let reply: DecisionReply = serde_json::from_slice(line).map_err(|error| {
        format!("action {n} waits for {{\"decide\": {n}, \"allow\": BOOL}} on stdin: {error}")
    })?;
    if reply.decide != n || lines.next().is_some() {
        return Err(format!("action {n} waits for a decision: a single line with \"decide\": {n}"));
    }
    Ok(Some(reply))
}
