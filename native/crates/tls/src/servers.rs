//! Which certificates of servers a client takes.

use crate::files::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The key of a certificate is always checked.
#[derive(Debug)]
pub struct Servers {
    provider: Arc<CryptoProvider>,
    /// None: every certificate is taken.
    roots: Option<RootCertStore>,
    /// Certificates that are trusted themselves.
    trusted: Vec<CertificateDer<'static>>,
    by_name: bool,
}

impl Servers {
    pub fn any() -> Self {
        Servers {
            provider: provider(),
            roots: None,
            trusted: Vec::new(),
            by_name: false,
        }
    }

    pub fn signed_by(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        by_name: bool,
    ) -> Self {
        Servers {
            roots: Some(roots),
            trusted,
            by_name,
            ..Servers::any()
        }
    }

    /// Whether a certificate that has signed itself is trusted. It may be an authority's: webpki wants
    /// another one below it then, which is all that it may find wrong.
    fn is_itself_trusted(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        self.trusted.contains(certificate)
            && matches!(error, Error::InvalidCertificate(CertificateError::Other(e))
                if e.to_string().contains("CaUsedAsEndEntity"))
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            let verified = verify_server_cert_signed_by_trust_anchor(
                &parsed,
                roots,
                intermediates,
                now,
                algorithms,
            );
            match verified {
                Err(e) if !self.is_itself_trusted(end_entity, &e) => return Err(e),
                _ => {}
            }
            if self.by_name {
                verify_server_name(&parsed, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
