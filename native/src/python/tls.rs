//! `TlsContext`: which certificate the connections of a server get, and whether they speak TLS.
//! `TlsClient`: the same where a server connects to another one, in the engine.

use super::error::raise;
use pyo3::prelude::*;
use pyrmq_tls::{
    ClientAuth, ClientConfig, ClientFiles, ClientStream, Files, Mode, ServerName, TlsError, Trust,
    client_config, self_signed_config, server_config,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Give it to a Listener. Without `use_files` or `use_self_signed` there is no certificate.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct TlsContext {
    inner: Arc<pyrmq_tls::Context>,
}

impl TlsContext {
    pub fn inner(&self) -> &Arc<pyrmq_tls::Context> {
        &self.inner
    }
}

fn expected(py: Python<'_>, key: &str, values: &str) -> PyErr {
    raise(py, "ConfigError", format!("{key}: {values} expected"))
}

#[pymethods]
impl TlsContext {
    #[new]
    fn new(py: Python<'_>, mode: &str) -> PyResult<Self> {
        let mode = Mode::named(mode).ok_or_else(|| {
            let modes = "disabled or permissive or enforcing";
            expected(py, "tls.server.mode", modes)
        })?;
        Ok(TlsContext {
            inner: Arc::new(pyrmq_tls::Context::new(mode, None)),
        })
    }

    /// Connections from now on get this certificate; those that are there keep what they have. Reads
    /// files. Raises ConfigError: then nothing changes.
    #[pyo3(signature = (*, key, key_password, cert, client_auth, verify_clients, trust))]
    #[allow(clippy::too_many_arguments)]
    fn use_files(
        &self,
        py: Python<'_>,
        key: PathBuf,
        key_password: Option<String>,
        cert: PathBuf,
        client_auth: &str,
        verify_clients: bool,
        trust: Option<PathBuf>,
    ) -> PyResult<()> {
        let client_auth = ClientAuth::named(client_auth).ok_or_else(|| {
            let values = "none or optional or require";
            expected(py, "tls.server.need.client.auth", values)
        })?;
        let made = py.detach(|| {
            server_config(&Files {
                key,
                key_password: key_password.as_deref(),
                cert,
                client_auth,
                verify_clients,
                trust,
            })
        });
        self.inner.replace(made.map_err(|e| to_py(py, &e))?);
        Ok(())
    }

    /// The same with a new self-signed certificate.
    fn use_self_signed(&self, py: Python<'_>) -> PyResult<()> {
        let made = py.detach(self_signed_config);
        self.inner.replace(made.map_err(|e| to_py(py, &e))?);
        Ok(())
    }
}

/// Give it to `HaSlave.receive`. Reads the files at once; raises ConfigError.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// A stream to the server at a host. The error says why there is none.
    pub fn stream(&self, host: &str) -> Result<ClientStream, String> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| format!("TLS: {host} is no host name and no address"))?;
        ClientStream::connect(self.config.clone(), name)
    }
}

#[pymethods]
impl TlsClient {
    /// `trust`: the file of who signs certificates of servers, whose names are not compared then.
    /// Without it the authorities in the files `system` are trusted, for names that fit. `insecure`:
    /// nothing is verified. `cert`, `key`: the own certificate.
    #[new]
    #[pyo3(signature = (*, trust, system, insecure, cert, key, key_password))]
    fn new(
        py: Python<'_>,
        trust: Option<PathBuf>,
        system: Vec<PathBuf>,
        insecure: bool,
        cert: Option<PathBuf>,
        key: Option<PathBuf>,
        key_password: Option<String>,
    ) -> PyResult<Self> {
        let trust = match (insecure, trust) {
            (true, _) => Trust::Anybody,
            (false, Some(path)) => Trust::File(path),
            (false, None) => Trust::System(system),
        };
        let by_name = matches!(trust, Trust::System(_));
        let own = cert.map(|cert| (cert.clone(), key.unwrap_or(cert)));
        let made = py.detach(|| {
            client_config(&ClientFiles {
                trust,
                by_name,
                own,
                key_password: key_password.as_deref(),
            })
        });
        let config = made.map_err(|e| to_py(py, &e))?;
        Ok(TlsClient { config })
    }
}

fn to_py(py: Python<'_>, error: &TlsError) -> PyErr {
    raise(py, "ConfigError", error.to_string())
}
