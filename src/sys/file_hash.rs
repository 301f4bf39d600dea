//! The hash of a file of any size.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::fs::hex;
use super::read::open_regular;

/// Bytes that are read at a time.
const CHUNK: usize = 256 * 1024;

/// Returns the SHA-256 of a regular file in lower-case hexadecimal digits; `None` if there is no file.
pub fn hash_file(path: &Path, stop: &dyn Fn() -> bool) -> io::Result<Option<String>> {
    if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let (mut file, _) = open_regular(path).map_err(io::Error::other)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(hex(&hasher.finalize()))),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "abc").unwrap();
        let hash = hash_file(&dir.path().join("a"), &|| false).unwrap().unwrap();
        assert!(hash.starts_with("ba7816bf8f01cfea") && hash.len() == 64);
        assert_eq!(hash_file(&dir.path().join("b"), &|| false).unwrap(), None);
        assert!(hash_file(&dir.path().join("a"), &|| true).is_err());
    }
}
