//! Replication: a master's log on its way to slaves. [DefaultHAService]
//!
//! `master` and `slave` are the two ends of a connection without their socket: what arrived goes in,
//! what to send comes out, and the time is told. `sender` and `receiver` drive them on a socket, each in
//! a thread of its caller, through a `channel`, which TLS may cover. `replicas` knows what all slaves of a
//! master have, and moves the barrier.

mod channel;
#[cfg(test)]
mod channel_tests;
#[cfg(test)]
mod confirmed_tests;
mod frame;
mod master;
mod receiver;
mod replicas;
mod sender;
#[cfg(test)]
mod simulation_tests;
mod slave;
mod socket;
#[cfg(test)]
mod tests;

pub use channel::{Cover, Doorman};
pub use frame::{HEADER_LEN, REPORT_LEN};
pub use master::{Log, MasterLink, MasterSettings, Step};
pub use receiver::{Ended, Receiver};
pub use replicas::{Replica, Replicas, Rule};
pub use sender::Senders;
pub use slave::{SlaveLink, SlaveSettings};
