//! Writes the status of a run while it runs, for `nagent-status` and `nagent-message`: its turn, action and figures.

use super::commands::Commands;
use super::progress_event::{OutputNow, ProgressEvent};
use super::run_context::RunContext;
use super::runner::Runner;
use conversation::format::harmless;
use conversation::protocol::{Access, Action};
use conversation::turn::event::{Effect, Event, Totals};
use sys::clock;
use sys::run_note::Activity;
use view::event::describe_target;

/// Maximum length of a line in the note, in characters.
const LINE: usize = 200;

impl Runner<'_> {
    /// Records the next effect in the run note, if it takes time.
    pub(super) fn note_effect(&mut self, effect: &Effect, totals: &Totals) {
        let action = match effect {
            Effect::Ask => "model".to_owned(),
            Effect::Wait { .. } => "waits to ask again".to_owned(),
            Effect::Decide(_) => "asks the user".to_owned(),
            Effect::Act(actions) => match actions.as_slice() {
                [action] => describe_action(action),
                several => format!("{} conversations", several.len()),
            },
            Effect::AfterWrite => "after-write".to_owned(),
            Effect::Check(_) => "check".to_owned(),
            Effect::Receive | Effect::Done(_) => "ends".to_owned(),
            _ => return,
        };
        let action = self.context.redactor.redact_text(action).0;
        let turn = totals.turns + u64::from(matches!(effect, Effect::Ask));
        let old = &self.activity;
        let is_same = old.action == action && old.turn == turn;
        // A command has not printed anything yet.
        let is_command = match effect {
            Effect::Act(actions) => actions.iter().any(|action| action.access() == Access::Run),
            effect => matches!(effect, Effect::AfterWrite | Effect::Check(_)),
        };
        let since = if is_same { old.since.clone() } else { clock::now() };
        self.activity = Activity {
            parent: self.children.parent().map(str::to_owned),
            cwd: self.context.folder.display().to_string(),
            turn,
            action,
            since,
            tokens_in: totals.all.input,
            tokens_out: totals.all.output,
            cost: (!totals.unpriced || totals.cost > 0.0).then_some(totals.cost),
            last_line: if is_command { String::new() } else { old.last_line.clone() },
        };
        self.conversation.set_activity(self.activity.clone());
    }

    /// Notes the last line of an event; it is written with the next activity.
    pub(super) fn note_event(&mut self, event: &Event) {
        let text = match event {
            Event::Acted(acted) => acted.block.body.as_deref(),
            Event::Checked { block, .. } | Event::AfterWriteEnded(block) => block.body.as_deref(),
            _ => None,
        };
        self.note_last_line(text.unwrap_or_default());
    }

    /// Runs a command with what `run` gives it: its output is shown and noted while it comes.
    pub(super) fn run_observed<T>(
        &mut self,
        run: impl FnOnce(&Commands, &RunContext<'_>, &mut dyn FnMut(&OutputNow)) -> T,
    ) -> T {
        let Self { commands, context, conversation, activity, on_progress, .. } = self;
        run(commands, context, &mut |output| {
            on_progress(ProgressEvent::Output(output));
            let lines = output.open.iter().chain(output.lines.iter().rev());
            if let Some(line) = lines.map(|line| line.trim()).find(|line| !line.is_empty()) {
                activity.last_line = harmless::truncate(line, LINE);
                conversation.set_activity(activity.clone());
            }
        })
    }

    /// Notes the last line of a text.
    pub(super) fn note_last_line(&mut self, text: &str) {
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            let line = self.context.redactor.redact_text(line.to_owned()).0;
            self.activity.last_line = harmless::truncate(line.trim(), LINE);
        }
    }
}

/// `nagent-shell: make test`, `nagent-edit: src/main.rs`
fn describe_action(action: &Action) -> String {
    let (attributes, body) = action.attributes_and_body();
    let target = match action {
        Action::Shell { .. } => body.trim().lines().next().unwrap_or_default().to_owned(),
        _ => describe_target(action.tag_name(), &attributes),
    };
    let tag = action.tag_name();
    let text = if target.is_empty() { tag.to_owned() } else { format!("{tag}: {target}") };
    harmless::truncate(&text, LINE)
}
