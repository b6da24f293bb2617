//! What lies between a socket and its session: the socket's bytes become plain ones and back.

/// Opens what was received and seals what is to be sent, for one connection.
#[derive(Default)]
pub enum Transform {
    /// The socket carries the session's bytes as they are.
    #[default]
    Plain,
}

impl Transform {
    /// The plain bytes of what the socket received.
    pub fn open<'b>(&mut self, received: &'b [u8]) -> &'b [u8] {
        match self {
            Transform::Plain => received,
        }
    }

    /// What the socket is to send for plain bytes. All of it is to be sent, in order.
    pub fn seal<'b>(&mut self, plain: &'b [u8]) -> &'b [u8] {
        match self {
            Transform::Plain => plain,
        }
    }
}
