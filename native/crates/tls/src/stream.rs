//! One connection's TLS: what was received becomes plain bytes, plain bytes become records.

use crate::side::Side;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, Error, ServerConfig};
use std::sync::Arc;

/// Most bytes that are kept of records that are not whole, and of a message of the handshake that has
/// several records. A record has 18 KiB at most.
const MOST_HELD: usize = 32 << 10;
/// Bytes of the front of a record, which says how long it is.
const FRONT: usize = 5;
/// Most bytes that a record carries.
const FRAGMENT: usize = 16 << 10;
/// Bytes of a record beside what it carries, at most.
const AROUND: usize = 64;

/// The peer broke TLS; the text says how. What is pending is to be sent, then the connection is to be
/// closed.
pub type Refusal = String;

/// A server's connection that began with a TLS hello, or a client's.
pub struct Stream<S: Side = UnbufferedServerConnection> {
    connection: S,
    /// The front of what has not arrived as a whole.
    held: Vec<u8>,
    /// Where its last record, which is not whole, begins.
    begun: usize,
    /// Records of TLS itself, to be sent before anything else.
    pending: Vec<u8>,
    established: bool,
    closed: bool,
    refused: bool,
}

/// The client's end of a connection.
pub type ClientStream = Stream<UnbufferedClientConnection>;

impl Stream {
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Stream::of(UnbufferedServerConnection::new(config)?))
    }
}

impl ClientStream {
    /// To a server whose certificate must have this name. Its hello is pending.
    pub fn connect(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Refusal> {
        let connection = UnbufferedClientConnection::new(config, name).map_err(refusal)?;
        let mut stream = Stream::of(connection);
        stream.process(&mut [], &mut Vec::new())?;
        Ok(stream)
    }
}

impl<S: Side> Stream<S> {
    fn of(connection: S) -> Self {
        Stream {
            connection,
            held: Vec::new(),
            begun: 0,
            pending: Vec::new(),
            established: false,
            closed: false,
            refused: false,
        }
    }

    /// The handshake is done.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// The peer broke TLS, and nothing more is sent but the alert.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// The peer has said that it sends nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Records of TLS itself are to be sent; `seal` puts them out.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes of memory that are kept for what has not arrived as a whole, and for what is pending.
    pub fn kept(&self) -> usize {
        self.held.capacity() + self.pending.capacity()
    }

    /// Opens what was received, which is overwritten, and appends what it carried to `plain`.
    pub fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Refusal> {
        let opened = self.open_all(received, plain);
        self.refused |= opened.is_err();
        opened
    }

    fn open_all(&mut self, mut received: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Refusal> {
        while !self.held.is_empty() && !received.is_empty() {
            let (wanted, is_front) = missing(&self.held[self.begun..]);
            let n = wanted.min(received.len());
            let (now, later) = received.split_at_mut(n);
            self.held.extend_from_slice(now);
            received = later;
            if n < wanted && !is_front {
                return Ok(());
            }
            let mut held = std::mem::take(&mut self.held);
            let used = self.process(&mut held, plain)?; // of a front: whether it may be one
            if !is_front {
                self.begun = held.len() - used;
            }
            if used < held.len() {
                held.drain(..used);
                self.held = held; // a front, or a message of several records: the next one follows
            }
            self.check_held()?;
        }
        if received.is_empty() || self.closed {
            return Ok(());
        }
        let used = self.process(received, plain)?;
        let rest = &received[used..];
        if !rest.is_empty() && !self.closed {
            self.begun = last_record(rest);
            self.held.extend_from_slice(rest);
            self.check_held()?;
        }
        Ok(())
    }

    fn check_held(&self) -> Result<(), Refusal> {
        match self.held.len() > MOST_HELD {
            true => Err(format!(
                "TLS: a message of more than {MOST_HELD} bytes is not taken"
            )),
            false => Ok(()),
        }
    }

    /// Handles the whole records in front, and returns how many bytes that were.
    fn process(&mut self, buffer: &mut [u8], plain: &mut Vec<u8>) -> Result<usize, Refusal> {
        let mut used = 0;
        loop {
            let status = self.connection.process_tls_records(&mut buffer[used..]);
            let UnbufferedStatus { discard, state } = status;
            used += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(refusal)?;
                        plain.extend_from_slice(record.payload);
                        used += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, &mut self.pending).ok_or("TLS: a record cannot be encoded")?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.established = true;
                    return Ok(used);
                }
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => return Ok(used),
                Ok(_) => return Err("TLS: early data is not taken".into()),
                Err(error) => {
                    self.refused = true;
                    self.put_alert();
                    return Err(refusal(error));
                }
            }
        }
    }

    /// The alert that the connection has queued with an error becomes pending.
    fn put_alert(&mut self) {
        // What is queued comes out before anything is read; nothing may be read any more.
        while self.connection.wants_write() {
            let status = self.connection.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(data)) = status.state else {
                return;
            };
            encode(data, &mut self.pending);
        }
    }

    /// Appends what is pending, and `plain` in records, to `out`. Behind an alert nothing more is sent.
    /// An error before the handshake is done: `plain` cannot be sent yet.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        out.append(&mut self.pending);
        self.pending = Vec::new(); // an idle connection keeps no buffer
        if plain.is_empty() || self.refused {
            return Ok(());
        }
        let size = plain.len() + (plain.len() / FRAGMENT + 1) * AROUND;
        let mut did = false;
        self.write(out, |traffic, out| {
            did = append(out, size, |place| {
                traffic.encrypt(plain, place).map_err(size_wanted)
            })
            .is_some();
        });
        match did {
            true => Ok(()),
            false => Err("TLS: nothing can be sent on this connection".into()),
        }
    }

    /// Appends what says that nothing more is sent (close_notify), if the handshake is done.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.refused || !self.established {
            return;
        }
        out.append(&mut self.pending);
        self.write(out, |traffic, out| {
            append(out, AROUND, |place| {
                traffic.queue_close_notify(place).map_err(size_wanted)
            });
        });
    }

    /// Calls `work` if plain bytes can be sent now. Records of TLS itself that were queued come first.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        work: impl FnOnce(&mut WriteTraffic<'_, S::Data>, &mut Vec<u8>),
    ) {
        loop {
            // What is held has been seen already: it stands in front as before.
            let status = self.connection.process_tls_records(&mut self.held);
            debug_assert_eq!(status.discard, 0);
            match status.state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    if encode(data, out).is_none() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    work(&mut traffic, out);
                    return;
                }
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                _ => return,
            }
        }
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> Option<()> {
    append(out, 0, |place| {
        data.encode(place).map_err(|e| match e {
            EncodeError::InsufficientSize(e) => Some(e),
            EncodeError::AlreadyEncoded => None,
        })
    })
}

fn size_wanted(error: EncryptError) -> Option<InsufficientSizeError> {
    match error {
        EncryptError::InsufficientSize(e) => Some(e),
        EncryptError::EncryptExhausted => None,
    }
}

fn refusal(error: Error) -> Refusal {
    format!("TLS: {error}")
}

/// Lets `put` write behind `out`, into `size` bytes or as many as it says. None: it failed.
fn append(
    out: &mut Vec<u8>,
    size: usize,
    mut put: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Option<()> {
    let start = out.len();
    out.resize(start + size, 0);
    let mut put_now = put(&mut out[start..]);
    if let Err(Some(more)) = &put_now {
        out.resize(start + more.required_size, 0);
        put_now = put(&mut out[start..]);
    }
    out.truncate(start + *put_now.as_ref().unwrap_or(&0));
    put_now.ok().map(|_| ())
}

/// Bytes that a record needs until it is whole, or until its front is (then true).
fn missing(record: &[u8]) -> (usize, bool) {
    match record.get(3..FRONT) {
        None => (FRONT - record.len(), true),
        Some(len) => {
            let total = FRONT + usize::from(u16::from_be_bytes([len[0], len[1]]));
            (total.saturating_sub(record.len()), false)
        }
    }
}

/// Where the last record begins, which is not whole.
fn last_record(records: &[u8]) -> usize {
    let mut at = 0;
    while let (n, false) = missing(&records[at..])
        && n == 0
        && let Some(len) = records[at..].get(3..FRONT)
    {
        at += FRONT + usize::from(u16::from_be_bytes([len[0], len[1]]));
    }
    at
}
