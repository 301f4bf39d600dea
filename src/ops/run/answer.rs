//! Implements `--schema` and `--output` for every tool that prints an answer.

use std::path::Path;

use crate::ops::setup::flags::AnswerArgs;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use models::schema::Schema;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::output_file;

impl AnswerArgs {
    /// Reads the schema of `--schema`. A schema that cannot be used, or an `--output` that cannot be written, is wrong
    /// usage, found before anything is sent.
    pub fn read_schema(&self, interrupts: &Interrupts) -> Result<Option<Schema>, Problem> {
        if let Some(path) = self.output_file() {
            output_file::check_output(path)
                .map_err(|error| Problem::usage(format!("--output: {error:#}")))?;
        }
        let Some(path) = &self.schema else { return Ok(None) };
        let wrong = |why: String| Problem::usage(format!("--schema {}: {why}", path.display()));
        let input = InputFile::open(path, interrupts)?;
        let text = input.read_text(limits::SCHEMA);
        let text = text.map_err(|error| wrong(format!("{error:#}")))?;
        let text = text.ok_or_else(|| wrong("no such file".to_owned()))?;
        Schema::parse(&text).map(Some).map_err(wrong)
    }

    /// The file that gets the answer instead of stdout.
    pub fn output_file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| !output_file::is_stdout(path))
    }

    /// Writes the answer to the file of `--output`, if the run succeeded.
    pub fn write_output(&self, report: Report, folder: &Path) -> Result<Report, Problem> {
        let Some(path) = self.output_file() else { return Ok(report) };
        if report.exit != Exit::Done {
            return Ok(report);
        }
        let path = folder.join(path);
        let mut text = report.text.clone();
        if !report.exact && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        output_file::write_output(&path, text.as_bytes())?;
        Ok(Report { text: String::new(), ..report.with("output", path.display().to_string()) })
    }
}
