//! A stand-in for the splitter: it cuts at lines alone.

use std::path::{Path, PathBuf};

use crate::code::language::Language;
use crate::format::index::{self, Index, Segment};
use crate::segments::content::Encoding;
use crate::segments::summary_plan;
use crate::sys::{clock, fs, slice};

/// The size that segments have at most, in bytes.
pub const TARGET: u64 = 32 * 1024;

/// What is to be split, and how.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The file.
    pub source: &'a Path,
    /// The folder of the segments.
    pub output: &'a Path,
    /// Its type.
    pub language: Option<Language>,
    /// The size that segments have at most.
    pub target: u64,
    /// Cut at every boundary.
    pub natural: bool,
    /// Overwrite.
    pub force: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Split {
    /// The index's file.
    pub index_path: PathBuf,
    /// The index.
    pub index: Index,
    /// Notes.
    pub notes: Vec<String>,
}

/// What is asked and told on the way.
pub struct Hooks<'a> {
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Bytes done, of all.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Why not.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct Failure(#[from] anyhow::Error);

/// The folder that a split goes to where none is named.
pub fn default_folder_name(source: &Path) -> String {
    source.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Splits.
pub fn split(plan: &Plan<'_>, hooks: &mut Hooks<'_>) -> Result<Split, Failure> {
    let (size, bytes) = slice::read(plan.source, 0, u64::MAX)?;
    fs::create_private_folder(plan.output)?;
    let name = default_folder_name(plan.source);
    let original = plan.output.join(format!("{name}.orig"));
    fs::replace_lightly(&original, &bytes)?;
    let mut line = 1;
    let mut segments = Vec::new();
    for (at, range) in
        summary_plan::pieces(&bytes, plan.target, Encoding::Utf8).into_iter().enumerate()
    {
        if (hooks.stop)() {
            return Err(Failure(anyhow::anyhow!("stopped")));
        }
        let piece = &bytes[range.clone()];
        let path = plan.output.join(format!("{name}-{:04}", at + 1));
        fs::replace_lightly(&path, piece)?;
        let feeds = piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        segments.push(Segment {
            segment_index: at + 1,
            path: path.display().to_string(),
            start_line_num: line,
            end_line_num: line + feeds - u64::from(piece.ends_with(b"\n")),
            start_byte: range.start as u64,
            end_byte: range.end as u64,
            sha256: fs::hash(piece),
            summary: None,
        });
        line += feeds;
        (hooks.progress)(range.end as u64, size);
    }
    let index = Index {
        source_path: plan.source.display().to_string(),
        source_sha256: fs::hash(&bytes),
        source_size_bytes: bytes.len() as u64,
        source_line_count: line,
        split_type: plan.language.unwrap_or(Language::Text).name().to_owned(),
        target_bytes: plan.target,
        natural: plan.natural || plan.force,
        created_at: clock::now(),
        original_path: original.display().to_string(),
        segment_count: segments.len(),
        segments,
        summary: None,
    };
    let index_path = plan.output.join(index::NAME);
    fs::replace_lightly(&index_path, index::format(&index).as_bytes())?;
    Ok(Split { index_path, index, notes: Vec::new() })
}
