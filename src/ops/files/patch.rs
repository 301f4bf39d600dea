//! Puts edited segments back into their source, for `nagent-file-patch`.

use std::path::{Path, PathBuf};

use clap::ValueHint;

use super::file_conversation::file_boundary;
use super::spare_outputs;
use crate::ops::setup::find_root::find_root;
use crate::out::{self, Report};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use segments::patch::{PatchHooks, PatchOptions, PatchReport, find_source, patch};
use segments::split::index_path;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::names::refuse_link_out;

/// Put edited segments of a file back into the file that nagent-file-split cut
///
/// Writes a patch that `git apply` and `patch -p1` take, then the source, then the index, so that segments can be edited
/// and put back again and again. Prints the path of the patch, or nothing if nothing has changed. After a kill, the same
/// command finishes the work. To remove the text of a segment, empty the file; a missing file is an error.
#[derive(Debug, Clone, clap::Parser)]
pub struct PatchArgs {
    /// The folder of the split, or its index.json
    #[arg(value_name = "DIR", required_unless_present = "index", value_hint = ValueHint::AnyPath)]
    folder: Option<PathBuf>,
    /// The same as DIR
    #[arg(long, value_name = "DIR", conflicts_with = "folder", value_hint = ValueHint::AnyPath)]
    index: Option<PathBuf>,
    /// The file that the index names: needed where it is outside of the working folder
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Write the patch and nothing else
    #[arg(long)]
    dry_run: bool,
    /// Write the patch and nothing else; the same as --dry-run
    #[arg(long)]
    no_apply: bool,
}

/// Writes the patch, then the source and the index, unless only the patch is wanted.
pub fn patch_file(args: &PatchArgs) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let index = args.folder.as_ref().or(args.index.as_ref()).map(PathBuf::as_path);
    let (index, source) =
        find_source(&index_path(&env.absolute_path(index.unwrap_or(Path::new(".")))?))?;
    check_source(args, &env, &source)?;
    let root = find_root(None, &env)?.0;
    // A source that is not written need not be writable.
    let target = if args.dry_run || args.no_apply { &index } else { &source };
    let mut boundary = file_boundary(&env, &root, Some(target))?;
    boundary.allow_splits(index.parent().unwrap_or(&index));
    let options = PatchOptions { index: &index, dry_run: args.dry_run || args.no_apply };
    let stop = || interrupts.pending().is_some();
    let (outputs, spare) = (root.outputs_folder(), spare_outputs(&env));
    let mut keep =
        |file: &mut std::fs::File| fs::store_file_or(&outputs, spare.as_deref(), file, &stop);
    let hooks = PatchHooks { interrupts: &interrupts, keep: &mut keep };
    patch(&options, &mut boundary, hooks).map(|patched| report(&patched))
}

/// Checks that the user agrees to the file that is written: the index, which somebody else may have made, names it.
fn check_source(args: &PatchArgs, env: &Env, source: &Path) -> Result<(), Problem> {
    // A source that is missing or not a file is refused later, with its own message.
    let real = fs::real_path(source).filter(|real| real.is_file());
    let Some(real) = real else { return Ok(()) };
    if let Some(named) = &args.source {
        refuse_link_out(named).map_err(|why| Problem::failed(format!("--source: {why}")))?;
    }
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
    let shown = quote_name(&real);
    Err(Problem::failed(format!(
        "the index is for {shown}, which is neither in this folder nor named; to patch it, add --source {shown}"
    )))
}

fn report(patched: &PatchReport) -> Report {
    out::print_notes("nagent-file-patch", &patched.notes);
    if !patched.changed && patched.edited.is_empty() {
        out::print_line("no changes");
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
        .with("previous_path", patched.previous_path.as_deref().map(path))
        .with("notes", patched.notes.clone())
}
