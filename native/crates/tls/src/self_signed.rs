//! A certificate made in memory: RocketMQ's test mode.

use crate::clients::AnyClient;
use crate::error::TlsError;
use crate::files::{builder, provider};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::sync::Arc;

/// A configuration with a new self-signed certificate. Clients may show one; nobody verifies it.
/// [TlsHelper: SelfSignedCertificate, ClientAuth.OPTIONAL]
pub fn self_signed_config() -> Result<Arc<ServerConfig>, TlsError> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()])
        .map_err(|e| TlsError::Internal(e.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let verifier = AnyClient {
        provider: provider(),
        mandatory: false,
    };
    let config = builder()?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![made.cert.into()], key.into())
        .map_err(|e| TlsError::Internal(e.to_string()))?;
    Ok(Arc::new(config))
}
