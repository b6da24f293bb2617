//! `TlsContext`: which certificate the connections of a server get, and whether they speak TLS.

use super::error::raise;
use pyo3::prelude::*;
use pyrmq_tls::{ClientAuth, Files, Mode, TlsError, self_signed_config, server_config};
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

fn to_py(py: Python<'_>, error: &TlsError) -> PyErr {
    raise(py, "ConfigError", error.to_string())
}
