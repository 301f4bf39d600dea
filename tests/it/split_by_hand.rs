//! A split that is made by hand, so that no other tool has a part in it, and `nagent-file-patch` on it.

use std::fs;
use std::path::PathBuf;

use conversation::format::index::{self, Index, Segment};
use sys::fs::sha256 as hash;

use crate::process_under_test::Run;
use crate::sandbox::{Invocation, Sandbox};

pub(crate) const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");

/// A source, its split, and the world around them.
pub(crate) struct Split {
    pub(crate) sandbox: Sandbox,
    pub(crate) source: PathBuf,
    pub(crate) folder: PathBuf,
}

pub(crate) fn line_feeds(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// Lines with a number, `lines` of them.
pub(crate) fn numbered(lines: usize) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

/// Ends of segments of so many lines.
pub(crate) fn by_lines(source: &str, lines: usize) -> Vec<usize> {
    let all: Vec<&str> = source.split_inclusive('\n').collect();
    let length = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let mut at = 0;
    all.chunks(lines)
        .map(|chunk| {
            at += length(chunk);
            at
        })
        .collect()
}

impl Split {
    /// Forty lines in four segments.
    pub(crate) fn new() -> Self {
        let text = numbered(40);
        Self::of("big.txt", text.as_bytes(), &by_lines(&text, 10))
    }

    pub(crate) fn of(name: &str, text: &[u8], ends: &[usize]) -> Self {
        Self::within(Sandbox::new(), name, text, ends)
    }

    pub(crate) fn within(sandbox: Sandbox, name: &str, text: &[u8], ends: &[usize]) -> Self {
        let source = sandbox.write(name, text);
        let folder = sandbox.work().join("split");
        fs::create_dir(&folder).unwrap();
        let split = Self { sandbox, source, folder };
        let mut start = 0;
        let mut segments = Vec::new();
        for (at, end) in ends.iter().enumerate() {
            let piece = &text[start..*end];
            fs::write(split.segment(at + 1), piece).unwrap();
            let line = line_feeds(&text[..start]) + 1;
            segments.push(Segment {
                segment_index: at + 1,
                path: split.segment(at + 1).to_str().unwrap().to_owned(),
                start_line_num: line,
                end_line_num: line_feeds(&text[..end.saturating_sub(1).max(start)]) + 1,
                start_byte: start as u64,
                end_byte: *end as u64,
                sha256: hash(piece),
                summary: None,
            });
            start = *end;
        }
        split.put_index(&Index {
            source_path: split.source.to_str().unwrap().to_owned(),
            source_sha256: hash(text),
            source_size_bytes: text.len() as u64,
            source_line_count: line_feeds(text) + u64::from(!text.ends_with(b"\n")),
            split_type: "txt".to_owned(),
            target_bytes: 32_768,
            natural: false,
            created_at: "2026-11-21T20:45:14Z".to_owned(),
            segment_count: segments.len(),
            segments,
            summary: None,
        });
        split
    }

    pub(crate) fn segment(&self, number: usize) -> PathBuf {
        self.folder.join(format!("big-{number:04}.txt"))
    }

    pub(crate) fn index_path(&self) -> PathBuf {
        self.folder.join("index.json")
    }

    pub(crate) fn index(&self) -> Index {
        index::parse(&fs::read_to_string(self.index_path()).unwrap()).unwrap()
    }

    pub(crate) fn put_index(&self, index: &Index) {
        fs::write(self.index_path(), index::format(index)).unwrap();
    }

    pub(crate) fn edit(&self, number: usize, text: impl AsRef<[u8]>) {
        fs::write(self.segment(number), text).unwrap();
    }

    pub(crate) fn cmd(&self, more: &[&str]) -> Invocation<'_> {
        let index = self.index_path().display().to_string();
        self.sandbox.program(PATCH, &[&["--index", &index], more].concat())
    }

    pub(crate) fn run(&self, more: &[&str]) -> Run {
        self.cmd(more).run()
    }

    pub(crate) fn source(&self) -> String {
        fs::read_to_string(&self.source).unwrap()
    }

    pub(crate) fn joined(&self) -> Vec<u8> {
        let count = self.index().segments.len();
        (1..=count)
            .map(|number| fs::read(self.segment(number)).unwrap())
            .collect::<Vec<_>>()
            .concat()
    }

    /// Source, index and segments agree.
    #[track_caller]
    pub(crate) fn agrees(&self) {
        let (source, index) = (fs::read(&self.source).unwrap(), self.index());
        assert_eq!(index.check(), Ok(()));
        assert_eq!(index.source_sha256, hash(&source));
        assert!(self.joined() == source, "segments are not the source");
    }

    /// New files that did not get their name. A killed run leaves them; nothing else does.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let folders = [&self.folder, self.source.parent().unwrap()];
        let entries = folders.into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| sys::temp_files::is_temp_name(name)).collect()
    }

    /// Refused with one line that holds these words, and nothing touched.
    #[track_caller]
    pub(crate) fn refuses(&self, more: &[&str], words: &[&str]) {
        let before = (fs::read(&self.source).ok(), fs::read(self.index_path()).unwrap());
        let run = self.run(more).assert_exit(1).no_stdout().stderr_has(words);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(before == (fs::read(&self.source).ok(), fs::read(self.index_path()).unwrap()));
        assert_eq!(self.left_over(), [] as [&str; 0]);
    }
}
