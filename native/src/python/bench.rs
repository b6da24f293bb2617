//! `BenchRun`: a run of the load generator. `BenchFloor`: what a broker is measured against.

use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList};
use pyrmq_bench::floor::Floor;
use pyrmq_bench::report::{IntervalRow, Latency, Report, Server, Verified};
use pyrmq_bench::{Config, Credentials, Kind, Role, Run, Target, Tls};
use pyrmq_tls::{ClientFiles, ServerName, Trust, client_config};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A role as a dict: see `pyrmq_bench::config`, whose names these are.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RoleDict {
    kind: String,
    /// Of a batch: messages; of delay: its level and ms, of timer 0 and ms.
    batch: u32,
    delay: (u32, u64),
    /// Of a transaction: END_TRANSACTION has no answer.
    oneway_end: bool,
    /// Of pop: ms.
    invisible: u64,
    connections: usize,
    in_flight: usize,
    rate: Option<f64>,
    payloads: Vec<Vec<u8>>,
    compressed: bool,
    wait: bool,
    tags: Vec<(String, f64)>,
    keys: u64,
    properties: Vec<(String, String)>,
    group: String,
    /// (topic, broker's name, ip:port, queue)
    targets: Vec<(String, String, String, u32)>,
    max_msgs: u32,
    subscription: String,
    expression: String,
    from_start: bool,
    held: bool,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ConfigDict {
    roles: Vec<RoleDict>,
    threads: usize,
    duration: Option<f64>,
    count: Option<u64>,
    warmup: f64,
    timeout: f64,
    settle: f64,
    go_on: bool,
    binary: bool,
    verify: bool,
    pids: Vec<u32>,
    hdr: Option<PathBuf>,
    /// Access key, secret key and security token (empty: none) of who signs all requests.
    credentials: Option<(String, PyBackedStr, String)>,
    tls: Option<TlsDict>,
}

/// How brokers are reached with TLS; PEM files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsDict {
    /// Who is trusted; None: whoever `system` has.
    ca: Option<PathBuf>,
    system: Vec<PathBuf>,
    /// Certificate and key.
    own: Option<(PathBuf, PathBuf)>,
    password: Option<PyBackedStr>,
    any_name: bool,
    insecure: bool,
    /// ip:port of a broker, and its name.
    names: HashMap<String, String>,
}

impl TlsDict {
    fn tls(&self) -> Result<Tls, String> {
        let mut names = HashMap::new();
        for (addr, name) in &self.names {
            let addr: SocketAddr = addr
                .parse()
                .map_err(|_| format!("{addr:?} is no IP address and port"))?;
            let name = ServerName::try_from(name.as_str())
                .map_err(|_| format!("{name:?} is no name that a certificate can have"))?;
            names.insert(addr, name.to_owned());
        }
        let trust = match (self.insecure, &self.ca) {
            (true, _) => Trust::Anybody,
            (false, Some(path)) => Trust::File(path.clone()),
            (false, None) => Trust::System(self.system.clone()),
        };
        let config = client_config(&ClientFiles {
            trust,
            by_name: !self.any_name,
            own: self.own.clone(),
            key_password: self.password.as_deref(),
        })
        .map_err(|e| e.to_string())?;
        Ok(Tls { config, names })
    }
}

impl RoleDict {
    fn role(self) -> Result<Role, String> {
        let kind = match self.kind.as_str() {
            "send" => Kind::Send,
            "batch" => Kind::Batch {
                messages: self.batch,
            },
            "oneway" => Kind::Oneway,
            "transaction" => Kind::Transaction {
                oneway: self.oneway_end,
            },
            "delay" => Kind::Delay {
                level: self.delay.0,
                ms: self.delay.1,
            },
            "timer" => Kind::Timer { ms: self.delay.1 },
            "pull" => Kind::Pull,
            "push" => Kind::Push,
            "pop" => Kind::Pop {
                invisible_ms: self.invisible,
            },
            other => return Err(format!("no kind of role: {other:?}")),
        };
        let target = |(topic, broker, addr, queue): (String, String, String, u32)| {
            let parsed: Result<SocketAddr, _> = addr.parse();
            let addr = parsed.map_err(|_| format!("{addr:?} is no IP address and port"))?;
            Ok(Target {
                topic,
                broker,
                addr,
                queue,
            })
        };
        Ok(Role {
            kind,
            connections: self.connections,
            in_flight: self.in_flight,
            rate: self.rate,
            payloads: self.payloads,
            compressed: self.compressed,
            wait: self.wait,
            tags: self.tags,
            keys: self.keys,
            properties: self.properties,
            group: self.group,
            targets: self
                .targets
                .into_iter()
                .map(target)
                .collect::<Result<_, String>>()?,
            max_msgs: self.max_msgs,
            subscription: self.subscription,
            expression: self.expression,
            from_start: self.from_start,
            held: self.held,
        })
    }
}

impl ConfigDict {
    fn config(self) -> Result<Config, String> {
        Ok(Config {
            roles: self
                .roles
                .into_iter()
                .map(RoleDict::role)
                .collect::<Result<_, String>>()?,
            threads: self.threads,
            duration: self.duration,
            count: self.count,
            warmup: self.warmup,
            timeout: self.timeout,
            settle: self.settle,
            go_on: self.go_on,
            binary: self.binary,
            verify: self.verify,
            pids: self.pids,
            hdr: self.hdr,
            credentials: self
                .credentials
                .map(|(access, secret, token)| Credentials::new(access, &secret, token)),
            tls: self.tls.map(|tls| tls.tls()).transpose()?,
        })
    }
}

/// A run of the load generator in threads of its own. It begins at once; dropping it stops it.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct BenchRun {
    run: Mutex<Option<Run>>,
}

#[pymethods]
impl BenchRun {
    /// ValueError if the configuration is wrong.
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, PyDict>) -> PyResult<Self> {
        let config: ConfigDict = config.extract()?;
        let run = py
            .detach(|| Run::start(config.config()?))
            .map_err(PyValueError::new_err)?;
        Ok(BenchRun {
            run: Mutex::new(Some(run)),
        })
    }

    /// How it stands, as a dict: see engine.pyi.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        let Some(snapshot) = self.run.lock().as_ref().map(Run::snapshot) else {
            d.set_item("state", "ended")?;
            return Ok(d);
        };
        d.set_item("state", snapshot.state)?;
        d.set_item("seconds", snapshot.seconds)?;
        d.set_item("produced_rate", snapshot.produced_rate)?;
        d.set_item("consumed_rate", snapshot.consumed_rate)?;
        d.set_item("latency", kinds(py, &snapshot.latency)?)?;
        d.set_item("produced", snapshot.produced)?;
        d.set_item("consumed", snapshot.consumed)?;
        d.set_item("errors", snapshot.errors)?;
        d.set_item("behind", snapshot.behind)?;
        d.set_item("unreceived", snapshot.unreceived)?;
        Ok(d)
    }

    /// Closes the measured window now. Returns at once.
    fn stop(&self) {
        if let Some(run) = &*self.run.lock() {
            run.stop();
        }
    }

    /// Whether `finish` need not wait.
    fn ended(&self) -> bool {
        self.run.lock().as_ref().is_none_or(Run::ended)
    }

    /// Waits for the end, and returns what was found as a dict: see engine.pyi. Once only. ValueError
    /// if nothing was measured: no server could be reached, for example.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(run) = self.run.lock().take() else {
            return Err(PyValueError::new_err("its result was taken before"));
        };
        let report = py.detach(|| run.finish()).map_err(PyValueError::new_err)?;
        report_dict(py, &report)
    }
}

/// The floor: the least that a broker can do. It serves in a thread; dropping it stops it.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct BenchFloor(Floor);

#[pymethods]
impl BenchFloor {
    /// Listens on this loopback port (0: a free one), with its files below `directory`. `sync`: each
    /// write is followed by fdatasync. OSError if that fails.
    #[new]
    fn new(py: Python<'_>, directory: PathBuf, sync: bool, port: u16) -> PyResult<Self> {
        py.detach(|| Floor::start(&directory, sync, port))
            .map(BenchFloor)
            .map_err(PyOSError::new_err)
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    /// Whether it serves no more.
    fn ended(&self) -> bool {
        self.0.ended()
    }

    /// Ends it and removes its files. OSError if it had failed.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.stop()).map_err(PyOSError::new_err)
    }
}

/// p50, p99 and maximum by kind of latency.
fn kinds<'py>(py: Python<'py>, rows: &[(&'static str, [f64; 3])]) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    for (name, row) in rows {
        d.set_item(name, row.to_vec())?;
    }
    Ok(d)
}

fn latency_dict<'py>(py: Python<'py>, l: &Latency) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("count", l.count)?;
    d.set_item("min", l.min)?;
    d.set_item("mean", l.mean)?;
    d.set_item("p50", l.p50)?;
    d.set_item("p90", l.p90)?;
    d.set_item("p99", l.p99)?;
    d.set_item("p999", l.p999)?;
    d.set_item("p9999", l.p9999)?;
    d.set_item("max", l.max)?;
    let curve: Vec<Vec<f64>> = l.curve.iter().map(|(p, us)| vec![*p, *us]).collect();
    d.set_item("curve", curve)?;
    Ok(d)
}

fn verify_dict<'py>(py: Python<'py>, v: &Verified) -> PyResult<Bound<'py, PyDict>> {
    let (d, t) = (PyDict::new(py), &v.totals);
    d.set_item("sent", t.sent)?;
    d.set_item("acknowledged", t.acknowledged)?;
    d.set_item("refused", t.refused)?;
    d.set_item("unknown", t.unknown)?;
    d.set_item("received", t.received)?;
    d.set_item("twice", t.twice)?;
    d.set_item("lost", t.lost)?;
    d.set_item("unknown_received", t.unknown_received)?;
    d.set_item("refused_received", t.refused_received)?;
    d.set_item("out_of_order", v.out_of_order)?;
    d.set_item("foreign", v.foreign)?;
    d.set_item("consumed", v.consumed)?;
    Ok(d)
}

fn server_dict<'py>(py: Python<'py>, s: &Server) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("pid", s.pid)?;
    d.set_item("name", &s.name)?;
    d.set_item("cpu_seconds", s.cpu_seconds)?;
    d.set_item("rss_bytes", s.rss)?;
    d.set_item("max_rss_bytes", s.max_rss)?;
    d.set_item("read_bytes", s.read)?;
    d.set_item("written_bytes", s.written)?;
    d.set_item("ended", s.ended)?;
    Ok(d)
}

fn interval_dict<'py>(py: Python<'py>, i: &IntervalRow) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("at", i.at)?;
    d.set_item("seconds", i.seconds)?;
    d.set_item("produced", i.produced)?;
    d.set_item("consumed", i.consumed)?;
    d.set_item("errors", i.errors)?;
    d.set_item("latency", kinds(py, &i.latency)?)?;
    d.set_item("measured", i.measured)?;
    d.set_item("behind", i.behind)?;
    d.set_item("unreceived", i.unreceived)?;
    Ok(d)
}

fn report_dict<'py>(py: Python<'py>, r: &Report) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("ended", r.ended)?;
    d.set_item("why", &r.why)?;
    d.set_item("seconds", r.seconds)?;
    let counts = |c: &pyrmq_bench::report::Counts| (c.messages, c.requests, c.bytes);
    d.set_item("produced", counts(&r.produced))?;
    d.set_item("consumed", counts(&r.consumed))?;
    let latency = PyDict::new(py);
    for one in &r.latency {
        latency.set_item(one.kind, latency_dict(py, one)?)?;
    }
    d.set_item("latency", latency)?;
    let errors = PyList::empty(py);
    for one in &r.errors {
        let row = PyDict::new(py);
        row.set_item("kind", one.kind)?;
        row.set_item("code", one.code)?;
        row.set_item("name", &one.name)?;
        row.set_item("count", one.count)?;
        row.set_item("first", &one.first)?;
        errors.append(row)?;
    }
    d.set_item("errors", errors)?;
    let verify = r.verify.as_ref().map(|v| verify_dict(py, v)).transpose()?;
    d.set_item("verify", verify)?;
    d.set_item("cpu_seconds", r.cpu_seconds)?;
    d.set_item("busy", r.busy)?;
    d.set_item("late_us", r.late_p99)?;
    let servers = PyList::empty(py);
    for one in &r.servers {
        servers.append(server_dict(py, one)?)?;
    }
    d.set_item("servers", servers)?;
    d.set_item("connections", (r.connections, r.lost, r.reconnected))?;
    let intervals = PyList::empty(py);
    for one in &r.intervals {
        intervals.append(interval_dict(py, one)?)?;
    }
    d.set_item("intervals", intervals)?;
    d.set_item("behind", r.behind)?;
    d.set_item("sent", r.sent)?;
    d.set_item("failed", r.failed)?;
    d.set_item("received", r.received)?;
    d.set_item("early", r.early)?;
    d.set_item("unreceived", r.unreceived)?;
    d.set_item("cut", r.cut)?;
    Ok(d)
}
