//! Which files a model may name as targets of conversations of their own while walls stand. It builds nothing.

use std::path::Path;

use super::ground::{Ground, Kind, Writable};
use super::{Missing, Places};
use crate::sandbox::{Mode, Wanted, protected};

/// Whether a file that a model named may become the target of a conversation of its own: with walls it may be what commands
/// of the conversation that named it may write, so that no tag goes where they cannot. `target` is its true path.
///
/// # Errors
/// It may not; the message says why, and which setting would allow it. Or the folders cannot be looked up.
pub fn permit_target(wanted: &Wanted, places: Places<'_>, target: &Path) -> Result<(), Missing> {
    if wanted.mode == Mode::Off {
        return Ok(());
    }
    let ground = Ground::look(wanted, Places { per_file: false, ..places })?;
    let mut within =
        ground.writable.iter().filter(|writable| target.starts_with(&writable.path)).peekable();
    let mode = wanted.mode.name();
    let path = target.display();
    if within.peek().is_none() || ground.hidden.iter().any(|hidden| target.starts_with(hidden)) {
        return Err(Missing(format!(
            "{path} is outside of what the sandbox ({mode}) lets a model change; --write DIR adds a folder"
        )));
    }
    let is_protected = |writable: &Writable| {
        let below = target.strip_prefix(&writable.path).unwrap_or(target);
        writable.kind != Kind::Temp && below.iter().any(protected::is_protected)
    };
    if within.any(is_protected) || ground.kept.iter().any(|kept| target.starts_with(kept)) {
        return Err(Missing(format!(
            "{path} is one of the files that tools run by themselves, which the sandbox ({mode}) keeps read-only; the user \
             can change it, or take --sandbox off"
        )));
    }
    Ok(())
}
