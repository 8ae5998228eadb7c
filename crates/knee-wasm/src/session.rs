//! A simulation that goes on in stretches.

use crate::hand::Hand;
use crate::packets::{Book, Packets};
use crate::scene::Scene;
use knee_core::Time;
use knee_core::convert::truncated;
use knee_sim::{Rows, Simulation, Spec};
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};

/// A request to simulate.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A specification, as the Python package hands it over. Packets are not watched, so that time may pass in batches.
    Spec(Box<Spec>),
    /// The state of a page. Packets are watched.
    Scene(Box<Scene>),
    /// The text of a scenario file that is only shown.
    File(String),
}

impl Request {
    /// The scenario file of a scene.
    ///
    /// # Errors
    /// If it has none.
    pub fn toml(&self) -> Result<String, String> {
        match self {
            Self::Scene(scene) => scene.toml().map_err(|error| error.to_string()),
            Self::File(text) => Ok(text.clone()),
            Self::Spec(_) => Err("Only a scene is exported as a scenario file.".into()),
        }
    }
}

/// Steps between two looks at how many there were.
const STEPS: u64 = 1 << 14;

/// A simulation, and what is watched of it.
pub struct Session {
    simulation: Option<Simulation>,
    /// The rows of one that has been finished, and when that was.
    rows: Rows,
    ended: Time,
    book: Option<Arc<Mutex<Book>>>,
    hand: Arc<Mutex<Hand>>,
}

/// Locks what only one thread uses.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Begins at time 0.
    ///
    /// # Errors
    /// The reason for which the request is refused.
    pub fn new(request: &Request) -> Result<Self, String> {
        let hand = Arc::new(Mutex::new(Hand::default()));
        let told;
        let (spec, scene) = match request {
            Request::Spec(spec) => (&**spec, None),
            Request::File(text) => {
                told = crate::open::spec(text)?;
                (&told, None)
            }
            Request::Scene(scene) => {
                told = scene.spec().map_err(|error| error.to_string())?;
                (&told, Some(scene))
            }
        };
        let own = crate::hand::own(&hand);
        let mut simulation = Simulation::with_own(spec, &[own]).map_err(|error| error.to_string())?;
        let book = scene.map(|scene| {
            lock(&hand).rates.extend(scene.hand.iter().map(|&(at, rate)| (Time::from_micros(at), rate)));
            let book = Arc::new(Mutex::new(Book::default()));
            simulation.tap(Box::new(Packets(Arc::clone(&book))));
            book
        });
        Ok(Self { simulation: Some(simulation), rows: Rows::default(), ended: Time::ZERO, book, hand })
    }

    /// Simulated time, ns.
    pub fn now(&self) -> f64 {
        self.simulation.as_ref().map_or(self.ended, Simulation::now).as_nanos() as f64
    }

    /// Lets time pass until `until` (ns), or for about `steps` steps. 0: it goes on; 1: that time has come; 2: the end.
    pub fn advance(&mut self, until: f64, steps: f64) -> u32 {
        let Some(simulation) = &mut self.simulation else { return 2 };
        let until = Time::from_nanos(truncated(until));
        let most = simulation.work().saturating_add(truncated(steps));
        while simulation.work() < most {
            let now = simulation.now();
            if now >= until {
                return 1;
            }
            // A run without an appointment is not asked for the time after every event.
            let goes_on = if until == Time::MAX {
                simulation.step(STEPS)
            } else {
                simulation.run_until(until.min(now + Time::from_millis(1)))
            };
            if !goes_on {
                return 2;
            }
        }
        0
    }

    /// From `at` (ns) on the flow that is steered by hand sends at `rate` (bit/s).
    pub fn steer(&self, at: f64, rate: f64) {
        let now = self.simulation.as_ref().map_or(Time::MAX, Simulation::now);
        lock(&self.hand).rates.push((Time::from_nanos(truncated(at)).max(now), truncated(rate)));
    }

    /// Puts each packet on record from now on, or none.
    pub fn record_packets(&self, on: bool) {
        if let Some(book) = &self.book {
            lock(book).records = on;
        }
    }

    /// Forgets the packets on record.
    pub fn forget_packets(&self) {
        if let Some(book) = &self.book {
            lock(book).seen.clear();
        }
    }

    /// The figures in JSON.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&mut self) -> Result<String, String> {
        let Some(simulation) = self.simulation.take() else { return Ok(String::new()) };
        self.ended = simulation.now();
        let obstacle = simulation.obstacle().map(|obstacle| obstacle.to_string());
        let (output, rows) = simulation.finish().map_err(|error| error.to_string())?;
        self.rows = rows;
        let mut figures = serde_json::to_value(&output).map_err(|error| error.to_string())?;
        figures["event_by_event"] = serde_json::json!(obstacle);
        Ok(figures.to_string())
    }

    /// The names of events so far.
    pub fn event_names(&mut self) -> Vec<String> {
        self.rows().event_names().to_vec()
    }

    fn rows(&mut self) -> &Rows {
        match &mut self.simulation {
            Some(simulation) => simulation.rows(),
            None => &self.rows,
        }
    }

    /// Reads a table; an empty one where there is none of this number.
    pub fn with_table<T>(&mut self, number: u32, read: impl FnOnce(&[u8]) -> T) -> T {
        if let (4 | 5, Some(book)) = (number, &self.book) {
            let mut book = lock(book);
            return read(if number == 4 {
                bytemuck::cast_slice(&book.seen)
            } else {
                bytemuck::cast_slice(book.held())
            });
        }
        let rows = self.rows();
        read(match number {
            1 => bytemuck::cast_slice(&rows.samples),
            2 => bytemuck::cast_slice(&rows.links),
            3 => bytemuck::cast_slice(&rows.events),
            6 => bytemuck::cast_slice(&rows.completions),
            7 => bytemuck::cast_slice(&rows.delays),
            8 => bytemuck::cast_slice(&rows.distributions),
            _ => &[],
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::packets::{Seen, What};
    use crate::scene::{CALL, SceneChange, SceneFlow, To, takes_packets};
    use knee_sim::LinkRow;
    use proptest::prelude::*;

    pub(crate) fn any_scene() -> impl Strategy<Value = Scene> {
        let queues: Vec<_> =
            knee_queue::registry().iter().map(|entry| entry.name).filter(|name| takes_packets(name)).collect();
        let ccs: Vec<_> = knee_cc::registry().iter().map(|entry| entry.name).chain([CALL]).collect();
        let rtt = prop::option::of(1_000_u64..100_000);
        let times = (0_u64..1_000, prop::option::of(1_000_u64..2_000), rtt);
        let flow =
            (prop::sample::select(ccs), times, any::<bool>()).prop_map(|(cc, (start, stop, rtt), quic)| SceneFlow {
                cc: cc.into(),
                start: start * 1_000,
                stop: stop.map(|ms| ms * 1_000),
                rtt,
                quic: quic && cc != CALL,
            });
        let to = prop_oneof![
            (100_000_u64..30_000_000).prop_map(To::Rate),
            (1_000_u64..200_000).prop_map(To::Rtt),
            (2_u64..300).prop_map(To::Buffer),
            (0.0..0.1).prop_map(To::Loss),
        ];
        let change = (1_u64..1_999_999, to).prop_map(|(at, to)| SceneChange { at, to });
        let link = (500_000_u64..30_000_000, 1_000_u64..100_000, 2_u64..200, prop_oneof![Just(0.0), 0.0..0.05]);
        let flows = prop::collection::vec(flow, 1..4);
        let changes = prop::collection::vec(change, 0..4);
        (link, prop::sample::select(queues), any::<bool>(), flows, changes).prop_map(
            |((rate, rtt, buffer, loss), queue, ecn, flows, mut changes)| {
                changes.sort_by_key(|change| change.at);
                let (queue, duration, interval, seed, hand) = (queue.into(), 2_000_000, 20_000, 1, Vec::new());
                Scene { rate, rtt, buffer, loss, queue, ecn, duration, interval, seed, flows, changes, hand }
            },
        )
    }

    fn begin(scene: &Scene) -> Session {
        Session::new(&Request::Scene(Box::new(scene.clone()))).unwrap()
    }

    fn bits(session: &mut Session) -> (String, Vec<u8>) {
        let figures = session.finish().unwrap();
        (figures, (1..4).flat_map(|table| session.with_table(table, <[u8]>::to_vec)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_is_watched_is_what_the_link_counts(scene in any_scene()) {
            let mut session = begin(&scene);
            session.record_packets(true);
            let (mut rows, mut drops, mut counted) = (0, 0, 0);
            while session.simulation.as_mut().is_some_and(|simulation| simulation.step(1)) {
                let links: Vec<LinkRow> = session.with_table(2, |bytes| bytemuck::cast_slice(bytes).to_vec());
                let seen: Vec<Seen> = session.with_table(4, |bytes| bytemuck::cast_slice(bytes).to_vec());
                session.forget_packets();
                drops += seen.iter().filter(|seen| seen.what >> 16 & 0xff == What::Dropped as u32).count();
                if links.len() > rows {
                    rows = links.len();
                    let last = links[rows - 1];
                    counted += last.drops as usize;
                    let held = session.with_table(5, |bytes| bytes.len() / size_of::<Seen>());
                    prop_assert!((0..=1).contains(&(held - last.backlog_packets as usize)), "{} not {:?}", held, last);
                    prop_assert_eq!(drops, counted, "at {}", last.t_s);
                }
            }
            prop_assert!(rows > 50);
        }

        #[test]
        fn a_scene_in_stretches_gives_the_bits_of_one_at_once(scene in any_scene(), ms in 1_u32..70) {
            let (mut whole, mut parts) = (begin(&scene), begin(&scene));
            prop_assert_eq!(whole.advance(f64::INFINITY, 1e12), 2);
            let mut until = 0.0;
            loop {
                until += f64::from(ms) * 1e6;
                match parts.advance(until, 100.0) {
                    2 => break,
                    1 => prop_assert!(parts.now() >= until),
                    _ => until = parts.now(),
                }
            }
            prop_assert_eq!(bits(&mut whole), bits(&mut parts));
        }

        #[test]
        fn what_was_steered_by_hand_is_repeated_from_its_list(
            scene in any_scene(), rates in prop::collection::vec((1_u64..150, 100_000_u64..40_000_000), 1..20),
        ) {
            let mut scene = scene;
            let cc = crate::hand::NAME.into();
            scene.flows[0] = SceneFlow { cc, start: 0, stop: None, rtt: None, quic: false };
            let mut live = begin(&scene);
            let mut at = 0;
            for (ms, rate) in rates {
                at += ms * 1_000;
                live.advance(at as f64 * 1e3, 1e12);
                // As the page does: the next microsecond in which nothing has happened.
                let next = truncated(live.now() / 1e3) + 1;
                live.steer(next as f64 * 1e3, rate as f64);
                scene.hand.push((next, rate));
            }
            live.advance(f64::INFINITY, 1e12);
            let mut again = begin(&scene);
            again.advance(f64::INFINITY, 1e12);
            prop_assert_eq!(bits(&mut live), bits(&mut again));
        }
    }

    #[test]
    fn a_request_that_is_none_is_refused_by_name() {
        let scene = r#"{"scene": {"rate": 1000000, "rtt": 40000, "buffer": 100, "loss": 0, "queue": "pfifo",
            "ecn": false, "duration": 1000000, "interval": 20000, "seed": 1, "flows": [{"cc": "cubic", "start": 0}]}}"#;
        let said = |from: &str, to: &str| {
            let request = serde_json::from_str(&scene.replace(from, to)).map_err(|error| error.to_string());
            request.and_then(|request| Session::new(&request)).err().unwrap_or_default()
        };
        assert_eq!(said("", ""), "");
        let wrong = [
            ("\"rate\": 1000000", "\"rate\": 1", "`rate` is 1, but must be from 100000 to 1000000000 bit/s"),
            ("\"loss\": 0", "\"loss\": 0.5", "`loss` is 0.5, but must be from 0 to 0.2"),
            ("cubic", "cubix", "there is no congestion control `cubix` here"),
            ("pfifo", "bfifo", "there is no queue discipline `bfifo` here"),
            ("\"start\": 0", "\"start\": 1000000", "it must stop after it starts"),
            ("[{\"cc\": \"cubic\", \"start\": 0}]", "[]", "`flows` is 0, but must be from 1 to 20"),
            ("\"seed\"", "\"sead\"", "unknown field `sead`"),
            ("{\"scene\"", "{\"scenario\"", "unknown variant `scenario`"),
        ];
        for (from, to, expected) in wrong {
            let told = said(from, to);
            assert!(told.contains(expected), "{told}");
        }
    }
}
