//! The certificate authorities that a TLS connection trusts: Mozilla's list, which is built in, and in addition those
//! that the user names in `SSL_CERT_FILE` and `SSL_CERT_DIR` (PEM files), as for OpenSSL and curl.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::fs;
use conversation::limits;

/// Trusts the built-in roots and the certificates in the file and the folder's files. An error names the path.
pub(super) fn trust_roots(
    file: Option<OsString>,
    folder: Option<OsString>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = path_in(file) {
        let named = |why: &str| format!("SSL_CERT_FILE names {}: {why}", file.display());
        if add_certificates(&mut roots, &file).map_err(|why| named(&why))? == 0 {
            return Err(named("it holds no certificate in PEM form"));
        }
    }
    if let Some(folder) = path_in(folder) {
        let unreadable =
            |why: std::io::Error| format!("SSL_CERT_DIR names {}: {why}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            // Such folders hold links, some of them dangling, and other files: skip them.
            let _ = add_certificates(&mut roots, &entry.map_err(unreadable)?.path());
        }
    }
    configure(roots)
}

fn path_in(variable: Option<OsString>) -> Option<PathBuf> {
    variable.filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn add_certificates(roots: &mut RootCertStore, path: &Path) -> Result<usize, String> {
    let pem = fs::read_bytes(path, limits::CERTIFICATES)
        .map_err(|error| format!("{error:#}"))?
        .ok_or_else(|| "there is no such file".to_owned())?;
    Ok(roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten()).0)
}

/// The TLS settings of a client that trusts these roots.
pub(super) fn configure(roots: RootCertStore) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: Option<&Path>, folder: Option<&Path>, expect: Result<(), &str>) {
        let variable = |path: Option<&Path>| path.map(|path| path.as_os_str().to_owned());
        match (trust_roots(variable(file), variable(folder)), expect) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) if error.contains(part) => {}
            (found, expect) => panic!("{:?}, not {expect:?}", found.map(|_| ())),
        }
    }

    #[test]
    fn named_certificates_are_added_and_missing_ones_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text.pem");
        std::fs::write(&file, "no certificate").unwrap();
        check(None, None, Ok(()));
        check(Some(Path::new("")), Some(Path::new("")), Ok(()));
        check(Some(&file), None, Err("holds no certificate"));
        check(Some(&folder.path().join("gone")), None, Err("SSL_CERT_FILE names"));
        let large = folder.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(limits::CERTIFICATES + 1).unwrap();
        check(Some(&large), None, Err("over the limit"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path().join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        check(Some(&folder.path().join("fifo")), None, Err("not a regular file"));
        check(None, Some(folder.path()), Ok(()));
        check(None, Some(&folder.path().join("gone")), Err("SSL_CERT_DIR names"));
    }
}
