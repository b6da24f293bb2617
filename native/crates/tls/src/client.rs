//! A client's configuration from PEM files: a server that connects to another one.

use crate::error::{Side, TlsError};
use crate::files::provider;
use crate::pem::{CERT, Pem, TRUST};
use crate::servers::Servers;
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;

/// Whom a client trusts.
pub enum Trust {
    /// Nothing is verified.
    Anybody,
    /// The certificates of a file, and those they have signed.
    File(PathBuf),
    /// The authorities of this machine, in files. What cannot be used of them is left out.
    System(Vec<PathBuf>),
}

/// What a configuration is made of.
pub struct ClientFiles<'p> {
    pub trust: Trust,
    /// Certificates have to be for the name that is connected to.
    pub by_name: bool,
    /// The files of the own certificate and of its key.
    pub own: Option<(PathBuf, PathBuf)>,
    pub key_password: Option<&'p str>,
}

/// Reads the files, and checks that key and certificate belong together.
pub fn client_config(files: &ClientFiles<'_>) -> Result<Arc<ClientConfig>, TlsError> {
    let pem = Pem(Side::Client);
    let servers = match &files.trust {
        Trust::Anybody => Servers::any(),
        Trust::File(path) => {
            let trusted = pem.certificates(TRUST, path)?;
            Servers::signed_by(pem.roots(path, trusted.clone())?, trusted, files.by_name)
        }
        Trust::System(paths) => {
            let mut roots = RootCertStore::empty();
            for found in paths.iter().map(|path| pem.certificates(TRUST, path)) {
                roots.add_parsable_certificates(found.unwrap_or_default());
            }
            if roots.is_empty() {
                return Err(TlsError::NoAuthorities);
            }
            Servers::signed_by(roots, Vec::new(), files.by_name)
        }
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Internal(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(servers));
    let Some((cert, key)) = &files.own else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = pem.certificates(CERT, cert)?;
    let private = pem.private_key(key, files.key_password)?;
    let config = builder
        .with_client_auth_cert(chain, private)
        .map_err(|e| pem.unfit(e, cert, key))?;
    Ok(Arc::new(config))
}
