//! What the connections of one server share: the mode, and the certificate of now.

use crate::stream::Stream;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use std::sync::Arc;

/// RocketMQ's tls.server.mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A TLS hello ends the connection.
    Disabled,
    /// TLS or plain, as the first byte of a connection says.
    Permissive,
    /// Whatever is not TLS ends the connection.
    Enforcing,
}

impl Mode {
    pub fn named(name: &str) -> Option<Mode> {
        match name {
            "disabled" => Some(Mode::Disabled),
            "permissive" => Some(Mode::Permissive),
            "enforcing" => Some(Mode::Enforcing),
            _ => None,
        }
    }
}

pub struct Context {
    mode: Mode,
    config: ArcSwapOption<ServerConfig>,
}

impl Context {
    /// Without a configuration there is no certificate: a TLS hello ends the connection.
    pub fn new(mode: Mode, config: Option<Arc<ServerConfig>>) -> Self {
        Context {
            mode,
            config: ArcSwapOption::from(config),
        }
    }

    /// Connections from now on get `config`; those that are there keep what they have.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        self.config.store(Some(config));
    }

    /// A stream for a connection that begins with a TLS hello. The error says why it gets none.
    pub fn hello(&self) -> Result<Stream, String> {
        if self.mode == Mode::Disabled {
            return Err("it speaks TLS, and tls.server.mode=disabled".into());
        }
        let Some(config) = self.config.load_full() else {
            return Err("it speaks TLS, and there is no certificate (tls.server.certPath)".into());
        };
        Stream::new(config).map_err(|e| format!("TLS: {e}"))
    }

    /// Whether a connection may go on without TLS. The error says why it may not.
    pub fn plain(&self) -> Result<(), String> {
        match self.mode {
            Mode::Enforcing => Err("it does not speak TLS, and tls.server.mode=enforcing".into()),
            _ => Ok(()),
        }
    }
}
