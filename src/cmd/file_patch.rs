//! `nagent-file-patch`: edited segments back into their source, through a patch file.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::cli::Tool;
use crate::ops::file_conversation::file_boundary;
use crate::ops::find_root::find_root;
use crate::ops::spinner::Spinner;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::segments::patch::{PatchHooks, PatchOptions, PatchReport, find_source, patch};
use crate::sys::env::Env;
use crate::sys::fs;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::shown;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-patch --index parts/index.json
  nagent-file-patch --index parts/index.json --dry-run

Exit codes: 0 done, 1 it cannot be done and nothing was changed, 2 wrong usage";

/// Put edited segments of a file back into the file that nagent-file-split cut
///
/// Writes a patch that `git apply` and `patch -p1` take, then the source, then the index, so that segments can be edited
/// and put back again and again. Prints the path of the patch, or nothing if nothing has changed. After a kill, the same
/// command finishes the work. To remove the text of a segment, empty the file; a missing file is an error.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Args {
    /// The index.json of the split
    #[arg(long, value_name = "FILE")]
    index: PathBuf,
    /// The file that the index names: needed where it is outside of the working folder
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Write the patch here instead of beside the index
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// Write the patch and nothing else
    #[arg(long)]
    dry_run: bool,
    /// Write the patch and nothing else; the same as --dry-run
    #[arg(long)]
    no_apply: bool,
    /// Merge the edits with the changes of a source that has changed since the split
    ///
    /// Changes of the same or adjacent lines are an error that names them, and nothing is written.
    #[arg(long)]
    merge: bool,
    /// Overwrite a source that has changed since the split, and accept segments that look lost or renamed
    ///
    /// Without --force and --merge such a source is an error. Its previous content is kept beside the index as NAME.before.
    /// A segment that is empty but was not changed since the index was written was lost in a crash; with --force its text is
    /// removed from the source. With --merge as well, changes are merged.
    #[arg(long)]
    force: bool,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-patch";
    const DESCRIPTION: &'static str = "Puts edited segments of a large file back into that file. Split the file with \
        nagent-file-split, edit the segment files in place (empty one to remove its text, never delete one), then call \
        nagent-file-patch --index INDEX.JSON. It writes a patch and prints its path, replaces the source, and refreshes \
        the index, so that more edits can follow; nothing is printed when nothing changed. --dry-run writes the patch \
        alone. When the source was changed elsewhere meanwhile it stops: --merge puts both changes together. Exit codes: \
        0 done, 1 it cannot be done and nothing was changed, 2 wrong usage.";

    fn run(self) -> Result<Report, Problem> {
        patch_file(&self).map(|patched| report(&patched))
    }
}

fn patch_file(args: &Args) -> Result<PatchReport, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let (index, source) = find_source(&env.absolute_path(&args.index)?)?;
    check_source(args, &env, &source)?;
    let patch_path = args.patch.as_deref().map(|path| env.absolute_path(path)).transpose()?;
    let root = find_root(None, &env)?.0;
    // A source that is not written need not be writable.
    let target = if args.dry_run || args.no_apply { &index } else { &source };
    let mut boundary = file_boundary(&env, &root, target)?;
    // Both were named by the user. Nothing is written there but the split and the patch.
    let named = [Some(index.as_path()), patch_path.as_deref()];
    for folder in named.into_iter().flatten().filter_map(Path::parent) {
        boundary.allow_splits(folder);
    }
    let options = PatchOptions {
        index: &index,
        patch: patch_path.as_deref(),
        dry_run: args.dry_run || args.no_apply,
        force: args.force,
        merge: args.merge,
    };
    let spinner = Spinner::new(true);
    spinner.start("patch");
    let hooks = PatchHooks {
        interrupts: &interrupts,
        keep: None,
        progress: &mut |done, all| spinner.show_progress(done, all, None),
    };
    patch(&options, &mut boundary, hooks)
}

/// Checks that the user agrees to the file that is written: the index, which somebody else may have made, names it.
fn check_source(args: &Args, env: &Env, source: &Path) -> Result<(), Problem> {
    // What is missing or not a file is refused later, with its own message.
    let real = fs::real_path(source).filter(|real| real.is_file());
    let Some(real) = real else { return Ok(()) };
    let named = args.source.as_deref().map(|path| env.absolute_path(path)).transpose()?;
    let folder = env.current_folder()?;
    let is_inside = || fs::real_path(&folder).is_some_and(|folder| real.starts_with(folder));
    let is_agreed = match named {
        Some(named) => fs::real_path(&named).as_ref() == Some(&real),
        None => args.dry_run || args.no_apply || is_inside(),
    };
    if is_agreed {
        return Ok(());
    }
    let shown = shown(source);
    Err(Problem::failed(format!(
        "the index names the file {shown}, which is not the one of --source, or is outside of the working folder; if it is \
         the one, add --source {shown}"
    )))
}

fn report(patched: &PatchReport) -> Report {
    for note in &patched.notes {
        out::line(&format!("nagent-file-patch: note: {note}"));
    }
    if !patched.changed && !patched.recovered && !patched.merged {
        out::line("no changes");
    }
    let path = |path: &Path| path.display().to_string();
    let patch_path = patched.patch_path.as_deref().map(path);
    Report::done(patch_path.clone().unwrap_or_default())
        .with("changed", patched.changed)
        .with("applied", patched.applied)
        .with("source_path", path(&patched.source_path))
        .with("index_path", path(&patched.index_path))
        .with("patch_path", patch_path)
        .with("source_sha256", patched.source_sha256.as_str())
        .with("edited", patched.edited.clone())
        .with("merged", patched.merged)
        .with("mended", patched.recovered)
        .with("previous_path", patched.previous_path.as_deref().map(path))
        .with("notes", patched.notes.clone())
}
