//! `SendRows`: the rows of a record batch as the bodies of send requests.

use super::error::raise;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{RecordBatch, StructArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use pyrmq_arrow::EncodeError;
use pyrmq_arrow::encode::{self, Keys, Settings, Target};
use pyrmq_arrow::repeatable::Txn;
use pyrmq_arrow::send_rows::Columns;
use pyrmq_format::host::Host;
use pyrmq_format::unique_key::KeyRun;
use std::net::{IpAddr, SocketAddr};

/// The record batch behind an object with `__arrow_c_array__`.
pub(super) fn import(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let exported = batch.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = exported.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.as_ptr();
    let array = array.pointer_checked(Some(c"arrow_array"))?.as_ptr();
    // SAFETY: capsules of these names hold structures of the C data interface (PyCapsule protocol of
    // Arrow). The schema is only read; the array is moved out and marked as released, which is
    // what its capsule's destructor then finds.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.cast::<FFI_ArrowArray>());
        from_ffi(array, &*schema.cast::<FFI_ArrowSchema>())
    };
    let wrong = |e| PyValueError::new_err(format!("not an Arrow batch: {e}"));
    let mut data = data.map_err(wrong)?;
    // Whoever made it may have got offsets or text wrong; what follows relies on them.
    data.align_buffers();
    data.validate_full().map_err(wrong)?;
    if !matches!(data.data_type(), arrow_schema::DataType::Struct(_)) {
        return Err(PyValueError::new_err(
            "not a record batch: an array without columns",
        ));
    }
    if data.null_count() > 0 {
        return Err(PyValueError::new_err("a record batch with null rows"));
    }
    Ok(RecordBatch::from(StructArray::from(data)))
}

fn to_py(py: Python<'_>, first_row: u64, e: EncodeError) -> PyErr {
    match e {
        EncodeError::Row { row, why } => {
            let text = format!("row {}: {why}", first_row + row as u64);
            raise(py, "MessageIllegalError", text)
        }
        EncodeError::Column(text) | EncodeError::Usage(text) => PyValueError::new_err(text),
    }
}

/// One send request but for what its header says of the connection.
///
/// `topic`; `queue_id` and `broker_name` where the rows name them (None: any); `nth`: the number of
/// the queue in the topic's list that the sharding key selects, -1 without one; `batch`: whether
/// `body` is a batch (SEND_BATCH_MESSAGE) or one message's; `flag` and `properties` belong into the
/// header. `rows` messages are in it, the first of which is row `first_row` of all, the last `last_row`.
/// `key`: the unique key of the last, where `txn` was given.
#[pyclass(frozen, get_all, module = "pyrmq._native")]
pub struct SendRequest {
    topic: String,
    queue_id: Option<u32>,
    broker_name: Option<String>,
    nth: i64,
    batch: bool,
    flag: i32,
    properties: String,
    body: Py<PyBytes>,
    rows: usize,
    first_row: u64,
    last_row: u64,
    key: Option<String>,
}

/// Rows to send; `batch` is anything with `__arrow_c_array__`. All rows are checked first:
/// MessageIllegalError names the first that cannot be sent (`first_row` is the number of the batch's
/// first), ValueError a column that may not be there. Then `topics` says whose queues are needed,
/// `group` takes how many each has, and `next_request` gives one request after the other.
/// `txn`: (application, version, partition): unique keys are then a function of these and of what a
/// request carries.
#[pyclass(module = "pyrmq._native")]
pub struct SendRows {
    rows: encode::SendRows,
    first_row: u64,
}

#[pymethods]
impl SendRows {
    #[new]
    #[pyo3(signature = (batch, *, host, now_ms, topic=None, first_row=0, wait=true, drop_system=false,
                        max_message_size=4 << 20, batch_bytes=1 << 20, txn=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        host: &str,
        now_ms: i64,
        topic: Option<String>,
        first_row: u64,
        wait: bool,
        drop_system: bool,
        max_message_size: usize,
        batch_bytes: usize,
        txn: Option<(String, u64, u32)>,
    ) -> PyResult<Self> {
        let ip: IpAddr = host
            .parse()
            .map_err(|_| PyValueError::new_err(format!("{host:?} is no IP address")))?;
        if !(1..=16 << 20).contains(&max_message_size) || batch_bytes == 0 {
            return Err(PyValueError::new_err(
                "max_message_size and batch_bytes: 1 byte to 16 MiB",
            ));
        }
        let batch = import(batch)?;
        let settings = Settings {
            topic: topic.map(String::into_bytes),
            wait,
            drop_special: drop_system,
            max_message_size,
            batch_bytes,
        };
        let rows = py
            .detach(|| {
                let columns = Columns::new(&batch)?;
                let host = Host::new(SocketAddr::new(ip, 0));
                let count = u32::try_from(columns.rows).unwrap_or(u32::MAX);
                let keys = match txn {
                    None => Keys::Fresh(KeyRun::new(&host, now_ms, count)),
                    Some((app, version, partition)) => Keys::Repeatable(Txn {
                        app,
                        version,
                        partition,
                        first_row,
                    }),
                };
                encode::SendRows::new(columns, settings, keys)
            })
            .map_err(|e| to_py(py, first_row, e))?;
        Ok(SendRows { rows, first_row })
    }

    /// The topics that the rows go to.
    #[getter]
    fn topics(&self) -> Vec<String> {
        self.rows.topics().iter().map(|t| text(t)).collect()
    }

    /// How many rows there are.
    #[getter]
    fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// How many queues each of `topics` has.
    fn group(&mut self, py: Python<'_>, queues: Vec<u32>) -> PyResult<()> {
        let (rows, first) = (&mut self.rows, self.first_row);
        py.detach(|| rows.group(&queues))
            .map_err(|e| to_py(py, first, e))
    }

    /// The next request, None when all rows are in one.
    fn next_request(&mut self, py: Python<'_>) -> Option<SendRequest> {
        let rows = &mut self.rows;
        let r = py.detach(|| rows.next_request())?;
        let (queue_id, broker, nth) = match r.target {
            Target::Any => (None, None, -1),
            Target::Nth(n) => (None, None, n as i64),
            Target::Queue { id, broker } => (id, broker, -1),
        };
        Some(SendRequest {
            topic: text(&self.rows.topics()[r.topic as usize]),
            queue_id,
            broker_name: broker.map(|b| text(self.rows.broker(b))),
            nth,
            batch: r.batch,
            flag: r.flag,
            properties: text(&r.properties),
            body: PyBytes::new(py, &r.body).unbind(),
            rows: r.rows,
            first_row: self.first_row + r.first_row as u64,
            last_row: self.first_row + r.last_row as u64,
            key: r.key.map(|key| text(&key)),
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
