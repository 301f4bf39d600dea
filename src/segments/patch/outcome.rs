//! What the segments make of a source: unchanged, it gets their edits; changed, it is merged with them or overwritten.
//!
//! Nothing is written here.

use super::content::whole;
use super::examine::{self, Extent, Found};
use super::{Failure, Source, Task, hunks, split};
use crate::diff::file_diff;
use crate::diff::lines::count_line_feeds;
use crate::diff::merge;
use crate::format::index::Index;
use crate::sys::names::shown;
use crate::sys::replace::Keep;

/// What the segments make of the source.
pub(super) struct Outcome {
    /// The patch, when the source changes.
    pub(super) patch: Option<Vec<u8>>,
    /// The segments as the next index describes them.
    pub(super) extents: Vec<Extent>,
    /// The hash of the new source.
    pub(super) whole: String,
    /// The new source, where it is not made of the old one and the edited segments.
    pub(super) text: Option<Vec<u8>>,
    /// The segments that get another text, by their place.
    pub(super) rewrites: Vec<(usize, Vec<u8>)>,
    pub(super) merged: bool,
    /// The source has content that nothing else holds.
    pub(super) keep: Keep,
}

impl Task<'_, '_> {
    /// The source is what was split.
    pub(super) fn plain(
        &self,
        name: &[u8],
        source: &Source,
        found: &Found,
    ) -> Result<Outcome, Failure> {
        let split = &self.split;
        let mut text = |at: usize| examine::text(split, at, &found.pieces[at]);
        let patch = if found.whole == split.index.source_sha256 {
            None
        } else {
            hunks::of_segments(name, &source.file, &split.index.segments, found, &mut text)?
        };
        let mut rewrites = Vec::new();
        if !self.is_dry {
            for (at, piece) in found.pieces.iter().enumerate() {
                if !piece.ending.is_empty() {
                    rewrites.push((at, text(at)?));
                }
            }
        }
        Ok(Outcome {
            patch,
            extents: found.pieces.iter().map(|piece| piece.extent.clone()).collect(),
            whole: found.whole.clone(),
            text: None,
            rewrites,
            merged: false,
            keep: Keep::InPlace,
        })
    }

    /// All that the segments stand for, and where each of them ends in it.
    fn joined(&self, found: &Found) -> Result<(Vec<u8>, Vec<usize>), Failure> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for (at, piece) in found.pieces.iter().enumerate() {
            self.hooks.go_on()?;
            text.append(&mut examine::text(&self.split, at, piece)?);
            ends.push(text.len());
        }
        Ok((text, ends))
    }

    /// The source has changed, and is put together with what was edited.
    pub(super) fn merge(
        &self,
        name: &[u8],
        source: &Source,
        found: &Found,
    ) -> Result<Outcome, Failure> {
        let base = self.base()?;
        let theirs = whole(&source.file)?;
        let (ours, ends) = self.joined(found)?;
        self.hooks.go_on()?;
        let merged = merge::merge_lines(&base, &ours, &theirs, &ends)
            .map_err(|conflicts| self.conflict(&base, &conflicts))?;
        let mut result = Outcome {
            patch: file_diff::unified_diff(name, &theirs, &merged.text),
            extents: Vec::new(),
            whole: split::Hash::of(&merged.text),
            text: None,
            rewrites: Vec::new(),
            merged: true,
            keep: Keep::InPlace,
        };
        let mut start = 0;
        for (at, end) in merged.ends.iter().enumerate() {
            let text = merged.text.get(start..*end).unwrap_or_default();
            let extent = Extent::of(text);
            if extent.sha256 != found.pieces[at].found {
                result.rewrites.push((at, text.to_vec()));
            }
            result.extents.push(extent);
            start = *end;
        }
        result.text = Some(merged.text);
        Ok(result)
    }

    /// The kept original, which must be what was split.
    fn base(&self) -> Result<Vec<u8>, Failure> {
        let path = self.split.folder.path().join(&self.split.original);
        let refuse = |why: &str| {
            Failure::Refused(format!(
                "cannot merge: the kept original {} {why}; split the source again, or overwrite what changed in it with --force",
                shown(&path)
            ))
        };
        let file =
            self.split.folder.read(&self.split.original)?.ok_or_else(|| refuse("is missing"))?;
        let base = whole(&file)?;
        let index = &self.split.index;
        if split::Hash::of(&base) != index.source_sha256 {
            return Err(refuse("is not what was split"));
        }
        // What an index does not list would be taken for removed.
        let part = |range: (u64, u64)| {
            base.get(usize::try_from(range.0).ok()?..usize::try_from(range.1).ok()?)
        };
        let is_whole = base.len() as u64 == index.source_size_bytes
            && index.segments.iter().all(|entry| {
                let part = part((entry.start_byte, entry.end_byte));
                part.is_some_and(|part| split::Hash::of(part) == entry.sha256)
            });
        if is_whole { Ok(base) } else { Err(refuse("is not what the index says of it")) }
    }

    fn conflict(&self, base: &[u8], conflicts: &[merge::Conflict]) -> Failure {
        let places: Vec<String> = conflicts
            .iter()
            .take(10)
            .map(|range| {
                let first = count_line_feeds(&base[..range.start]) + 1;
                let last =
                    count_line_feeds(&base[..range.end.saturating_sub(1).max(range.start)]) + 1;
                let number = self.split.index.segments.iter().find(|segment| {
                    (range.start as u64) < segment.end_byte
                        || segment.segment_index == self.split.segments.len()
                });
                let number = number.map_or(0, |segment| segment.segment_index);
                let lines = if last > first {
                    format!("lines {first}-{last}")
                } else {
                    format!("line {first}")
                };
                format!("segment {number}, {lines}")
            })
            .collect();
        let more = conflicts.len().saturating_sub(10);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Failure::Refused(format!(
            "the source and the segments were changed in the same places ({}{more}; lines as they were split), so nothing was touched; \
             take over what {} has there into the segments, then give --merge again, or --force to overwrite the source",
            places.join("; "),
            shown(&self.split.index.source_path)
        ))
    }

    /// The source has changed, and is overwritten.
    pub(super) fn overwrite(
        &self,
        name: &[u8],
        source: &Source,
        found: &Found,
    ) -> Result<Outcome, Failure> {
        let theirs = whole(&source.file)?;
        let (ours, _) = self.joined(found)?;
        let rewrites =
            found.pieces.iter().enumerate().filter(|(_, piece)| !piece.ending.is_empty());
        let rewrites = rewrites
            .map(|(at, piece)| Ok((at, examine::text(&self.split, at, piece)?)))
            .collect::<Result<_, Failure>>()?;
        Ok(Outcome {
            patch: file_diff::unified_diff(name, &theirs, &ours),
            extents: found.pieces.iter().map(|piece| piece.extent.clone()).collect(),
            whole: found.whole.clone(),
            text: Some(ours),
            rewrites,
            merged: false,
            keep: Keep::Always,
        })
    }

    pub(super) fn source_has_changed(&self, source: &Source, found: &Found) -> Failure {
        let parts: Vec<String> = found
            .pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| !piece.same)
            .map(|(at, _)| (at + 1).to_string())
            .collect();
        let (then, now) = (
            self.split.index.source_size_bytes,
            source.file.metadata().map_or(0, |metadata| metadata.len()),
        );
        let what = if then == now {
            let more = if parts.len() > 10 { ", …" } else { "" };
            let few = parts.get(..parts.len().min(10)).unwrap_or_default().join(", ");
            format!("the part of segment {few}{more} is another")
        } else {
            format!("{then} bytes then, {now} now")
        };
        Failure::Refused(format!(
            "{} has changed since it was split ({what}), so nothing was touched; --merge puts both changes together, \
             --force overwrites it with the segments and keeps a copy",
            shown(&source.path)
        ))
    }

    /// The index after the run.
    pub(super) fn refreshed(&self, found: &Found, result: &Outcome) -> Index {
        let mut index = self.split.index.clone();
        let (mut byte, mut feeds) = (0, 0);
        let mut is_open = false;
        for (at, (segment, extent)) in index.segments.iter_mut().zip(&result.extents).enumerate() {
            if extent.sha256 != segment.sha256 {
                segment.summary = None;
            }
            if let Some(path) = self.split.path(at).to_str() {
                path.clone_into(&mut segment.path);
            }
            segment.start_byte = byte;
            segment.start_line_num = feeds + 1;
            byte += extent.bytes;
            feeds += extent.line_feeds;
            segment.end_byte = byte;
            segment.end_line_num = match extent.bytes {
                0 => segment.start_line_num - 1,
                _ => feeds + u64::from(!extent.ends_line),
            };
            segment.sha256.clone_from(&extent.sha256);
            is_open = if extent.bytes == 0 { is_open } else { !extent.ends_line };
        }
        index.source_sha256.clone_from(&result.whole);
        index.source_size_bytes = byte;
        index.source_line_count = feeds + u64::from(is_open);
        if found.pieces.iter().any(|piece| piece.edited) || !found.source_is_same {
            index.summary = None;
        }
        if let Some(path) = self.split.folder.path().join(&self.split.original).to_str() {
            path.clone_into(&mut index.original_path);
        }
        index
    }
}
