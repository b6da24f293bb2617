//! Why a context cannot be made, in words for an operator.

use std::path::PathBuf;
use thiserror::Error;

/// The texts name keys of the configuration and files, and nothing that is secret.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{key}: cannot read {path}: {why}")]
    Unreadable {
        key: &'static str,
        path: PathBuf,
        why: std::io::Error,
    },
    #[error("{key}: {path} has more than {most} bytes: it is no file of keys or certificates")]
    TooLong {
        key: &'static str,
        path: PathBuf,
        most: usize,
    },
    #[error(
        "tls.server.keyPath: {0} has no private key in PEM (BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY \
         or BEGIN EC PRIVATE KEY)"
    )]
    NoKey(PathBuf),
    #[error("{key}: {path} has no certificate in PEM (BEGIN CERTIFICATE)")]
    NoCertificate { key: &'static str, path: PathBuf },
    #[error(
        "tls.server.keyPath: the key in {0} is encrypted: set tls.server.keyPassword, or decrypt it \
         with openssl pkey -in FILE -out NEWFILE"
    )]
    NoPassword(PathBuf),
    #[error(
        "tls.server.keyPath: the key in {0} cannot be decrypted: tls.server.keyPassword is wrong, or \
         its cipher is not supported (PBES2 with AES is). Decrypt it with openssl pkey -in FILE -out \
         NEWFILE"
    )]
    Password(PathBuf),
    #[error(
        "tls.server.keyPath: the key in {0} is encrypted in OpenSSL's old form: decrypt it with \
         openssl pkey -in FILE -out NEWFILE"
    )]
    OldEncryption(PathBuf),
    #[error("tls.server.keyPath: the key in {path} cannot be used: {why}")]
    Key { path: PathBuf, why: String },
    #[error("tls.server.certPath: the certificate in {cert} does not belong to the key in {key}")]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("tls.server.certPath: the certificate in {path} cannot be used: {why}")]
    Certificate { path: PathBuf, why: String },
    #[error("tls.server.trustCertPath: a certificate in {path} cannot be used: {why}")]
    Trust { path: PathBuf, why: String },
    #[error("tls.server.authClient=true needs tls.server.trustCertPath")]
    NoTrust,
    #[error("TLS cannot be set up: {0}")]
    Internal(String),
}
