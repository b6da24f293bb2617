//! Why a context cannot be made, in words for an operator.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Whose keys of the configuration: `tls.server.…` or `tls.client.…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Server,
    Client,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Server => "server",
            Side::Client => "client",
        })
    }
}

/// The texts name keys of the configuration and files, and nothing that is secret.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("tls.{side}.{key}: cannot read {path}: {why}")]
    Unreadable {
        side: Side,
        key: &'static str,
        path: PathBuf,
        why: std::io::Error,
    },
    #[error(
        "tls.{side}.{key}: {path} has more than {most} bytes: it is no file of keys or certificates"
    )]
    TooLong {
        side: Side,
        key: &'static str,
        path: PathBuf,
        most: usize,
    },
    #[error(
        "tls.{side}.keyPath: {path} has no private key in PEM (BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY \
         or BEGIN EC PRIVATE KEY)"
    )]
    NoKey { side: Side, path: PathBuf },
    #[error("tls.{side}.{key}: {path} has no certificate in PEM (BEGIN CERTIFICATE)")]
    NoCertificate {
        side: Side,
        key: &'static str,
        path: PathBuf,
    },
    #[error(
        "tls.{side}.keyPath: the key in {path} is encrypted: set tls.{side}.keyPassword, or decrypt it \
         with openssl pkey -in FILE -out NEWFILE"
    )]
    NoPassword { side: Side, path: PathBuf },
    #[error(
        "tls.{side}.keyPath: the key in {path} cannot be decrypted: tls.{side}.keyPassword is wrong, or \
         its cipher is not supported (PBES2 with AES is). Decrypt it with openssl pkey -in FILE -out \
         NEWFILE"
    )]
    Password { side: Side, path: PathBuf },
    #[error(
        "tls.{side}.keyPath: the key in {path} is encrypted in OpenSSL's old form: decrypt it with \
         openssl pkey -in FILE -out NEWFILE"
    )]
    OldEncryption { side: Side, path: PathBuf },
    #[error("tls.{side}.keyPath: the key in {path} cannot be used: {why}")]
    Key {
        side: Side,
        path: PathBuf,
        why: String,
    },
    #[error("tls.{side}.certPath: the certificate in {cert} does not belong to the key in {key}")]
    Mismatch {
        side: Side,
        cert: PathBuf,
        key: PathBuf,
    },
    #[error("tls.{side}.certPath: the certificate in {path} cannot be used: {why}")]
    Certificate {
        side: Side,
        path: PathBuf,
        why: String,
    },
    #[error("tls.{side}.trustCertPath: a certificate in {path} cannot be used: {why}")]
    Trust {
        side: Side,
        path: PathBuf,
        why: String,
    },
    #[error("tls.server.authClient=true needs tls.server.trustCertPath")]
    NoTrust,
    #[error(
        "this machine has no trusted authorities: set tls.client.trustCertPath, the file of those \
         that sign the certificates of the cluster"
    )]
    NoAuthorities,
    #[error("TLS cannot be set up: {0}")]
    Internal(String),
}
