//! A simulated network that a program in Python sends its own packets through.

use crate::engine::locked;
use crate::error::{Failure, SpecError};
use knee_sim::Spec;
use knee_test::{Ecn, Error, Net, Port, Scenario, Time};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard};

/// A network. One thread at a time uses it.
#[pyclass(name = "Network", module = "knee", frozen)]
pub struct PyNetwork(Mutex<Net>);

/// A packet that came out: time (ns), path, whether at the far end, bytes, ECN field, codepoint, time at which it was
/// sent and how long it waited in queues (ns).
type Delivered<'py> = (u64, u32, bool, Bound<'py, PyBytes>, u8, u8, u64, u64);
/// A packet that a link dropped: time (ns), path, whether it came from the far end, time at which it was sent (ns), the
/// link's number, the reason and its size (bytes).
type Dropped = (u64, u32, bool, u64, usize, String, usize);
/// A link's figures: mean, 95th, 99th percentile and maximum of the queueing delay (ns), drops, marks, utilization
/// (0 to 1), bytes and throughput (bit/s).
type Figures = (u64, u64, u64, u64, u64, u64, f64, u64, f64);

/// The figures of a flow of the simulator's: payload delivered (bytes), its mean rate (bit/s), data packets sent and
/// those deemed lost.
type Sent = (u64, f64, u64, u64);

const fn port(path: u32, far: bool) -> Port {
    if far { Port::far(path) } else { Port::near(path) }
}

impl PyNetwork {
    fn lock(&self) -> Result<MutexGuard<'_, Net>, Failure> {
        locked(&self.0)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "map_err gives it away")]
fn refused(error: Error) -> PyErr {
    match error {
        Error::Write { error, .. } => Failure::Capture(error).into(),
        other => SpecError::new_err(other.to_string()),
    }
}

#[pymethods]
impl PyNetwork {
    /// The network of a specification (JSON): its links, the paths of its first `paths` flows, and its changes.
    #[new]
    fn new(spec_json: &str, paths: usize) -> PyResult<Self> {
        let spec: Spec = serde_json::from_str(spec_json).map_err(Failure::Json)?;
        let Spec { seed, duration, warmup, interval, links, flows, changes, tcp, quic } = spec;
        let path = |flow: &knee_net::spec::FlowSpec| knee_test::Path {
            label: flow.label.clone(),
            rtt: flow.rtt,
            links: flow.path.clone(),
            reverse: flow.reverse,
            tunnel: flow.tunnel,
            dscp: flow.dscp,
        };
        // A network sends no probes.
        let flows = flows.into_iter().take(paths);
        let (paths, flows) = flows.map(|flow| (path(&flow), Ok(flow))).unzip();
        let (duration, probes) = (Some(duration), Vec::new());
        let scenario = Scenario { seed, duration, warmup, interval, links, paths, changes, flows, probes, tcp, quic };
        Ok(Self(Mutex::new(Net::new(&scenario).map_err(refused)?)))
    }

    /// Lets the simulator send what the specification says of a flow.
    fn background(&self, flow: &str) -> PyResult<()> {
        self.lock()?.background(flow).map_err(refused)
    }

    /// The figures of such a flow up to the latest time told.
    fn flow(&self, name: &str) -> PyResult<Sent> {
        let flow = self.lock()?.flow(name).map_err(refused)?;
        Ok((flow.delivered(), flow.goodput(), flow.sent(), flow.lost()))
    }

    /// Sends a datagram, or a whole IP packet where `ip` is true, at this time (ns).
    fn send(&self, now: u64, path: u32, far: bool, data: &[u8], ecn: u8, ip: bool) -> PyResult<()> {
        let (now, port, mut net) = (Time::from_nanos(now), port(path, far), self.lock()?);
        let sent = if ip { net.send_ip(now, port, data) } else { net.send(now, port, data, Ecn::from_bits(ecn)) };
        sent.map_err(refused)
    }

    /// When something happens inside next, ns. None: nothing does until something is sent.
    fn next(&self) -> PyResult<Option<u64>> {
        Ok(self.lock()?.next().map(Time::as_nanos))
    }

    /// Lets time pass up to `now` (ns); gives what has come out.
    fn poll<'py>(&self, py: Python<'py>, now: u64) -> PyResult<Vec<Delivered<'py>>> {
        let mut net = self.lock()?;
        let came = net.poll(Time::from_nanos(now)).map_err(refused)?;
        let row = |it: knee_test::Delivered| {
            let (path, far) = (it.port.path(), it.port.is_far());
            let bytes = PyBytes::new(py, &it.bytes);
            (it.at.as_nanos(), path, far, bytes, it.ecn.bits(), it.dscp, it.sent.as_nanos(), it.queued.as_nanos())
        };
        Ok(came.map(row).collect())
    }

    /// Drops of all links so far.
    fn drops(&self) -> PyResult<Vec<Dropped>> {
        let row = |it: &knee_test::Dropped| {
            let (path, far, reason) = (it.from.path(), it.from.is_far(), format!("{:?}", it.reason));
            (it.at.as_nanos(), path, far, it.sent.as_nanos(), it.link, reason, it.size)
        };
        Ok(self.lock()?.drops().iter().map(row).collect())
    }

    /// The names of the links, reverse directions that queue last.
    #[getter]
    fn link_names(&self) -> PyResult<Vec<String>> {
        Ok(self.lock()?.link_names().map(str::to_owned).collect())
    }

    /// The figures of a link up to the latest time told.
    fn link(&self, name: &str) -> PyResult<Figures> {
        let link = self.lock()?.link(name).map_err(refused)?;
        let waited = link.queueing();
        let [mean, p95, p99, max] = [waited.mean(), waited.p95(), waited.p99(), waited.max()].map(Time::as_nanos);
        Ok((mean, p95, p99, max, link.drops(), link.marks(), link.utilization(), link.bytes(), link.throughput()))
    }

    /// The address of an end of a path, as captures show it.
    #[staticmethod]
    fn address(path: u32, far: bool) -> (String, u16) {
        let address = Net::address(port(path, far));
        (address.ip().to_string(), address.port())
    }

    /// Keeps the first `size` bytes of each packet for captures from now on.
    fn capture(&self, size: usize) -> PyResult<()> {
        self.lock()?.capture(size);
        Ok(())
    }

    /// The packets so far as a pcapng file.
    fn pcap<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.lock()?.pcap()))
    }
}
