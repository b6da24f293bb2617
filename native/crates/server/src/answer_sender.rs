//! Sends the answers of many connections that were kept until their records were confirmed.

use super::connection::Connection;
use super::socket::Socket;
use super::visit::Visit;

#[derive(Default)]
pub struct AnswerSender {
    visits: Vec<Visit>,
    out: Vec<u8>,
}

impl AnswerSender {
    /// Sends what each session releases at `now_ms`; see `Session::release`. Returns the connections
    /// for which something is left to do, by their index.
    pub fn send<'c, S: Socket>(
        &mut self,
        to: impl Iterator<Item = (&'c Connection, S)>,
        now_ms: i64,
        timeout_ms: i64,
    ) -> &[Visit] {
        self.visits.clear();
        for (i, (connection, socket)) in to.enumerate() {
            let mut visit = Visit::new(i as i32);
            visit.release(connection, &socket, now_ms, timeout_ms, &mut self.out);
            if visit.is_left(connection) {
                self.visits.push(visit);
            }
        }
        &self.visits
    }
}
