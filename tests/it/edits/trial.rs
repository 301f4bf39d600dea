//! One edit of one file, as the truth has it and as a block says it. It is built line by line, so that the text that must
//! come out is known without looking anything up.

use conversation::format::edit::EditBlock;

/// xorshift: enough for choosing cases, and the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice for one stretch of the corpus: what is added elsewhere does not change its cases.
    pub(crate) fn for_part(name: &str) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash | 1)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % most.max(1) as u64).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// One line of an edit, in each of the four texts that may have it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Row {
    /// In the file.
    pub(crate) file: Option<String>,
    /// In the file that must come out.
    pub(crate) new: Option<String>,
    /// In the search of the block.
    pub(crate) search: Option<String>,
    /// In the replacement of the block.
    pub(crate) replace: Option<String>,
}

impl Row {
    pub(crate) fn keep(text: &str) -> Self {
        let text = || Some(text.to_owned());
        Self { file: text(), new: text(), search: text(), replace: text() }
    }

    pub(crate) fn drop(text: &str) -> Self {
        Self {
            file: Some(text.to_owned()),
            search: Some(text.to_owned()),
            new: None,
            replace: None,
        }
    }

    pub(crate) fn add(text: &str) -> Self {
        Self {
            new: Some(text.to_owned()),
            replace: Some(text.to_owned()),
            file: None,
            search: None,
        }
    }

    pub(crate) fn is_keep(&self) -> bool {
        self.file.is_some() && self.new.is_some()
    }
}

/// A file, an edit of it, and how both are written down.
#[derive(Clone)]
pub(crate) struct Trial {
    /// The file's lines before the edit's, and after them.
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// The line end of the file, and of the block.
    pub(crate) file_end: &'static str,
    pub(crate) block_end: &'static str,
    /// A byte order mark at the start of the file, and of the search and the replacement.
    pub(crate) file_mark: bool,
    pub(crate) block_mark: bool,
    /// The file's last line has an end.
    pub(crate) last_end: bool,
    /// One step of the file's indentation.
    pub(crate) step: &'static str,
    /// A row whose line may as well come out or not, or before or after the lines that come beside it: a blank line that search and
    /// replacement have and the file lacks, or the other way round, beside lines that change.
    pub(crate) loose: Option<usize>,
}

impl Trial {
    fn text(&self, inner: impl Fn(&Row) -> Option<&String>) -> String {
        let inner = self.rows.iter().filter_map(inner);
        let lines: Vec<&str> =
            self.before.iter().chain(inner).chain(&self.after).map(String::as_str).collect();
        let mut text = if self.file_mark { "\u{feff}".to_owned() } else { String::new() };
        text.push_str(&lines.join(self.file_end));
        if self.last_end && !lines.is_empty() {
            text.push_str(self.file_end);
        }
        text
    }

    /// The file before the edit.
    pub(crate) fn file(&self) -> String {
        self.text(|row| row.file.as_ref())
    }

    /// The file that must come out.
    pub(crate) fn expected(&self) -> String {
        self.text(|row| row.new.as_ref())
    }

    /// The other files that may come out.
    pub(crate) fn also_expected(&self) -> Vec<String> {
        let Some(at) = self.loose else { return Vec::new() };
        let mut other = self.clone();
        let new = &mut other.rows[at].new;
        *new = if new.is_none() { Some(String::new()) } else { None };
        let mut all = vec![other.expected()];
        // A blank line that the block does not show, before or after each of the lines that come beside it.
        for down in [false, true] {
            let (mut other, mut at) = (self.clone(), at);
            loop {
                let next = if down { at + 1 } else { at.wrapping_sub(1) };
                if other.rows.get(next).is_none_or(Row::is_keep) {
                    break;
                }
                other.rows.swap(at, next);
                all.push(other.expected());
                at = next;
            }
        }
        all
    }

    /// The lines of the file before the edit.
    pub(crate) fn file_lines(&self) -> Vec<String> {
        let inner = self.rows.iter().filter_map(|row| row.file.as_ref());
        self.before.iter().chain(inner).chain(&self.after).cloned().collect()
    }

    pub(crate) fn search(&self) -> Vec<String> {
        self.rows.iter().filter_map(|row| row.search.clone()).collect()
    }

    pub(crate) fn replace(&self) -> Vec<String> {
        self.rows.iter().filter_map(|row| row.replace.clone()).collect()
    }

    /// The block as a model would write it.
    pub(crate) fn block(&self) -> EditBlock {
        let body = |lines: Vec<String>| {
            let mut text = lines.iter().flat_map(|line| [line.as_str(), self.block_end]).collect();
            if self.block_mark && !lines.is_empty() {
                text = format!("\u{feff}{text}");
            }
            text
        };
        EditBlock { search: body(self.search()), replace: body(self.replace()), line: 1 }
    }

    /// The line in the file of a row, from 1.
    pub(crate) fn line_of(&self, row: usize) -> usize {
        self.before.len() + self.rows[..=row].iter().filter(|row| row.file.is_some()).count()
    }

    /// The file as it is after the edit, with the same block: a second time.
    pub(crate) fn once_more(&self) -> Self {
        let mut after = self.clone();
        for row in &mut after.rows {
            row.file.clone_from(&row.new);
        }
        after
    }

    /// The file with the block written at another line of it (from 0), where its search stands as it is but for blanks at
    /// ends of lines.
    pub(crate) fn at(&self, mut line: usize) -> Self {
        let lines = self.file_lines();
        let mut new = Self { before: lines[..line].to_vec(), rows: Vec::new(), ..self.clone() };
        for row in &self.rows {
            match (&row.search, &row.replace) {
                (Some(_), Some(_)) => new.before.push(lines[line].clone()),
                (None, Some(text)) => new.before.push(text.trim_end().to_owned()),
                _ => {}
            }
            line += usize::from(row.search.is_some());
        }
        new.after = lines[line..].to_vec();
        new
    }

    /// The block as a hunk of a unified diff, below the two names; `numbers` is what stands between the two `@@`.
    pub(crate) fn diff(&self, numbers: &str) -> String {
        let mut text = format!("--- a/file\n+++ b/file\n@@{numbers}@@\n");
        let mut come = String::new();
        let push = |text: &mut String, mark: char, line: &str| {
            text.push(mark);
            text.push_str(line);
            text.push_str(self.block_end);
        };
        for row in &self.rows {
            match (&row.search, &row.replace) {
                (Some(old), Some(new)) if old == new => {
                    text.push_str(&std::mem::take(&mut come));
                    push(&mut text, ' ', old);
                }
                (old, new) => {
                    // What goes stands before what comes.
                    if let Some(old) = old {
                        push(&mut text, '-', old);
                    }
                    if let Some(new) = new {
                        push(&mut come, '+', new);
                    }
                }
            }
        }
        text + &come
    }

    /// The numbers of that hunk, as many lines off as asked.
    pub(crate) fn numbers(&self, off: usize, more: usize) -> String {
        let at = self.before.len() + 1 + off;
        let (old, new) = (self.search().len() + more, self.replace().len() + more);
        format!(" -{at},{old} +{at},{new} ")
    }
}
