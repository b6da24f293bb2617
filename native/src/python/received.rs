//! `read_records`: the records of a pull's answer as the client's message objects.

use super::error::raise;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyrmq_format::host::Host;
use pyrmq_format::properties::pairs;
use pyrmq_format::record::{self, Found, View, sys_flag};
use pyrmq_format::{candidate, get_i32};

/// Text and the object that was made of it.
#[derive(Default)]
struct Text<'a, 'py> {
    raw: &'a [u8],
    made: Option<Bound<'py, PyString>>,
}

impl<'a, 'py> Text<'a, 'py> {
    fn of(&mut self, py: Python<'py>, raw: &'a [u8]) -> Bound<'py, PyString> {
        if let Some(made) = self.made.as_ref().filter(|_| self.raw == raw) {
            return made.clone();
        }
        let made = PyString::new(py, &String::from_utf8_lossy(raw));
        self.raw = raw;
        self.made.insert(made).clone()
    }
}

/// An address and its text.
#[derive(Default)]
struct Address<'py>(Option<(Host, Bound<'py, PyString>)>);

impl<'py> Address<'py> {
    fn of(&mut self, py: Python<'py>, host: Host, scratch: &mut Vec<u8>) -> Bound<'py, PyString> {
        if let Some((_, made)) = self.0.as_ref().filter(|(known, _)| *known == host) {
            return made.clone();
        }
        scratch.clear();
        host.push_text(scratch);
        let made = PyString::new(py, &String::from_utf8_lossy(scratch));
        self.0.insert((host, made)).1.clone()
    }
}

/// Makes messages of one answer. They share what is alike from one to the next: their topic, hosts,
/// and most names and many values of properties.
struct Maker<'a, 'py> {
    class: Bound<'py, PyAny>,
    broker_name: Bound<'py, PyString>,
    topic: Text<'a, 'py>,
    born_host: Address<'py>,
    store_host: Address<'py>,
    /// Names and values, by their place in the property string.
    properties: Vec<(Text<'a, 'py>, Text<'a, 'py>)>,
    scratch: Vec<u8>,
}

impl<'a, 'py> Maker<'a, 'py> {
    /// Places of the property string that are compared with the message before.
    const PLACES: usize = 16;

    fn make(&mut self, r: &'a [u8], v: &View) -> PyResult<Bound<'py, PyAny>> {
        let py = self.class.py();
        let (born_host, store_host) = record::hosts(r);
        self.scratch.clear();
        store_host.push_message_id(v.phys as u64, &mut self.scratch);
        let id = PyString::new(py, &String::from_utf8_lossy(&self.scratch));
        let properties = self.properties(&r[v.props.clone()])?;
        let args: [Bound<'py, PyAny>; 18] = [
            self.topic.of(py, &r[v.topic.clone()]).into_any(),
            PyBytes::new(py, &r[v.body.clone()]).into_any(),
            v.queue_id.into_pyobject(py)?.into_any(),
            v.queue_offset.into_pyobject(py)?.into_any(),
            v.phys.into_pyobject(py)?.into_any(),
            v.flag.into_pyobject(py)?.into_any(),
            v.sys_flag.into_pyobject(py)?.into_any(),
            v.born_timestamp.into_pyobject(py)?.into_any(),
            self.born_host
                .of(py, born_host, &mut self.scratch)
                .into_any(),
            v.store_timestamp.into_pyobject(py)?.into_any(),
            self.store_host
                .of(py, store_host, &mut self.scratch)
                .into_any(),
            v.reconsume_times.into_pyobject(py)?.into_any(),
            v.prepared_transaction_offset.into_pyobject(py)?.into_any(),
            v.total.into_pyobject(py)?.into_any(),
            get_i32(r, 8).into_pyobject(py)?.into_any(),
            properties.into_any(),
            id.into_any(),
            self.broker_name.clone().into_any(),
        ];
        call(&self.class, &args)
    }

    fn properties(&mut self, text: &'a [u8]) -> PyResult<Bound<'py, PyDict>> {
        let py = self.class.py();
        let dict = PyDict::new(py);
        for (at, (name, value)) in pairs(text).enumerate() {
            if at == self.properties.len() && at < Self::PLACES {
                self.properties.push(Default::default());
            }
            match self.properties.get_mut(at) {
                Some((names, values)) => dict.set_item(names.of(py, name), values.of(py, value))?,
                None => {
                    dict.set_item(Text::default().of(py, name), Text::default().of(py, value))?
                }
            }
        }
        Ok(dict)
    }
}

/// `class(*args)`, without a tuple.
fn call<'py>(
    class: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>; 18],
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let pointers = args.each_ref().map(|arg| arg.as_ptr());
    // SAFETY: this thread is attached to the interpreter (`py`); `class` and all of `args`, which
    // outlive the call, are live objects, and their number is that of the array. The result is a new
    // reference, or null with an error set, which is what `from_owned_ptr_or_err` takes.
    unsafe {
        let made = pyo3::ffi::PyObject_Vectorcall(
            class.as_ptr(),
            pointers.as_ptr(),
            pointers.len(),
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// The records that `data` is, back to back, as objects of `class`, which takes the fields of
/// `pyrmq.model.record.ReceivedMessage` in their order. Bodies come as they are stored.
///
/// Returns the messages, what is wrong with each record that is damaged and left out, and whether
/// a message is compressed or an inner batch. ProtocolError where the sizes do not add up.
#[pyfunction]
pub fn read_records<'py>(
    py: Python<'py>,
    data: &[u8],
    class: Bound<'py, PyAny>,
    broker_name: Bound<'py, PyString>,
) -> PyResult<(Bound<'py, PyList>, Vec<String>, bool)> {
    let mut maker = Maker {
        class,
        broker_name,
        topic: Text::default(),
        born_host: Address::default(),
        store_host: Address::default(),
        properties: Vec::new(),
        scratch: Vec::new(),
    };
    let (messages, mut damage, mut packed) = (PyList::empty(py), Vec::new(), false);
    let mut rest = data;
    while !rest.is_empty() {
        let size = rest.first_chunk().map_or(0, |&b| i32::from_be_bytes(b));
        let sized = usize::try_from(size).ok().filter(|&size| size > 0);
        let Some((r, behind)) = sized.and_then(|size| rest.split_at_checked(size)) else {
            let text = "not message records: sizes do not add up".to_owned();
            return Err(raise(py, "ProtocolError", text));
        };
        rest = behind;
        match record::read(r, true) {
            Found::Record(view) => {
                packed |= view.sys_flag & (sys_flag::COMPRESSED | sys_flag::INNER_BATCH) != 0;
                messages.append(maker.make(r, &view)?)?;
            }
            Found::Blank => damage.push(damaged(r, "a blank record")),
            Found::Invalid(why) => damage.push(damaged(r, why)),
        }
    }
    Ok((messages, damage, packed))
}

fn damaged(r: &[u8], why: &str) -> String {
    match candidate::stated_phys(r) {
        Some(phys) => format!("not a message record: {why}, at {phys} as it says"),
        None => format!("not a message record: {why}"),
    }
}
