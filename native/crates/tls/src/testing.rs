//! For tests: certificates of an authority of their own, and a client in memory.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::sync::Arc;

/// An authority, which signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub cert: String,
    pub key: String,
    der: (CertificateDer<'static>, Vec<u8>),
}

impl Authority {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn sign(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity::of(&cert, &key)
    }
}

impl Identity {
    pub fn of(cert: &Certificate, key: &KeyPair) -> Self {
        Identity {
            cert: cert.pem(),
            key: key.serialize_pem(),
            der: (cert.der().clone(), key.serialize_der()),
        }
    }
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A client that verifies nothing.
pub struct Client(pub ClientConnection);

impl Client {
    pub fn new() -> Self {
        Client::with(rustls::ALL_VERSIONS, None)
    }

    /// `shows`: its certificate, if it is asked for one.
    pub fn with(versions: &[&'static SupportedProtocolVersion], shows: Option<&Identity>) -> Self {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (cert, key) = identity.der.clone();
                let key = PrivatePkcs8KeyDer::from(key).into();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        Client(ClientConnection::new(Arc::new(config), name).unwrap())
    }

    /// What it sends now.
    pub fn sends(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).unwrap();
        }
        out
    }

    /// Seals plain bytes.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = self.sends();
        for piece in plain.chunks(16 << 10) {
            self.0.writer().write_all(piece).unwrap();
            out.extend(self.sends());
        }
        out
    }

    /// Takes what the server sent, and returns the plain bytes of it.
    pub fn takes(&mut self, mut records: &[u8]) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::new();
        while !records.is_empty() {
            self.0.read_tls(&mut records).unwrap();
            let state = self.0.process_new_packets()?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut plain[start..]).unwrap();
        }
        Ok(plain)
    }
}

impl Default for Client {
    fn default() -> Self {
        Client::new()
    }
}
