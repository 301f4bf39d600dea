//! Implements `--schema` and `--output` for every tool that prints an answer.

use anyhow::Error;

use crate::ops::setup::flags::AnswerArgs;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use models::schema::Schema;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::names::refuse_link_out;
use sys::output_file::{self, OutputFile};

impl AnswerArgs {
    /// Reads the schema of `--schema`. One that cannot be used is wrong usage, found before anything is sent.
    pub fn read_schema(&self, interrupts: &Interrupts) -> Result<Option<Schema>, Problem> {
        let Some(path) = &self.schema else { return Ok(None) };
        let wrong = |why: String| Problem::usage(format!("--schema {}: {why}", path.display()));
        let input = InputFile::open(path, interrupts)?;
        let text = input.read_text(limits::SCHEMA);
        let text = text.map_err(|error| wrong(format!("{error:#}")))?;
        let text = text.ok_or_else(|| wrong("no such file".to_owned()))?;
        Schema::parse(&text).map(Some).map_err(wrong)
    }

    /// Whether a file gets the answer instead of stdout.
    pub fn has_output_file(&self) -> bool {
        self.output.as_deref().is_some_and(|path| !output_file::is_stdout(path))
    }

    /// Opens the file of `--output`. One that cannot be written is wrong usage, found before anything is sent.
    pub fn open_output(&self) -> Result<Option<OutputFile>, Problem> {
        let Some(path) = self.output.as_deref().filter(|_| self.has_output_file()) else {
            return Ok(None);
        };
        let opened =
            refuse_link_out(path).map_err(Error::msg).and_then(|()| OutputFile::open(path));
        opened.map(Some).map_err(|error| Problem::usage(format!("--output: {error:#}")))
    }
}

/// Writes the answer of a run that succeeded to a file.
pub fn write_output(report: Report, file: Option<&OutputFile>) -> Result<Report, Problem> {
    let Some(file) = file.filter(|_| report.exit == Exit::Done) else { return Ok(report) };
    let mut text = report.text.clone();
    if !report.exact && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    file.write(text.as_bytes())?;
    let path = file.path().display().to_string();
    Ok(Report { text: String::new(), ..report.with("output", path) })
}
