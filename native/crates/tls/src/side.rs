//! What both ends of a connection have in common.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;

/// A server's or a client's end.
pub trait Side {
    type Data;

    fn process_tls_records<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn wants_write(&self) -> bool;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process_tls_records<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        (**self).process_tls_records(records)
    }

    fn wants_write(&self) -> bool {
        (**self).wants_write()
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process_tls_records<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        (**self).process_tls_records(records)
    }

    fn wants_write(&self) -> bool {
        (**self).wants_write()
    }
}
