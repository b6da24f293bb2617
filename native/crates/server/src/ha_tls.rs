//! TLS on the HA channel: what the store wants between a socket and its log.

use pyrmq_store::ha::Cover;
use pyrmq_tls::{ClientStream, Context, End, HELLO, StreamOf};
use std::sync::Arc;

/// A stream of either end.
struct Covered<E>(StreamOf<E>);

impl<E: End + Send> Cover for Covered<E> {
    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>) -> Result<(), String> {
        self.0.open(received, plain).map_err(with_advice)
    }

    fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.seal(plain, out)
    }

    fn is_ready(&self) -> bool {
        self.0.is_established()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.0.close(out);
    }
}

/// What a slave's connection to a master gets.
pub fn ha_client(stream: ClientStream) -> Box<dyn Cover> {
    Box::new(Covered(stream))
}

/// What a connection gets that begins with this byte. A plain slave's first report begins with the
/// highest byte of an offset, which is 0.
pub fn ha_server(context: &Arc<Context>, first: u8) -> Result<Option<Box<dyn Cover>>, String> {
    if first != HELLO {
        let plain = context.plain().map(|()| None);
        return plain.map_err(|why| format!("{why}: set tls.enable=true at the slave"));
    }
    let stream = context.hello()?;
    Ok(Some(Box::new(Covered(stream))))
}

/// What rustls says, and where to look.
const ADVICE: [(&str, &str); 7] = [
    (
        "peer sent no certificates",
        "set tls.client.certPath and tls.client.keyPath at the slave",
    ),
    (
        "received fatal alert: CertificateRequired",
        "the master wants a certificate: set tls.client.certPath and tls.client.keyPath here",
    ),
    (
        "received fatal alert",
        "the peer does not take this side's certificate or version of TLS: its log says more; its \
         trustCertPath has to name who signed the certificate here",
    ),
    ("Expired", "the peer needs a new certificate"),
    (
        "not valid for name",
        "set tls.client.trustCertPath here: then names are not compared",
    ),
    (
        "invalid peer certificate",
        "trustCertPath here (tls.server.… at a master, tls.client.… at a slave) has to name who \
         signed the peer's certificate",
    ),
    (
        "received corrupt message",
        "the peer speaks no TLS: a master may have tls.server.mode=disabled, or be Apache RocketMQ",
    ),
];

fn with_advice(why: String) -> String {
    match ADVICE.iter().find(|(said, _)| why.contains(said)) {
        Some((_, advice)) => format!("{why}: {advice}"),
        None => why,
    }
}
