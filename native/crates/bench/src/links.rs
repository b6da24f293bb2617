//! The connections of a run: which thread has them, and which queues are whose.

use crate::config::{Config, Kind, MOST_PRODUCERS};
use crate::consume::Consumer;
use crate::pop::Popper;
use crate::produce::{Place, Producer};
use crate::template;
use crate::worker::{Job, Link};

/// The connections of each thread, and of each producer whether it is one-way.
pub fn links(config: &Config) -> Result<(Vec<bool>, Vec<Vec<Link>>), String> {
    let mut threads: Vec<Vec<Link>> = (0..config.threads).map(|_| Vec::new()).collect();
    let mut oneway = Vec::new();
    let mut at = 0;
    for (role_index, role) in config.roles.iter().enumerate() {
        if role.produces() {
            template::check(role)?;
        }
        let brokers = role.brokers();
        let of = role.connections.max(brokers.len());
        for index in 0..of {
            let addr = brokers[index % brokers.len()];
            let all =
                (0..role.targets.len() as u32).filter(|t| role.targets[*t as usize].addr == addr);
            // Connections to the same broker: this one's place among them.
            let (own, many) = (
                index / brokers.len(),
                (of - index % brokers.len()).div_ceil(brokers.len()),
            );
            let targets: Vec<u32> = match role.kind {
                Kind::Push => all.skip(own).step_by(many).collect(),
                _ => all.collect(),
            };
            if targets.is_empty() {
                continue; // more consumers than queues
            }
            let job = if let Kind::Pop { .. } = role.kind {
                Job::Pop(Popper::new(index as u64, role_index, targets))
            } else if role.kind.consumes() {
                Job::Consume(Consumer::new(index as u64, role_index, role, targets))
            } else {
                let id = u16::try_from(oneway.len())
                    .map_err(|_| format!("{MOST_PRODUCERS} producers at most"))?;
                oneway.push(role.kind == Kind::Oneway);
                let queues = (targets.len(), role.targets.len());
                let place = Place::of(index, (brokers.len(), own, many), queues);
                Job::Produce(Producer::new(id, role_index, place, targets))
            };
            threads[at % config.threads].push(Link::new(addr, role.in_flight, job));
            at += 1;
        }
    }
    threads.retain(|links| !links.is_empty());
    Ok((oneway, threads))
}
