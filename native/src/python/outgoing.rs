//! `MessageText`: the client's messages as what a send request says of them.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString, PyType};
use pyrmq_format::host::Host;
use pyrmq_format::names::RETRY_PREFIX;
use pyrmq_format::properties::{MAX_LEN, NAME_END, VALUE_END, push};
use pyrmq_format::unique_key::push_new;
use pyrmq_store::now_ms;
use std::net::{IpAddr, SocketAddr};

/// Properties that make another kind of message, or that a message has a field for.
const OTHERS: [&str; 14] = [
    "WAIT",
    "TAGS",
    "KEYS",
    "UNIQ_KEY",
    "INSTANCE_ID",
    "DELAY",
    "MSG_TYPE",
    "TRAN_MSG",
    "PGROUP",
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS",
    "TIMER_DEL_UNIQKEY",
    "_SYS_MSG_PRIORITY_",
];

/// Reads messages that are exactly of `class` (`pyrmq.model.message.Message`) and usual: right in all
/// but their topic's name, at most `max_message_size` bytes, no retry topic's, neither delayed nor
/// with a priority or a property that means something to brokers. For all others the answers are None.
///
/// `ip`: the sender's address, for the keys. `namespace`: of the sender, or empty.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct MessageText {
    class: Py<PyType>,
    host: Host,
    namespace: String,
    max_message_size: usize,
}

/// What is read of one message.
struct Usual<'py> {
    key: Bound<'py, PyString>,
    /// The property string.
    text: Vec<u8>,
    body: Bound<'py, PyBytes>,
    flag: i32,
}

#[pymethods]
impl MessageText {
    #[new]
    fn new(
        class: Py<PyType>,
        ip: &str,
        namespace: String,
        max_message_size: usize,
    ) -> PyResult<Self> {
        Ok(MessageText {
            class,
            host: host_of(ip)?,
            namespace,
            max_message_size,
        })
    }

    /// The message's key and its property string.
    fn properties<'py>(
        &self,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyString>, Bound<'py, PyString>)>> {
        let Some(usual) = self.read(message)? else {
            return Ok(None);
        };
        let text = PyString::new(message.py(), &String::from_utf8_lossy(&usual.text));
        Ok(Some((usual.key, text)))
    }

    /// The message's key, and what it is in a batch: size, magic and CRC (zeros), flag, body and
    /// properties with their lengths.
    fn entry<'py>(
        &self,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyString>, Bound<'py, PyBytes>)>> {
        let Some(Usual {
            key,
            text,
            body,
            flag,
        }) = self.read(message)?
        else {
            return Ok(None);
        };
        let body = body.as_bytes();
        let size = 22 + body.len() + text.len();
        let made = PyBytes::new_with(message.py(), size, |out| {
            out[..4].copy_from_slice(&(size as i32).to_be_bytes());
            out[12..16].copy_from_slice(&flag.to_be_bytes());
            out[16..20].copy_from_slice(&(body.len() as i32).to_be_bytes());
            let (to, rest) = out[20..].split_at_mut(body.len());
            to.copy_from_slice(body);
            rest[..2].copy_from_slice(&(text.len() as i16).to_be_bytes());
            rest[2..].copy_from_slice(&text);
            Ok(())
        })?;
        Ok(Some((key, made)))
    }
}

impl MessageText {
    fn read<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Option<Usual<'py>>> {
        let py = message.py();
        if !message.get_type().is(&self.class) {
            return Ok(None);
        }
        let none = |name| -> PyResult<bool> { Ok(message.getattr(name)?.is_none()) };
        let whole = |name| -> PyResult<Option<i64>> {
            let value = message.getattr(name)?;
            Ok(value
                .cast_exact::<PyInt>()
                .ok()
                .and_then(|n| n.extract().ok()))
        };
        if !none(intern!(py, "delay"))?
            || !none(intern!(py, "deliver_at"))?
            || !none(intern!(py, "priority"))?
            || whole(intern!(py, "delay_time_level"))? != Some(0)
        {
            return Ok(None);
        }
        let flag = whole(intern!(py, "flag"))?.and_then(|flag| i32::try_from(flag).ok());
        let topic = message.getattr(intern!(py, "topic"))?;
        let body = message.getattr(intern!(py, "body"))?;
        let (Some(flag), Some(topic), Ok(body)) =
            (flag, text_of(&topic), body.cast_into_exact::<PyBytes>())
        else {
            return Ok(None);
        };
        let size = body.as_bytes().len();
        if topic.as_bytes().starts_with(RETRY_PREFIX) || size == 0 || size > self.max_message_size {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(192);
        if !self.push_all(message, &mut text)? {
            return Ok(None);
        }
        let key = new_key(py, &self.host);
        push(&mut text, b"UNIQ_KEY", key.to_str()?.as_bytes());
        if !self.namespace.is_empty() {
            push(&mut text, b"INSTANCE_ID", self.namespace.as_bytes());
        }
        Ok((text.len() <= MAX_LEN).then_some(Usual {
            key,
            text,
            body,
            flag,
        }))
    }

    /// Appends what the message's own fields say; false if one of them is not usual.
    fn push_all(&self, message: &Bound<'_, PyAny>, text: &mut Vec<u8>) -> PyResult<bool> {
        let py = message.py();
        let own = message.getattr(intern!(py, "properties"))?;
        let Ok(own) = own.cast_exact::<PyDict>() else {
            return Ok(false);
        };
        for (name, value) in own {
            let (Some(name), Some(value)) = (text_of(&name), text_of(&value)) else {
                return Ok(false);
            };
            if !is_part(name) || !is_part(value) || OTHERS.contains(&name) {
                return Ok(false);
            }
            push(text, name.as_bytes(), value.as_bytes());
        }
        let wait = message.getattr(intern!(py, "wait_store_ok"))?;
        let Ok(wait) = wait.cast_exact::<PyBool>() else {
            return Ok(false);
        };
        push(
            text,
            b"WAIT",
            if wait.is_true() {
                b"true".as_slice()
            } else {
                b"false"
            },
        );
        for (name, field) in [("TAGS", intern!(py, "tags")), ("KEYS", intern!(py, "keys"))] {
            let value = message.getattr(field)?;
            if value.is_none() {
                continue;
            }
            let joined = match value.cast_exact::<PyList>() {
                Ok(list) if name == "KEYS" => Some(intern!(py, " ").call_method1("join", (list,))),
                _ => None,
            };
            let value = match joined {
                Some(Ok(joined)) => joined,
                Some(Err(_)) => return Ok(false), // a key that is no text
                None => value,
            };
            match text_of(&value) {
                Some("") => {}
                Some(value) if is_part(value) => push(text, name.as_bytes(), value.as_bytes()),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A key that no other message has, of a sender with this address.
#[pyfunction]
pub fn unique_key<'py>(py: Python<'py>, ip: &str) -> PyResult<Bound<'py, PyString>> {
    Ok(new_key(py, &host_of(ip)?))
}

fn new_key<'py>(py: Python<'py>, host: &Host) -> Bound<'py, PyString> {
    let mut key = Vec::with_capacity(56);
    push_new(&mut key, host, now_ms());
    PyString::new(py, &String::from_utf8_lossy(&key))
}

fn host_of(ip: &str) -> PyResult<Host> {
    let parsed: Result<IpAddr, _> = ip.parse();
    let ip = parsed.map_err(|_| PyValueError::new_err(format!("{ip:?} is no IP address")))?;
    Ok(Host::new(SocketAddr::new(ip, 0)))
}

/// A str that UTF-8 can hold.
fn text_of<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// Whether a property may have this name or value.
fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.bytes().any(|b| b == NAME_END || b == VALUE_END)
}
