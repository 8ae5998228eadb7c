//! Conformance vectors for congestion control: short scripts on an ideal path, each with what a standard says must
//! follow, and what breaking it costs. `docs/conformance.md` explains them.
//!
//! ```
//! use knee_conform::{Own, conform};
//! use knee_core::Params;
//!
//! let cubic = knee_cc::find("cubic").unwrap();
//! let report = conform("cubic", &Own::new(cubic, Params::defaults(cubic.params))).unwrap();
//! println!("{report}");
//! report.assert_conforms();
//! ```
//!
//! [`Implementation`] and [`Subject`] are what an implementation is fitted to; [`Program`] is one in any language.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod own;
mod path;
mod play;
mod program;
mod report;
mod subject;
mod value;
mod vector;

pub use own::{Make, Own};
pub use play::{INITIAL_CWND, Off, Verdict, Watch, play, play_watched};
pub use program::Program;
pub use report::{Judged, Reasons, Report, details, judge};
pub use subject::{Acked, Event, Implementation, Lost, MSS, Packet, Rate, Sent, Shown, Start, Subject};
pub use value::{Expected, Key, Noted, Values};
pub use vector::{Acks, App, Level, Path, Span, Step, Vector, VectorError, read};

use serde::Deserialize;
use std::convert::Infallible;
use thiserror::Error;

/// An algorithm that has vectors.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The texts.
    pub texts: &'static str,
    /// The algorithm of knee that implements it, and its parameters where they are not the defaults.
    pub own: &'static str,
    /// A parameter of that, and its value.
    pub param: Option<(&'static str, &'static str)>,
    file: &'static str,
    toml: &'static str,
}

macro_rules! suite {
    ($name:literal, $file:literal, $own:literal, $param:expr, $texts:literal) => {
        Suite {
            name: $name,
            texts: $texts,
            own: $own,
            param: $param,
            file: concat!("vectors/", $file),
            toml: include_str!(concat!("../vectors/", $file)),
        }
    };
}

/// The algorithms that have vectors.
pub const SUITES: [Suite; 6] = [
    suite!("bbr", "bbr.toml", "bbr3", None, "draft-ietf-ccwg-bbr-06"),
    suite!("cubic", "cubic.toml", "cubic", Some(("slow_start", "standard")), "RFC 9438"),
    suite!("newreno", "newreno.toml", "reno", None, "RFC 9002, RFC 5681, RFC 6582"),
    suite!("hystart++", "hystart.toml", "reno", Some(("slow_start", "hystart++")), "RFC 9406"),
    suite!("lola", "lola.toml", "lola", None, "LoLa, IEEE LCN 2017"),
    suite!("daimd", "daimd.toml", "daimd", None, "Delay-based AIMD, PFLDnet 2007"),
];

/// The departures that have a reason.
const DEPARTURES: &str = include_str!("../vectors/departures.toml");

/// Why nothing can be judged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// No such algorithm has vectors.
    #[error("{0} has no vectors; expected one of {known}", known = known())]
    Unknown(String),
    /// A file of vectors is wrong.
    #[error(transparent)]
    Vectors(#[from] VectorError),
}

fn known() -> String {
    SUITES.map(|suite| suite.name).join(", ")
}

impl Suite {
    /// The algorithm of this name: the suite's, or that of knee's algorithm.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none.
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let named = SUITES.iter().find(|suite| suite.name == name);
        named.or_else(|| SUITES.iter().find(|suite| suite.own == name)).ok_or_else(|| Error::Unknown(name.into()))
    }

    /// Its vectors.
    ///
    /// # Errors
    /// [`Error::Vectors`] if a file that ships is wrong, which a test excludes.
    pub fn vectors(&self) -> Result<Vec<Vector>, Error> {
        Ok(read(self.file, self.toml)?)
    }
}

/// Plays all vectors of an algorithm.
///
/// # Errors
/// [`Error::Unknown`] if the algorithm has none.
pub fn conform(algorithm: &str, implementation: &dyn Implementation) -> Result<Report, Error> {
    let suite = Suite::find(algorithm)?;
    let judged = judge(&suite.vectors()?, suite.name, implementation, &reasons(), || Ok::<_, Infallible>(()));
    Ok(judged.unwrap_or_else(|never| match never {}))
}

/// Reasons on record, by implementation and vector.
///
/// # Panics
/// If the file that ships is wrong, which a test excludes.
pub fn reasons() -> Reasons {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Departs {
        implementation: String,
        vector: String,
        why: String,
    }
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        departs: Vec<Departs>,
    }
    let file: File = toml::from_str(DEPARTURES).expect("the file ships, and a test reads it");
    file.departs.into_iter().map(|one| ((one.implementation, one.vector), one.why)).collect()
}
