//! Finds the conversation that belongs to a file ([`history::file_index`]), and refuses files before a model is asked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::ops::run::call::Call;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::file_index;
use sys::boundary::{Boundary, BoundaryFolders};
use sys::env::Env;
use sys::root::Root;
use sys::{fs, names, read, root};

/// The name of the file's conversation, or a new name for one. Writes nothing.
pub(crate) fn find_conversation(call: &Call<'_>, path: &Path) -> Result<String, Problem> {
    let path = resolve_target(call, path)?;
    let entry = file_index::find_entry(call.root(), &path)?;
    Ok(entry.map_or_else(|| new_name(&path), |entry| entry.conversation))
}

/// Records in the index that this call's conversation belongs to the file of `--file-edit`, and returns the file. The call
/// gets another name where the file got a conversation meanwhile. Refuses a file that no tag could write.
pub(crate) fn claim(call: &mut Call<'_>) -> Result<Option<PathBuf>, Problem> {
    let Some(path) = &call.which.file_edit else { return Ok(None) };
    let path = resolve_target(call, path)?;
    let boundary = file_boundary(&call.env, call.root(), Some(&path))?;
    check_target(call, &boundary)?;
    let (entry, notes) =
        file_index::register(call.root(), &path, || call.name.clone(), &call.interrupts)?;
    for note in &notes {
        call.print_note(note);
    }
    if call.parents.contains(&entry.conversation) {
        return Err(Problem::usage(format!(
            "conversation {} of {} is waiting for this command",
            entry.conversation,
            quote_name(&path)
        )));
    }
    call.name = entry.conversation;
    Ok(Some(path))
}

/// The boundary of a run that may write this file alone; without one, of a run whose tags write nothing.
pub fn file_boundary(env: &Env, root: &Root, path: Option<&Path>) -> Result<Boundary, Problem> {
    let (folder, home, root) = (env.current_folder()?, env.home_folder(), root.path());
    let places =
        BoundaryFolders { cwd: &folder, toplevel: None, home: home.as_deref(), root, tmpdir: None };
    Ok(path.map_or_else(|| Ok(Boundary::for_main(places)), |it| Boundary::for_file(places, it))?)
}

/// Refuses one of nagent's own files, unless the user names it. A call from another run was named by a model; it may name the
/// working copy of a conversation that is being edited.
pub(crate) fn check_target(call: &Call<'_>, boundary: &Boundary) -> Result<(), Problem> {
    if call.parents.is_empty() || boundary.target().is_some_and(|path| is_working_copy(call, path))
    {
        return Ok(());
    }
    Ok(boundary.target_is_no_own_file()?)
}

/// A new path for a copy of the conversation that a model is to edit.
pub(crate) fn working_copy_path(call: &Call<'_>) -> PathBuf {
    let stem: String = call.name.chars().take(50).collect();
    call.root().conversation(&format!("{stem}-edit-{}", uuid::Uuid::new_v4().simple()))
}

/// Whether this is a copy of a conversation that a model is to edit: nagent made it and named it, no model did.
pub(crate) fn is_working_copy(call: &Call<'_>, path: &Path) -> bool {
    let folder = fs::real_path(&call.root().conversations());
    let id = path.file_name().and_then(|name| name.to_str()?.rsplit_once("-edit-"));
    path.parent() == folder.as_deref()
        && id.is_some_and(|(_, id)| uuid::Uuid::try_parse(id).is_ok())
}

/// Records at the end of a run which file it is now: it may have been replaced, or created.
pub(crate) fn update_index(call: &Call<'_>) {
    if let Err(error) = file_index::update_identity(call.root(), &call.name, &call.interrupts) {
        call.print_note(&Problem::from(error).message);
    }
}

/// The true path of the file that a conversation is to belong to.
pub(crate) fn resolve_target(call: &Call<'_>, path: &Path) -> Result<PathBuf, Problem> {
    let path = call.env.absolute_path(path)?;
    if call.parents.is_empty() {
        names::refuse_link_out(&path).map_err(Problem::failed)?;
    }
    if let Some(real) = fs::real_path(&path) {
        read::open_regular(&real)?;
        return Ok(real);
    }
    // As a shell leaves it.
    if path.as_os_str().as_bytes().contains(&b'*') {
        return Err(Problem::failed(format!("{} matches no file", quote_name(&path))));
    }
    // `x/` and `x/.` are no files, whatever is made there.
    let is_folder = |name: &OsStr| !path.as_os_str().as_bytes().ends_with(name.as_bytes());
    if path.file_name().is_some_and(is_folder) {
        let path = quote_name(&path);
        return Err(Problem::failed(format!("{path} is the name of a folder; name a file")));
    }
    let parent = path.parent().and_then(fs::real_path).filter(|parent| parent.is_dir());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) if !fs::exists(&parent.join(name)) => Ok(parent.join(name)),
        // A user has probably mistyped the folder; for a model it is made with the file.
        (None, Some(_)) if call.delegated && is_plain(&path) => Ok(names::resolve_links(&path)),
        (Some(_), Some(_)) => Err(Problem::failed(format!(
            "{} is a symbolic link to a file that does not exist; name the file itself",
            quote_name(&path)
        ))),
        _ => Err(Problem::failed(format!(
            "cannot create {}: no such folder{}",
            quote_name(&path),
            names::suggest_paths(&path)
        ))),
    }
}

/// Whether no part of a path leads up again, and its nearest folder that is there is one.
fn is_plain(path: &Path) -> bool {
    let has_no_up = !path.components().any(|part| part == Component::ParentDir);
    has_no_up && path.ancestors().find(|it| fs::exists(it)).is_some_and(Path::is_dir)
}

fn new_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    // Other letters become hyphens, and a name begins with a letter or a digit.
    let stem = root::name_part(&stem);
    let stem = stem.trim_start_matches(['.', '-', '_']);
    let stem = if stem.is_empty() { "file" } else { stem };
    format!("{stem}-{}", uuid::Uuid::new_v4().simple())
}
