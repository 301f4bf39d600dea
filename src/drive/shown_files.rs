//! The result of a read of a picture or document: the bytes are kept with the outputs, and requests show them. What the
//! model's API does not take is read as text where that is possible.

use std::path::Path;

use anyhow::Result;

use super::commands::ShellCommand;
use super::result_block::error;
use super::runner::Runner;
use conversation::format::file::Block;
use conversation::format::harmless::quote_name;
use conversation::format::numbers::format_count;
use conversation::limits;
use models::api::FileRules;
use models::attachment::FileFormat;
use models::pdf::inspect_pdf;
use models::picture::Picture;
use models::sniff::detect_by_mark;
use sys::fs;
use sys::names::shell_word;
use sys::read::read_range;

impl Runner<'_> {
    /// The result of a read of this file, if it is a picture or document.
    pub(super) fn show_file(&self, block: &Block, path: &Path) -> Result<Option<Block>> {
        let name = path.to_str().and_then(FileFormat::from_name);
        let head = read_range(path, 0, 16).map(|(_, head)| head).unwrap_or_default();
        if detect_by_mark(&head).is_none() {
            // What only its name calls a picture is nothing that a model could read.
            let is_odd = name.is_some_and(FileFormat::is_image) && str::from_utf8(&head).is_err();
            return Ok(is_odd.then(|| refuse(block.clone(), "it is damaged, or no picture")));
        }
        match fs::read_resolved(path, limits::SHOWN_FILE) {
            Ok(bytes) => self.show_bytes(block, path, &bytes),
            Err(why) => Ok(Some(refuse(block.clone(), &format!("{why:#}")))),
        }
    }

    /// The result of a read of these bytes, which the file at `path` has, if they are a picture or document.
    pub(super) fn show_bytes(
        &self,
        block: &Block,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Option<Block>> {
        let Some(format) = detect_by_mark(bytes) else { return Ok(None) };
        let model = &self.asker.model_id;
        let rules = self.asker.client.file_rules(model);
        let block = match describe(block.clone(), format, bytes, &rules, model) {
            Ok(block) => {
                fs::store_output(&self.context.root.outputs_folder(), bytes)?;
                let block = block.with("sha256", fs::sha256(bytes));
                self.files.record_read(block, path, Some(bytes), &self.conversation)
            }
            Err(why) if format == FileFormat::Pdf => self.read_pdf_text(block.clone(), path, &why),
            Err(why) => refuse(block.clone(), &why),
        };
        Ok(Some(block))
    }

    /// The text of a PDF that is not shown itself, as `pdftotext` prints it.
    fn read_pdf_text(&self, block: Block, path: &Path, why: &str) -> Block {
        let commands = format!("pdftotext -layout -- {} - 2>/dev/null", shell_word(path));
        let command = ShellCommand {
            commands: &commands,
            timeout: Some(limits::PDF_TEXT_TIME.as_secs()),
            parents: self.children.parents_of_commands(),
            sandbox: self.context.sandbox.as_deref(),
        };
        let new = Block::new("nagent-read-result");
        let (read, _) = self.commands.run(new, &command, &self.context, &mut |_| ());
        let text = read.body.as_deref().unwrap_or_default();
        let advice = match read.get("exit_code") {
            Some("0") if !text.trim().is_empty() => {
                let block = block.with("status", "ok").with("media", "application/pdf");
                let block = ["bytes", "lines", "output"]
                    .into_iter()
                    .fold(block, |block, name| block.with_some(name, read.get(name)));
                return block.body(format!("[the text that pdftotext reads: {why}]\n{text}"));
            }
            Some("0") => "it has no text; pdftoppm -png makes pictures of its pages",
            Some("127") => "install pdftotext (poppler-utils), and its text is read",
            _ => "pdftotext cannot read it either",
        };
        refuse(block, &format!("{why}; {advice}"))
    }
}

/// The result of a read of a file that is not shown.
fn refuse(block: Block, why: &str) -> Block {
    let name = quote_name(block.get("path").unwrap_or_default());
    error(block, format!("{name} is not shown: {why}"))
}

/// The block with what is known of a file, or the reason why it is not shown.
fn describe(
    block: Block,
    format: FileFormat,
    bytes: &[u8],
    rules: &FileRules,
    model: &str,
) -> Result<Block, String> {
    rules.route(format, bytes.len() as u64)?;
    let block =
        block.with("status", "ok").with("media", format.media_type()).with("bytes", bytes.len());
    if format == FileFormat::Pdf {
        let facts = inspect_pdf(bytes)?;
        if facts.is_encrypted {
            return Err("it is encrypted (qpdf --decrypt makes a copy that is not)".to_owned());
        }
        if let Some(pages) = facts.pages.filter(|pages| *pages > rules.pages) {
            let most = format_count(rules.pages, "page");
            return Err(format!("it has {pages} pages, and {} takes {most}", rules.server));
        }
        // A page of a file that does not say how many it has is about this large.
        let pages = facts.pages.unwrap_or(bytes.len() as u64 / 50_000 + 1);
        let length = facts.pages.map_or("A document".to_owned(), |pages| {
            format!("A document of {}", format_count(pages, "page"))
        });
        return Ok(block
            .with_some("pages", facts.pages)
            .with("tokens", pages * rules.page_tokens)
            .body(format!("[{length}]")));
    }
    let (width, height) = Picture::decode(format, bytes)?.size();
    let still = if format == FileFormat::Gif { "; only its first frame is shown" } else { "" };
    Ok(block
        .with("width", width)
        .with("height", height)
        .with("tokens", (rules.image_tokens)(model, width.into(), height.into()))
        .body(format!("[A picture of {width}x{height} pixels{still}]")))
}
