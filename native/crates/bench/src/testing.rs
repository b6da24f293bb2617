//! What several tests use.

use crate::config::{Kind, Role, Target};

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
