//! A client's configuration from PEM texts.

use crate::files::{BadKey, key_of, provider};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// What a configuration is made of: the contents of PEM files.
#[derive(Default)]
pub struct ClientFiles<'p> {
    /// Certificates that are trusted.
    pub ca: &'p [u8],
    /// The client's own certificate with its chain, and its key.
    pub own: Option<(&'p [u8], &'p [u8])>,
    pub key_password: Option<&'p str>,
    /// Any name in a certificate that is trusted will do.
    pub any_name: bool,
    /// Nothing is verified.
    pub insecure: bool,
}

/// The error says what is wrong, and names no file.
pub fn client_config(files: &ClientFiles<'_>) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(files)?));
    let config = match files.own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let key = key_of(key, files.key_password).map_err(|e| {
                match e {
                    BadKey::None => "there is no private key (PEM) for the client's certificate",
                    BadKey::NoPassword => "the client's key is encrypted, and there is no password",
                    BadKey::Password => {
                        "the client's key cannot be decrypted: the password is wrong, or its \
                         cipher is not supported (PBES2 with AES is)"
                    }
                    BadKey::OldEncryption => {
                        "the client's key is encrypted in OpenSSL's old form: decrypt it with \
                         openssl pkey -in FILE -out NEWFILE"
                    }
                }
                .to_string()
            })?;
            builder
                .with_client_auth_cert(certificates(cert, "of the client")?, key)
                .map_err(|e| format!("the client's certificate and key cannot be used: {e}"))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("there is no certificate {what} (PEM)")),
    }
}

#[derive(Debug)]
struct Verifier {
    /// None: nothing is verified.
    inner: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    any_name: bool,
}

impl Verifier {
    fn new(files: &ClientFiles<'_>) -> Result<Verifier, String> {
        let mut trusted = Vec::new();
        let mut inner = None;
        if !files.insecure {
            trusted = certificates(files.ca, "that is trusted")?;
            let mut roots = RootCertStore::empty();
            // A system has some that cannot be used; one is enough.
            let (added, _) = roots.add_parsable_certificates(trusted.iter().cloned());
            if added == 0 {
                return Err("no trusted certificate can be used".into());
            }
            let made = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
            inner = Some(
                made.build()
                    .map_err(|e| format!("trusted certificates: {e}"))?,
            );
        }
        Ok(Verifier {
            inner,
            trusted,
            any_name: files.any_name,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        let checked = inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match checked {
            // The name is looked at last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            // A server shows an authority's own certificate, as `openssl req -x509` makes it. Its
            // time was looked at before.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.trusted.iter().any(|t| t == end_entity) =>
            {
                if !self.any_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
