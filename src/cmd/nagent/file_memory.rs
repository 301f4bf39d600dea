//! What a run of `--file-edit` tells its conversation of the file, and whether the model may be asked for it.

use std::path::Path;

use super::progress::Progress;
use super::{Call, start};
use crate::cmd::file_memory::{self, Memory, Start, Told};
use crate::context;
use crate::drive::ProgressEvent;
use crate::sys::conversation_file::ConversationFile;

/// What there is to tell; nothing in a conversation that belongs to no file. `run` are the conversation as it stands and
/// the model: without them a conversation is only begun, and nobody is asked.
pub(super) fn gather(
    call: &Call<'_>,
    run: Option<(&ConversationFile, &str)>,
    progress: &mut Progress,
) -> Memory {
    let (Some(file), Ok(folder)) = (&call.args.file_edit, &call.env.folder) else {
        return Memory::default();
    };
    let told = run.map_or_else(Told::default, |(journal, _)| {
        let sections = start::told(journal);
        let last = sections.into_iter().rev().find(|section| section.title == context::MEMORY);
        Told::new(last.map(|section| section.text), journal.pieces())
    });
    // A request for one would show the file and its commits as they are.
    let is_allowed = !call.args.no_summaries
        && !call.redacts()
        && call.settings.config.file_summaries != Some(false);
    let memory = file_memory::gather(&Start {
        tool: "nagent",
        settings: &call.settings,
        env: call.env,
        folder: folder.as_ref(),
        interrupts: call.interrupts,
        file: Path::new(file),
        model: run.map(|(_, model)| model),
        may_ask: is_allowed && run.is_some() && !call.args.show_request,
        is_shown: !call.quiet,
        told,
    });
    for note in &memory.notes {
        progress.see(ProgressEvent::Note(note));
    }
    memory
}
