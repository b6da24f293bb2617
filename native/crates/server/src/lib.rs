//! Serves connections: what their sockets received goes to their sessions, and what the sessions
//! answer goes back.
//!
//! ```text
//! socket  --receive-->  transform.open  --plain bytes-->  session.feed
//! socket  <---send----  transform.seal  <--plain bytes--  session (behind the group commit)
//! ```
//!
//! `ReadyLoop` does this for all sockets that one poll reports, `AnswerSender` sends answers that
//! were kept until their records were confirmed. Both do only what is plain, and report the
//! connections that need more. Whoever owns the sockets accepts, closes and waits.
//!
//! `ha_tls` puts TLS under the HA channel of the store.
//!
//! Nothing here makes a system call except `descriptor`: the loop takes its sockets, its poll with
//! the clock, and its log as traits (`Socket`, `Poll`, `Log`), so that tests run it in memory.

mod answer_sender;
mod buffers;
mod connection;
mod descriptor;
mod ha_tls;
mod held_flush;
mod patience;
mod poll;
mod ready_loop;
mod report;
mod socket;
mod transform;
mod visit;

#[cfg(test)]
mod confirm_tests;
#[cfg(test)]
mod descriptor_tests;
#[cfg(test)]
mod ha_tls_tests;
#[cfg(test)]
mod loop_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tls_tests;

pub use answer_sender::AnswerSender;
pub use buffers::clear_out;
pub use connection::{Connection, Moment, Piece, Received, Status};
pub use descriptor::{Descriptor, Epoll};
pub use ha_tls::{ha_client, ha_server};
pub use poll::{Poll, Ready};
pub use ready_loop::{Log, ReadyLoop, Served, Until, Written};
pub use report::Report;
pub use socket::Socket;
pub use transform::{Tls, Transform};
pub use visit::Visit;
