//! What lies between a socket and its session: the socket's bytes become plain ones and back.

use pyrmq_tls::{Context, HELLO, Refusal, Stream};
use std::sync::Arc;

/// Opens what was received and seals what is to be sent, for one connection.
#[derive(Default)]
pub enum Transform {
    /// The socket carries the session's bytes as they are.
    #[default]
    Plain,
    /// Nothing was received yet: the first byte decides.
    Undecided(Arc<Context>),
    Tls(Box<Stream>),
    /// The peer was refused with its first byte: nothing is received or sent.
    Refused,
}

/// How far a connection is, as `Report::tls` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tls {
    /// Plain, or nothing was received yet.
    None = 0,
    /// The handshake has begun.
    Handshake = 1,
    Established = 2,
    /// The peer has said that it sends nothing more (close_notify).
    Closed = 3,
    /// The peer broke TLS, or the mode does not take it.
    Refused = 4,
}

impl Transform {
    pub fn new(context: Option<Arc<Context>>) -> Self {
        context.map_or(Transform::Plain, Transform::Undecided)
    }

    /// Whether the socket carries the session's bytes as they are.
    pub fn is_plain(&self) -> bool {
        matches!(self, Transform::Plain | Transform::Undecided(_))
    }

    pub fn state(&self) -> Tls {
        match self {
            Transform::Plain | Transform::Undecided(_) => Tls::None,
            Transform::Refused => Tls::Refused,
            Transform::Tls(stream) => match (stream.is_established(), stream.is_closed()) {
                _ if stream.is_refused() => Tls::Refused,
                (_, true) => Tls::Closed,
                (true, false) => Tls::Established,
                (false, false) => Tls::Handshake,
            },
        }
    }

    /// Whether `seal` has something to say for TLS itself.
    pub fn has_pending(&self) -> bool {
        match self {
            Transform::Tls(stream) => stream.has_pending(),
            _ => false,
        }
    }

    /// The plain bytes of what the socket received, which stand in `received` or in `space`; and why
    /// nothing more is taken from it.
    pub fn open<'b>(
        &mut self,
        received: &'b mut [u8],
        space: &'b mut Vec<u8>,
    ) -> (&'b [u8], Result<(), Refusal>) {
        if let Transform::Undecided(context) = self {
            let decided = match received.first() {
                None => return (received, Ok(())),
                Some(&HELLO) => context.hello().map(|s| Transform::Tls(Box::new(s))),
                Some(_) => context.plain().map(|()| Transform::Plain),
            };
            match decided {
                Ok(decided) => *self = decided,
                Err(why) => {
                    *self = Transform::Refused;
                    return (&[], Err(why));
                }
            }
        }
        match self {
            Transform::Plain | Transform::Undecided(_) => (received, Ok(())),
            Transform::Refused => (&[], Ok(())),
            Transform::Tls(stream) => {
                let result = stream.open(received, space);
                (space, result)
            }
        }
    }

    /// What the socket is to send for plain bytes, and for TLS itself: it stands in `plain` or in
    /// `space`. All of it is to be sent, in order.
    pub fn seal<'b>(
        &mut self,
        plain: &'b [u8],
        space: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Refusal> {
        match self {
            Transform::Plain => Ok(plain),
            Transform::Undecided(context) => context.plain().map(|()| plain),
            Transform::Refused => Ok(&[]),
            Transform::Tls(stream) => {
                stream.seal(plain, space)?;
                Ok(space)
            }
        }
    }

    /// What the socket is to send at the very end: for TLS a close_notify.
    pub fn close<'b>(&mut self, space: &'b mut Vec<u8>) -> &'b [u8] {
        if let Transform::Tls(stream) = self {
            stream.close(space);
        }
        space
    }
}
