//! A server's configuration from PEM files. [TlsHelper]

use crate::clients::AnyClient;
use crate::error::TlsError;
use pkcs8::{Document, EncryptedPrivateKeyInfoRef};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{ConfigBuilder, Error, RootCertStore, ServerConfig, WantsVerifier};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a file. A trust store of all public authorities has about 200 KiB.
const MOST: usize = 4 << 20;

const KEY: &str = "tls.server.keyPath";
const CERT: &str = "tls.server.certPath";
const TRUST: &str = "tls.server.trustCertPath";

const ENCRYPTED: [&str; 2] = [
    "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    "-----END ENCRYPTED PRIVATE KEY-----",
];

/// Whether clients are asked for a certificate. [tls.server.need.client.auth]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    None,
    Optional,
    Require,
}

impl ClientAuth {
    pub fn named(name: &str) -> Option<ClientAuth> {
        match name {
            "none" => Some(ClientAuth::None),
            "optional" => Some(ClientAuth::Optional),
            "require" => Some(ClientAuth::Require),
            _ => None,
        }
    }
}

/// What a configuration is made of.
pub struct Files<'p> {
    pub key: PathBuf,
    pub key_password: Option<&'p str>,
    pub cert: PathBuf,
    pub client_auth: ClientAuth,
    /// Certificates of clients are verified against `trust`.
    pub verify_clients: bool,
    pub trust: Option<PathBuf>,
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn builder() -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Internal(e.to_string()))
}

/// Reads the files, and checks that key and certificate belong together.
pub fn server_config(files: &Files<'_>) -> Result<Arc<ServerConfig>, TlsError> {
    let key = private_key(&files.key, files.key_password)?;
    let chain = certificates(CERT, &files.cert)?;
    let config = builder()?
        .with_client_cert_verifier(clients(files)?)
        .with_single_cert(chain, key)
        .map_err(|e| match e {
            Error::InconsistentKeys(_) => TlsError::Mismatch {
                cert: files.cert.clone(),
                key: files.key.clone(),
            },
            Error::InvalidCertificate(e) => TlsError::Certificate {
                path: files.cert.clone(),
                why: e.to_string(),
            },
            e => TlsError::Key {
                path: files.key.clone(),
                why: e.to_string(),
            },
        })?;
    Ok(Arc::new(config))
}

fn clients(files: &Files<'_>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    if files.client_auth == ClientAuth::None {
        return Ok(Arc::new(NoClientAuth));
    }
    let mandatory = files.client_auth == ClientAuth::Require;
    if !files.verify_clients {
        return Ok(Arc::new(AnyClient {
            provider: provider(),
            mandatory,
        }));
    }
    let path = files.trust.as_ref().ok_or(TlsError::NoTrust)?;
    let mut roots = RootCertStore::empty();
    let unusable = |why: String| TlsError::Trust {
        path: path.clone(),
        why,
    };
    for certificate in certificates(TRUST, path)? {
        roots
            .add(certificate)
            .map_err(|e| unusable(e.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let builder = match mandatory {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|e| unusable(e.to_string()))
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(key, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TlsError::NoCertificate {
            key,
            path: path.to_path_buf(),
        }),
    }
}

fn private_key(path: &Path, password: Option<&str>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read(KEY, path)?;
    key_of(&pem, password).map_err(|e| match e {
        BadKey::None => TlsError::NoKey(path.to_path_buf()),
        BadKey::NoPassword => TlsError::NoPassword(path.to_path_buf()),
        BadKey::Password => TlsError::Password(path.to_path_buf()),
        BadKey::OldEncryption => TlsError::OldEncryption(path.to_path_buf()),
    })
}

/// Why a text has no key that can be used.
pub(crate) enum BadKey {
    None,
    NoPassword,
    Password,
    OldEncryption,
}

/// The key in a PEM text.
pub(crate) fn key_of(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, BadKey> {
    let text = String::from_utf8_lossy(pem);
    if let Some(section) = section(&text, ENCRYPTED) {
        let password = password.ok_or(BadKey::NoPassword)?;
        return decrypted(section, password).ok_or(BadKey::Password);
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(BadKey::OldEncryption);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| BadKey::None)
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

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |why| TlsError::Unreadable {
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
            key,
            path: path.to_path_buf(),
            most: MOST,
        });
    }
    Ok(found)
}
