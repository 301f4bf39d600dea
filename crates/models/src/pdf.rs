//! Facts of a PDF that need no reader of PDFs: whether it is whole, whether it is encrypted, and its pages.
//!
//! Page objects are counted, also in compressed object streams (since PDF 1.5). That is what `pdfinfo` reports for
//! nearly every file; a file that was changed by appending may count too many.

use std::io::Read;

use conversation::limits::PDF_OBJECTS;
use flate2::read::ZlibDecoder;
use memchr::memmem;

/// The facts about a PDF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PdfFacts {
    /// The number of its pages; `None`: unknown.
    pub pages: Option<u64>,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
}

/// Reads the facts about a PDF.
///
/// # Errors
/// It was truncated.
pub fn inspect_pdf(bytes: &[u8]) -> Result<PdfFacts, String> {
    // Readers look for the end in the last kilobyte.
    let end = &bytes[bytes.len().saturating_sub(1024)..];
    if memmem::find(end, b"%%EOF").is_none() {
        return Err("it has no end (%%EOF), so it was truncated or is damaged".to_owned());
    }
    let mut pages = count_pages(bytes);
    let mut left = PDF_OBJECTS;
    for at in memmem::find_iter(bytes, b"/ObjStm") {
        let Some(start) = memmem::find(&bytes[at..], b"stream") else { break };
        let data = bytes[at + start + 6..].trim_ascii_start();
        let mut objects = Vec::new();
        // What was read before an error counts: it may be only the check at the end that fails.
        let _ = ZlibDecoder::new(data).take(left as u64).read_to_end(&mut objects);
        left -= objects.len();
        pages += count_pages(&objects);
    }
    let is_encrypted = memmem::find(bytes, b"/Encrypt").is_some();
    Ok(PdfFacts { pages: Some(pages).filter(|pages| *pages > 0 && left > 0), is_encrypted })
}

/// Counts `/Type /Page`, which `/Type /Pages` is not.
fn count_pages(bytes: &[u8]) -> u64 {
    let is_page = |at: &usize| {
        let value = bytes[at + 5..].trim_ascii_start();
        let rest = value.strip_prefix(b"/Page");
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric()))
    };
    memmem::find_iter(bytes, b"/Type").filter(is_page).count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::ZlibEncoder;

    use super::*;

    fn check(body: &[u8], pages: Option<u64>, is_encrypted: bool) {
        let bytes = [b"%PDF-1.7\n", body, b"\nstartxref\n9\n%%EOF\n"].concat();
        assert_eq!(inspect_pdf(&bytes), Ok(PdfFacts { pages, is_encrypted }));
    }

    #[test]
    fn pages_and_locks() {
        check(
            b"<</Type/Pages/Count 2>> <</Type /Page>> <</Type\n/Page/Parent 1 0 R>>",
            Some(2),
            false,
        );
        check(b"<</Type /PageLabel>>", None, false);
        check(b"<</Type /Page>> trailer <</Encrypt 5 0 R>>", Some(1), true);
        let mut packed = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&b"<</Type/Page>> ".repeat(2000)).unwrap();
        let objects =
            [b"<</Type/ObjStm>>stream\r\n", &*packed.finish().unwrap(), b"\nendstream"].concat();
        check(&objects, Some(2000), false);
        // A bomb is read up to a limit, and its pages stay unknown.
        let mut bomb = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        for _ in 0..80 {
            bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
        }
        check(&[b"<</Type/ObjStm>>stream\n", &*bomb.finish().unwrap()].concat(), None, false);
        assert!(inspect_pdf(b"%PDF-1.7\n<</Type/Page>>").is_err());
    }
}
