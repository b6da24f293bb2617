//! Certificates and keys in PEM files.

use crate::error::{Side, TlsError};
use pkcs8::{Document, EncryptedPrivateKeyInfoRef};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{Error, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a file. A trust store of all public authorities has about 200 KiB.
const MOST: usize = 4 << 20;

pub const KEY: &str = "keyPath";
pub const CERT: &str = "certPath";
pub const TRUST: &str = "trustCertPath";

const ENCRYPTED: [&str; 2] = [
    "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    "-----END ENCRYPTED PRIVATE KEY-----",
];

/// Reads files, and names the keys of one side in its errors.
#[derive(Clone, Copy)]
pub struct Pem(pub Side);

impl Pem {
    pub fn certificates(
        self,
        key: &'static str,
        path: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let pem = self.read(key, path)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => Err(TlsError::NoCertificate {
                side: self.0,
                key,
                path: path.to_path_buf(),
            }),
        }
    }

    /// The certificates of a file as authorities.
    pub fn roots(
        self,
        path: &Path,
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|e| self.unusable(path, &e.to_string()))?;
        }
        Ok(roots)
    }

    pub fn unusable(self, path: &Path, why: &str) -> TlsError {
        TlsError::Trust {
            side: self.0,
            path: path.to_path_buf(),
            why: why.to_string(),
        }
    }

    /// Why a certificate and a key cannot be used together.
    pub fn unfit(self, error: Error, cert: &Path, key: &Path) -> TlsError {
        let side = self.0;
        match error {
            Error::InconsistentKeys(_) => TlsError::Mismatch {
                side,
                cert: cert.to_path_buf(),
                key: key.to_path_buf(),
            },
            Error::InvalidCertificate(e) => TlsError::Certificate {
                side,
                path: cert.to_path_buf(),
                why: e.to_string(),
            },
            e => TlsError::Key {
                side,
                path: key.to_path_buf(),
                why: e.to_string(),
            },
        }
    }

    pub fn private_key(
        self,
        path: &Path,
        password: Option<&str>,
    ) -> Result<PrivateKeyDer<'static>, TlsError> {
        let pem = self.read(KEY, path)?;
        let text = String::from_utf8_lossy(&pem);
        let (side, path) = (self.0, path.to_path_buf());
        if let Some(section) = section(&text, ENCRYPTED) {
            let Some(password) = password else {
                return Err(TlsError::NoPassword { side, path });
            };
            return decrypted(section, password).ok_or(TlsError::Password { side, path });
        }
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(TlsError::OldEncryption { side, path });
        }
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NoKey { side, path })
    }

    fn read(self, key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
        let unreadable = |why| TlsError::Unreadable {
            side: self.0,
            key,
            path: path.to_path_buf(),
            why,
        };
        let mut found = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MOST as u64 + 1)
            .read_to_end(&mut found)
            .map_err(unreadable)?;
        if found.len() > MOST {
            return Err(TlsError::TooLong {
                side: self.0,
                key,
                path: path.to_path_buf(),
                most: MOST,
            });
        }
        Ok(found)
    }
}

/// The part of a file from a line to another, with both.
fn section<'t>(text: &'t str, [begin, end]: [&str; 2]) -> Option<&'t str> {
    let from = text.find(begin)?;
    let to = from + text[from..].find(end)? + end.len();
    Some(&text[from..to])
}

fn decrypted(section: &str, password: &str) -> Option<PrivateKeyDer<'static>> {
    let (_, encrypted) = Document::from_pem(section).ok()?;
    let info = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes()).ok()?;
    let plain = info.decrypt(password).ok()?;
    Some(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}
