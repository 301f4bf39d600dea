//! Decides what the segments make of the source. Nothing is written here.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::edits::{
    Edits, SegmentExtent, hash_file, inconsistent_index, read_metadata, read_part, read_whole,
};
use super::open::OpenSplit;
use super::request::PatchOptions;
use super::segment_diff::diff_segments;
use conversation::format::harmless::quote_name;
use conversation::format::index::Index;
use conversation::problem::Problem;
use edits::diff::file_diff::unified_diff;
use edits::diff::lines::count_line_feeds;
use edits::diff::merge::{Conflict, merge_lines};
use sys::fs::sha256;
use sys::names::name_some;

#[derive(Debug)]
pub(super) enum NewSource {
    Same,
    /// The source as it is, with the edited segments in place of their old text.
    WithEdits,
    Text(Vec<u8>),
}

/// What the segments make of the source.
#[derive(Debug)]
pub(super) struct PatchOutcome {
    pub(super) new_source: NewSource,
    pub(super) sha256: String,
    /// The patch; `None` if the source does not change.
    pub(super) patch: Option<Vec<u8>>,
    /// The segments as the next index describes them.
    pub(super) extents: Vec<SegmentExtent>,
    pub(super) rewrites: Vec<(usize, Vec<u8>)>,
    /// Changes of the source were merged with the edits.
    pub(super) merged: bool,
    /// The source had the edits already: an earlier run was killed before it had written the index.
    pub(super) recovered: bool,
    /// The source has text that exists nowhere else.
    pub(super) keeps_previous: bool,
}

/// What an [`PatchOutcome`] is made from.
pub(super) struct Inputs<'a> {
    pub(super) options: &'a PatchOptions<'a>,
    pub(super) split: &'a OpenSplit,
    pub(super) source: &'a File,
    pub(super) name: &'a [u8],
    pub(super) edits: &'a Edits,
}

impl Inputs<'_> {
    /// Decides between a plain patch, recovery from a killed run, a merge, and an overwrite.
    pub(super) fn decide(&self) -> Result<PatchOutcome, Problem> {
        if self.edits.matches_source {
            return self.apply_edits();
        }
        let sha256 = hash_file(self.source)?;
        self.check_size(self.source, &sha256)?;
        // An earlier run was killed between the source and the index: only the rest is to be written.
        if sha256 == self.edits.joined_sha256 {
            return Ok(PatchOutcome { recovered: true, ..self.outcome(NewSource::Same, None) });
        }
        let original = self.split.folder.open_file(&self.split.original).ok().flatten();
        if let Some(original) = &original {
            self.check_size(original, &hash_file(original)?)?;
            if read_metadata(self.source)?.nlink() > 1 && self.is_torn(original)? {
                return Ok(PatchOutcome { recovered: true, ..self.overwrite()? });
            }
        }
        if self.options.merge {
            self.merge(original)
        } else if self.options.force {
            Ok(PatchOutcome { keeps_previous: true, ..self.overwrite()? })
        } else {
            Err(self.source_has_changed()?)
        }
    }

    fn outcome(&self, new_source: NewSource, patch: Option<Vec<u8>>) -> PatchOutcome {
        let segments = self.edits.segments.iter();
        let rewrites = segments.clone().enumerate().filter(|(_, segment)| segment.gets_ending);
        PatchOutcome {
            new_source,
            sha256: self.edits.joined_sha256.clone(),
            patch,
            extents: segments.map(|segment| segment.extent.clone()).collect(),
            rewrites: rewrites
                .filter_map(|(at, segment)| Some((at, segment.edited.clone()?)))
                .collect(),
            merged: false,
            recovered: false,
            keeps_previous: false,
        }
    }

    /// The source is what was split.
    fn apply_edits(&self) -> Result<PatchOutcome, Problem> {
        if self.edits.joined_sha256 == self.split.index.source_sha256 {
            return Ok(self.outcome(NewSource::Same, None));
        }
        let patch = diff_segments(self.name, self.source, &self.split.index.segments, self.edits)?;
        Ok(self.outcome(NewSource::WithEdits, patch))
    }

    /// The segments replace whatever is in the source.
    fn overwrite(&self) -> Result<PatchOutcome, Problem> {
        let (ours, _) = self.join_segments()?;
        let patch = unified_diff(self.name, &read_whole(self.source)?, &ours);
        Ok(self.outcome(NewSource::Text(ours), patch))
    }

    /// Fails if what was split has another size than listed: the index has lost entries, whose text would count as removed.
    fn check_size(&self, file: &File, sha256: &str) -> Result<(), Problem> {
        let (size, listed) = (read_metadata(file)?.len(), self.split.index.source_size_bytes);
        if size == listed || sha256 != self.split.index.source_sha256 {
            return Ok(());
        }
        Err(inconsistent_index(&format!(
            "source_sha256 belongs to a file of {size} bytes, but source_size_bytes is {listed}"
        )))
    }

    /// Whether a killed run left the source half written: it begins like the new one and ends like the old one. Only a source
    /// with several hard links is written in place. After a power cut the halves may be mixed otherwise; then the copy in
    /// `.before` helps.
    fn is_torn(&self, original: &File) -> Result<bool, Problem> {
        let source = read_whole(self.source)?;
        let (new, _) = self.join_segments()?;
        let old = read_whole(original)?;
        let written = source.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let is_end_old = match old.get(written..) {
            Some(rest) => &source[written..] == rest,
            None => written == source.len(),
        };
        Ok(written > 0 && is_end_old && sha256(&old) == self.split.index.source_sha256)
    }

    /// Returns the text of all segments together, and where each of them ends in it.
    fn join_segments(&self) -> Result<(Vec<u8>, Vec<usize>), Problem> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for (at, segment) in self.edits.segments.iter().enumerate() {
            match &segment.edited {
                Some(edited) => text.extend_from_slice(edited),
                None => text.append(&mut read_whole(&self.split.open_segment(at)?)?),
            }
            ends.push(text.len());
        }
        if sha256(&text) != self.edits.joined_sha256 {
            let why = "a segment was changed while it was read; nothing was changed, run the same command again";
            return Err(Problem::failed(why));
        }
        Ok((text, ends))
    }

    fn merge(&self, original: Option<File>) -> Result<PatchOutcome, Problem> {
        let base = self.read_base(original)?;
        let theirs = read_whole(self.source)?;
        let (ours, ends) = self.join_segments()?;
        let merged = merge_lines(&base, &ours, &theirs, &ends)
            .map_err(|conflicts| self.conflict(&base, &conflicts))?;
        let (mut extents, mut rewrites) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (at, end) in merged.ends.iter().enumerate() {
            let text = merged.text.get(start..*end).unwrap_or_default();
            let extent = SegmentExtent::new(text, sha256(text));
            if extent.sha256 != self.edits.segments[at].file_sha256 {
                rewrites.push((at, text.to_vec()));
            }
            extents.push(extent);
            start = *end;
        }
        let patch = unified_diff(self.name, &theirs, &merged.text);
        let sha256 = sha256(&merged.text);
        let outcome = self.outcome(NewSource::Text(merged.text), patch);
        Ok(PatchOutcome { sha256, extents, rewrites, merged: true, ..outcome })
    }

    fn read_base(&self, original: Option<File>) -> Result<Vec<u8>, Problem> {
        let refuse = |why: &str| {
            let path = quote_name(self.split.original_path());
            Problem::failed(format!(
                "cannot merge: the kept original {path} {why}; split the source again, or use --force to overwrite the source \
                 with the segments"
            ))
        };
        let file = original.ok_or_else(|| refuse("is missing"))?;
        let base = read_whole(&file)?;
        let index = &self.split.index;
        if sha256(&base) != index.source_sha256 {
            return Err(refuse("is not what was split"));
        }
        for entry in &index.segments {
            if sha256(&read_part(&file, entry.start_byte, entry.end_byte)?) != entry.sha256 {
                return Err(refuse("does not match the index"));
            }
        }
        Ok(base)
    }

    fn conflict(&self, base: &[u8], conflicts: &[Conflict]) -> Problem {
        let place = |range: &Conflict| {
            let first = count_line_feeds(&base[..range.start]) + 1;
            let last = count_line_feeds(&base[..range.end.saturating_sub(1).max(range.start)]) + 1;
            let segments = &self.split.index.segments;
            let segment = segments.iter().find(|segment| (range.start as u64) < segment.end_byte);
            let number = segment.map_or(segments.len(), |segment| segment.segment_index);
            match last {
                last if last > first => format!("segment {number}, lines {first}-{last}"),
                _ => format!("segment {number}, line {first}"),
            }
        };
        let places: Vec<String> = conflicts.iter().map(place).collect();
        Problem::failed(format!(
            "the source and the segments changed the same lines ({}; line numbers of the kept original), so nothing was \
             changed; copy the lines of {} into the segments and use --merge again, or overwrite the source with --force",
            name_some(&places, 10, "; "),
            quote_name(&self.split.index.source_path)
        ))
    }

    fn source_has_changed(&self) -> Result<Problem, Problem> {
        let (then, now) = (self.split.index.source_size_bytes, read_metadata(self.source)?.len());
        let what = if then == now {
            let segments = self.edits.segments.iter().enumerate();
            let changed = segments.filter(|(_, segment)| !segment.is_in_source);
            let numbers: Vec<String> = changed.map(|(at, _)| (at + 1).to_string()).collect();
            format!("in segment {}", name_some(&numbers, 10, ", "))
        } else {
            format!("it had {then} bytes, now {now}")
        };
        Ok(Problem::failed(format!(
            "{} has changed since it was split ({what}), so nothing was changed; --merge combines both changes, --force \
             overwrites the source with the segments and keeps a copy",
            quote_name(&self.split.index.source_path)
        )))
    }
}

pub(super) fn refresh_index(split: &OpenSplit, edits: &Edits, outcome: &PatchOutcome) -> Index {
    let mut index = split.index.clone();
    let (mut byte, mut feeds) = (0, 0);
    for (at, (segment, extent)) in index.segments.iter_mut().zip(&outcome.extents).enumerate() {
        if extent.sha256 != segment.sha256 {
            segment.summary = None;
        }
        if let Some(path) = split.segment_path(at).to_str() {
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
    }
    index.source_sha256.clone_from(&outcome.sha256);
    index.source_size_bytes = byte;
    let ends = index.segments.iter().map(|segment| segment.end_line_num);
    index.source_line_count = ends.max().unwrap_or(0);
    if !edits.matches_source || edits.segments.iter().any(|segment| segment.edited.is_some()) {
        index.summary = None;
    }
    if let Some(path) = split.original_path().to_str() {
        path.clone_into(&mut index.original_path);
    }
    index
}
