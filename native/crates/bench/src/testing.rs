//! What several tests use.

use crate::config::{Config, Kind, Role, Target};
use crate::plan::Shared;

/// A role with one queue.
pub fn role(kind: Kind) -> Role {
    Role {
        kind,
        connections: 1,
        in_flight: 1,
        rate: None,
        payloads: vec![b"hello".to_vec()],
        compressed: false,
        wait: true,
        tags: vec![("A".into(), 1.0)],
        keys: 5,
        properties: vec![("region".into(), "\"eu\"".into())],
        group: "G".into(),
        targets: vec![target()],
        max_msgs: 32,
        subscription: "*".into(),
        expression: "TAG".into(),
        from_start: false,
        held: false,
    }
}

/// Queue 12 of T.
pub fn target() -> Target {
    Target {
        topic: "T".into(),
        broker: "broker-a".into(),
        addr: ([127, 0, 0, 1], 10911).into(),
        queue: 12,
    }
}

/// A run of one connection and so many messages, which has not begun.
pub fn shared(role: Role, count: u64) -> Shared {
    let config = Config {
        roles: vec![role],
        threads: 1,
        duration: None,
        count: Some(count),
        warmup: 0.0,
        timeout: 1.0,
        settle: 1.0,
        go_on: false,
        binary: false,
        verify: false,
        pids: Vec::new(),
        hdr: None,
        credentials: None,
        tls: None,
    };
    Shared::new(config, vec![false])
}
