//! A server's configuration from PEM files. [TlsHelper]

use crate::clients::AnyClient;
use crate::error::{Side, TlsError};
use crate::pem::{CERT, Pem, TRUST};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use std::path::PathBuf;
use std::sync::Arc;

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
    let pem = Pem(Side::Server);
    let key = pem.private_key(&files.key, files.key_password)?;
    let chain = pem.certificates(CERT, &files.cert)?;
    let config = builder()?
        .with_client_cert_verifier(clients(files)?)
        .with_single_cert(chain, key)
        .map_err(|e| pem.unfit(e, &files.cert, &files.key))?;
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
    let pem = Pem(Side::Server);
    let roots = pem.roots(path, pem.certificates(TRUST, path)?)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let builder = match mandatory {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    builder
        .build()
        .map_err(|e| pem.unusable(path, &e.to_string()))
}
