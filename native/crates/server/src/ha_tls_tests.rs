//! A master and a slave with real stores, and TLS between them.

use crate::{ha_client, ha_server};
use pyrmq_store::ha::{Ended, MasterSettings, Receiver, Replicas, Rule, Senders, SlaveSettings};
use pyrmq_store::testing::append;
use pyrmq_store::{Store, StoreConfig};
use pyrmq_tls::testing::{Authority, Identity};
use pyrmq_tls::{
    ClientAuth, ClientFiles, ClientStream, Context, Files, Mode, ServerName, Trust, client_config,
    server_config,
};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct World {
    dir: tempfile::TempDir,
    ours: Authority,
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

impl World {
    fn new() -> Self {
        World {
            dir: tempfile::tempdir().unwrap(),
            ours: Authority::new(),
        }
    }

    fn files(&self, name: &str, identity: &Identity) -> (PathBuf, PathBuf) {
        let dir = self.dir.path();
        (
            write(dir, &format!("{name}.pem"), &identity.cert),
            write(dir, &format!("{name}.key"), &identity.key),
        )
    }

    fn trust(&self) -> PathBuf {
        write(self.dir.path(), "ours.pem", &self.ours.pem())
    }

    /// A master's context, which wants certificates of clients.
    fn context(&self, mode: Mode) -> Arc<Context> {
        let (cert, key) = self.files("master", &self.ours.sign("master"));
        let config = server_config(&Files {
            key,
            key_password: None,
            cert,
            client_auth: ClientAuth::Require,
            verify_clients: true,
            trust: Some(self.trust()),
        });
        Arc::new(Context::new(mode, Some(config.unwrap())))
    }

    fn client(&self, shows: Option<&Identity>) -> ClientStream {
        let config = client_config(&ClientFiles {
            by_name: false,
            trust: Trust::File(self.trust()),
            own: shows.map(|identity| self.files("slave", identity)),
            key_password: None,
        });
        let name = ServerName::try_from("127.0.0.1").unwrap();
        ClientStream::connect(config.unwrap(), name).unwrap()
    }

    fn store(&self, name: &str, replica: bool) -> Arc<Store> {
        let mut config = StoreConfig::new(self.dir.path().join(name));
        config.commit_log_file_size = 1 << 20;
        config.index_enable = false;
        (config.replica, config.replicated) = (replica, !replica);
        Store::open(config).unwrap()
    }
}

fn send(store: &Store, body: &[u8]) -> u64 {
    let topic = store.topics().topic(b"T").unwrap();
    let mut guard = store.put().unwrap();
    let done = append(&mut guard, &topic, b"", body).unwrap();
    guard.write().unwrap();
    done.end()
}

fn eventually(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "it did not happen");
        std::thread::yield_now();
    }
}

/// One connection between a master with `mode` and a slave; what both say at its end. `during` runs
/// while it is there, and returns whether the master is to stop; else it ends by itself.
fn connect(
    world: &World,
    mode: Mode,
    client: Option<ClientStream>,
    during: impl FnOnce(&Store, &Store) -> bool,
) -> (Option<String>, Ended) {
    let (master, slave) = (world.store("m", false), world.store("s", true));
    let rule = Rule {
        in_sync: 2,
        least: 1,
        auto: false,
        max_gap: 1 << 28,
    };
    let settings = MasterSettings {
        chunk: 32 << 10,
        heartbeat: 5000,
        silence: 20_000,
        most_per_second: None,
    };
    let replicas = Arc::new(Replicas::new(master.clone(), rule));
    let senders = Arc::new(Senders::new(master.clone(), replicas, settings));
    let receiver = Arc::new(Receiver::new(
        slave.clone(),
        SlaveSettings {
            heartbeat: 5000,
            silence: 20_000,
        },
    ));
    let (a, b) = UnixStream::pair().unwrap();
    let context = world.context(mode);
    let serving = {
        let senders = senders.clone();
        std::thread::spawn(move || {
            let doorman = move |first| ha_server(&context, first);
            senders.serve(OwnedFd::from(a), "slave", Some(&doorman))
        })
    };
    let receiving = {
        let receiver = receiver.clone();
        std::thread::spawn(move || receiver.receive(OwnedFd::from(b), client.map(ha_client)))
    };
    if during(&master, &slave) {
        senders.stop();
    }
    let ended = (serving.join().unwrap(), receiving.join().unwrap());
    assert_eq!(
        ended.0.is_none(),
        slave.log().max_offset() > 0,
        "no stranger gets anything"
    );
    slave.close().unwrap();
    master.close().unwrap();
    ended
}

#[test]
fn what_is_acknowledged_is_on_both() {
    let world = World::new();
    let client = world.client(Some(&world.ours.sign("slave")));
    let ended = connect(&world, Mode::Enforcing, Some(client), |master, slave| {
        for n in 0..200usize {
            let end = send(master, &vec![n as u8; 17 * n]);
            eventually(|| master.barrier().is_confirmed(end));
            assert!(slave.log().max_offset() >= end);
        }
        let end = send(master, &vec![b'x'; 900 << 10]);
        eventually(|| master.barrier().is_confirmed(end));
        true
    });
    assert_eq!(ended.0, None);
    assert!(matches!(ended.1, Ended::Lost(why) if why.contains("the peer closed it")));
}

#[test]
fn who_is_refused_reads_why() {
    let world = World::new();
    let stranger = Authority::new().sign("slave");
    let known = || Some(world.client(Some(&world.ours.sign("slave"))));
    // The mode, the slave; what the master says, and what the slave does.
    let table = [
        (
            Mode::Enforcing,
            Some(world.client(None)),
            "set tls.client.certPath",
            "set tls.client.certPath",
        ),
        (
            Mode::Permissive,
            Some(world.client(Some(&stranger))),
            "has to name who signed",
            "received fatal alert",
        ),
        (
            Mode::Enforcing,
            None,
            "set tls.enable=true",
            "tls.enable=true here",
        ),
        (
            Mode::Disabled,
            known(),
            "tls.server.mode=disabled",
            "may have tls.server.mode=disabled",
        ),
    ];
    for (mode, client, at_master, at_slave) in table {
        let (master, slave) = connect(&world, mode, client, |master, _| {
            send(master, b"secret");
            false
        });

        let master = master.unwrap();
        assert!(master.contains(at_master), "{mode:?}: {master}");
        assert!(
            matches!(&slave, Ended::Lost(why) if why.contains(at_slave)),
            "{mode:?}: {slave:?}"
        );
    }
}
