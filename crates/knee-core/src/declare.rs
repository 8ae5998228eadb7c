//! One declaration for a parameter: [`params!`](crate::params!) makes the list for a registry, the struct and the
//! reading of one text.

use crate::params::{Kind, Param, Params, Value};
use crate::units::{Bytes, Rate, Time};
use std::ops::RangeInclusive;
use std::slice::Iter;

/// Declares parameters: a struct with a field for each, their list for a registry, and how the struct is read.
///
/// A field is a parameter. Its doc comment is the line that listings show; then come type, default, range and source:
///
/// ```
/// use knee_core::{Params, Time, Value, choice, params};
///
/// choice! {
///     /// Whose algorithm it is.
///     pub enum Form {
///         /// The authors' program.
///         Program = "program",
///         /// The paper.
///         Paper = "paper",
///     }
/// }
///
/// params! {
///     /// What holds the queue.
///     pub struct Target {
///         /// queueing delay to hold
///         target: Time = Time::from_millis(5), in Time::ZERO..=Time::from_secs(1), from "RFC 6817, Sec. 2.5";
///     }
/// }
///
/// params! {
///     /// The parameters of an algorithm.
///     pub struct Settings {
///         #[flatten]
///         queue: Target;
///         /// share of the window that a loss leaves
///         beta: f64 = 0.7, in 0.1..=1.0, from "RFC 9438, 4.6";
///         /// packets of the initial window
///         first: u32 = 10, in 1..=1000, from "RFC 6928";
///         /// begin with slow start
///         slow_start: bool = true, from "ours: as all others";
///         /// the algorithm of the authors' program, or the paper's
///         form: Form = Form::Program, from "NSDI 2018";
///     }
/// }
///
/// // What an entry of a registry declares.
/// let names: Vec<_> = Settings::DECLARED.iter().map(|param| param.name).collect();
/// assert_eq!(names, ["target", "beta", "first", "slow_start", "form"]);
/// assert_eq!(Settings::DECLARED[1].about, "share of the window that a loss leaves");
///
/// // What its `make` reads.
/// let given = Params::resolve(Settings::DECLARED, [("beta", Value::Ratio(0.5))])?;
/// let settings = Settings::from(&given);
/// assert_eq!((settings.beta, settings.queue.target), (0.5, Time::from_millis(5)));
/// assert_eq!(Settings::default().form, Form::Program);
/// # Ok::<(), knee_core::ParamError>(())
/// ```
///
/// - Types are `Time`, `Rate`, `Bytes`, `u64`, `u32`, `u8`, `f64`, `bool`, and enums made by
///   [`choice!`](crate::choice!); the last two have no range. A range that the type cannot hold does not compile.
/// - A doc comment may have several lines, which listings join.
/// - `#[flatten]` puts another declaration's parameters at this place.
/// - The fields are as visible as the struct.
///
/// A name that is not declared does not compile:
///
/// ```compile_fail,E0609
/// use knee_core::params;
///
/// params! {
///     /// The parameters of an algorithm.
///     pub struct Settings {
///         /// share of the window that a loss leaves
///         beta: f64 = 0.7, in 0.1..=1.0, from "RFC 9438, 4.6";
///     }
/// }
///
/// let left = 10.0 * Settings::default().betta;
/// ```
///
/// Nor does a value that its type does not hold:
///
/// ```compile_fail
/// use knee_core::params;
///
/// params! {
///     /// The parameters of an algorithm.
///     pub struct Settings {
///         /// packets of the initial window
///         first: u32 = 10, in 1..=5_000_000_000, from "RFC 6928";
///     }
/// }
/// ```
#[macro_export]
macro_rules! params {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident { $($parameters:tt)* }
    ) => {
        $crate::params! { @parameters
            { $(#[$attribute])* $visibility struct $name } {} {}
            $($parameters)*
        }
    };

    // A switch.
    (
        @parameters $struct:tt { $($fields:tt)* } { $($lists:tt)* }
        $(#[doc = $about:literal])+
        $name:ident: bool = $default:expr, from $source:expr;
        $($rest:tt)*
    ) => {
        $crate::params! { @parameters $struct
            { $($fields)* $(#[doc = $about])+ $name: bool, }
            { $($lists)* &[$crate::Param::switch(
                stringify!($name), $default, $source, concat!($($about),+).trim_ascii(),
            )], }
            $($rest)*
        }
    };

    // A number within a range.
    (
        @parameters $struct:tt { $($fields:tt)* } { $($lists:tt)* }
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, in $range:expr, from $source:expr;
        $($rest:tt)*
    ) => {
        $crate::params! { @parameters $struct
            { $($fields)* $(#[doc = $about])+ $name: $type, }
            { $($lists)* &[$crate::declare::Number::<$type>::param(
                stringify!($name), $default, &($range), $source, concat!($($about),+).trim_ascii(),
            )], }
            $($rest)*
        }
    };

    // One of several words.
    (
        @parameters $struct:tt { $($fields:tt)* } { $($lists:tt)* }
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, from $source:expr;
        $($rest:tt)*
    ) => {
        $crate::params! { @parameters $struct
            { $($fields)* $(#[doc = $about])+ $name: $type, }
            { $($lists)* &[$crate::Param::choice(
                stringify!($name),
                {
                    const WORDS: &[&str] = <$type as $crate::declare::Choice>::WORDS;
                    const DEFAULT_FIRST: [&str; WORDS.len()] = $crate::declare::moved_to_front(WORDS, $default as usize);
                    &DEFAULT_FIRST
                },
                $source,
                concat!($($about),+).trim_ascii(),
            )], }
            $($rest)*
        }
    };

    // The parameters of another declaration.
    (
        @parameters $struct:tt { $($fields:tt)* } { $($lists:tt)* }
        #[flatten]
        $name:ident: $type:ty;
        $($rest:tt)*
    ) => {
        $crate::params! { @parameters $struct
            { $($fields)* #[doc = concat!("The parameters of [`", stringify!($type), "`].")] $name: $type, }
            { $($lists)* <$type>::DECLARED, }
            $($rest)*
        }
    };

    (
        @parameters { $(#[$attribute:meta])* $visibility:vis struct $struct:ident }
        { $($(#[$about:meta])* $name:ident: $type:ty,)* } { $($lists:tt)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $struct {
            $($(#[$about])* $visibility $name: $type,)*
        }

        impl $struct {
            /// The declarations, for a registry.
            pub const DECLARED: &'static [$crate::Param] = {
                const LISTS: &[&[$crate::Param]] = &[$($lists)*];
                const ALL: [$crate::Param; $crate::declare::total(LISTS)] = $crate::declare::joined(LISTS);
                &ALL
            };
        }

        impl $crate::declare::Read for $struct {
            fn read(values: &mut $crate::declare::Values, _: &str) -> Self {
                Self { $($name: <$type as $crate::declare::Read>::read(values, stringify!($name)),)* }
            }
        }

        impl From<&$crate::Params> for $struct {
            fn from(params: &$crate::Params) -> Self {
                $crate::declare::Values::read_all(params)
            }
        }

        impl Default for $struct {
            fn default() -> Self {
                Self::from(&$crate::Params::defaults(Self::DECLARED))
            }
        }
    };
}

/// Declares an enum that a parameter can be, and the word for each variant in scenario files; see
/// [`params!`](crate::params!).
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal),+ $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $crate::declare::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn of(value: $crate::Value) -> Option<Self> {
                match value {
                    $($crate::Value::Choice($word) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::declare::Read for $name {
            fn read(values: &mut $crate::declare::Values, name: &str) -> Self {
                values.next(name, <Self as $crate::declare::Choice>::of)
            }
        }
    };
}

/// An enum made by [`choice!`](crate::choice!).
pub trait Choice: Sized {
    /// The words for its variants, in their order.
    const WORDS: &'static [&'static str];

    /// The variant whose word `value` is.
    fn of(value: Value) -> Option<Self>;
}

/// A parameter's type, or a struct of parameters: reads itself from values in the order of the declaration.
pub trait Read {
    /// Takes the next value, which is that of the parameter `name`; a struct takes as many as it has.
    fn read(values: &mut Values, name: &str) -> Self;
}

/// The values that are still to be read, in the order of the declaration.
pub struct Values<'a>(Iter<'a, (&'static str, Value)>);

impl<'a> Values<'a> {
    /// A struct from all of `params`.
    ///
    /// # Panics
    /// If `params` were resolved against another declaration than the struct's.
    pub fn read_all<T: Read>(params: &'a Params) -> T {
        let mut values = Self(params.values());
        let all = T::read(&mut values, "");
        assert!(values.0.len() == 0, "values of another declaration: {:?} besides", values.0);
        all
    }

    /// The next value, as `of` takes it out.
    ///
    /// # Panics
    /// If it is not that of the parameter `name`, or of another kind.
    pub fn next<T>(&mut self, name: &str, of: impl FnOnce(Value) -> Option<T>) -> T {
        let next = self.0.next();
        match next.filter(|value| value.0 == name).and_then(|value| of(value.1)) {
            Some(value) => value,
            None => panic!("values of another declaration: {next:?} for `{name}`"),
        }
    }
}

macro_rules! read {
    ($($type:ty: $value:pat => $read:expr;)+) => {$(
        impl Read for $type {
            fn read(values: &mut Values, name: &str) -> Self {
                values.next(name, |value| match value {
                    $value => $read,
                    _ => None,
                })
            }
        }
    )+};
}

read! {
    Time: Value::Time(time) => Some(time);
    Rate: Value::Rate(rate) => Some(rate);
    Bytes: Value::Bytes(bytes) => Some(bytes);
    u64: Value::Count(count) => Some(count);
    u32: Value::Count(count) => u32::try_from(count).ok();
    u8: Value::Count(count) => u8::try_from(count).ok();
    f64: Value::Ratio(ratio) => Some(ratio);
    bool: Value::Bool(switch) => Some(switch);
}

/// A type of parameter that has a range.
pub struct Number<T>(T);

macro_rules! number {
    ($($type:ty: $kind:expr, $value:expr;)+) => {$(
        impl Number<$type> {
            /// The declaration of a parameter of this type.
            pub const fn param(
                name: &'static str,
                default: $type,
                range: &RangeInclusive<$type>,
                source: &'static str,
                about: &'static str,
            ) -> Param {
                let (default, min, max) = ($value(default), $value(*range.start()), $value(*range.end()));
                Param { name, kind: $kind, default, min, max, source, about }
            }
        }
    )+};
}

number! {
    Time: Kind::Time, Value::Time;
    Rate: Kind::Rate, Value::Rate;
    Bytes: Kind::Bytes, Value::Bytes;
    u64: Kind::Count, Value::Count;
    u32: Kind::Count, from_u32;
    u8: Kind::Count, from_u8;
    f64: Kind::Ratio, Value::Ratio;
}

const fn from_u32(count: u32) -> Value {
    Value::Count(count as u64)
}

const fn from_u8(count: u8) -> Value {
    Value::Count(count as u64)
}

/// How many parameters these are together.
pub const fn total(lists: &[&[Param]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        n += lists[i].len();
        i += 1;
    }
    n
}

/// Concatenates lists; `N` is the length of all.
pub const fn joined<const N: usize>(lists: &[&[Param]]) -> [Param; N] {
    let mut all = [Param::switch("", false, "", ""); N];
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        let mut j = 0;
        while j < lists[i].len() {
            all[n] = lists[i][j];
            n += 1;
            j += 1;
        }
        i += 1;
    }
    all
}

/// `words` with that at `first` before all others.
pub const fn moved_to_front<const N: usize>(words: &[&'static str], first: usize) -> [&'static str; N] {
    let mut all = [words[first]; N];
    let (mut n, mut i) = (1, 0);
    while i < N {
        if i != first {
            all[n] = words[i];
            n += 1;
        }
        i += 1;
    }
    all
}

/// The list `declared` with other defaults, each with its source: for a second entry that reads the same struct.
///
/// # Panics
/// If there is no parameter of a name, or it has a default of another kind: as a constant, this does not compile.
pub const fn with_defaults<const N: usize>(
    declared: &[Param],
    others: &[(&'static str, Value, &'static str)],
) -> [Param; N] {
    let mut all = joined::<N>(&[declared]);
    let mut i = 0;
    while i < others.len() {
        let (name, default, source) = others[i];
        let mut at = 0;
        while !is_same(all[at].name, name) {
            at += 1;
            assert!(at < N, "no parameter of this name");
        }
        let before = all[at];
        assert!(is_of_one_kind(before.default, default), "a default of another kind");
        all[at] = Param { default, source, ..before };
        i += 1;
    }
    all
}

const fn is_of_one_kind(a: Value, b: Value) -> bool {
    matches!(
        (a, b),
        (Value::Time(_), Value::Time(_))
            | (Value::Rate(_), Value::Rate(_))
            | (Value::Bytes(_), Value::Bytes(_))
            | (Value::Count(_), Value::Count(_))
            | (Value::Ratio(_), Value::Ratio(_))
            | (Value::Bool(_), Value::Bool(_))
    )
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "RFC 1";
    const SPAN: RangeInclusive<Time> = Time::ZERO..=Time::from_secs(1);

    choice! {
        /// A choice of three words.
        enum Word {
            First = "first",
            Second = "second-word",
            Third = "third",
        }
    }

    params! {
        /// Parameters that two declarations share.
        struct Shared {
            /// a time
            time: Time = Time::from_millis(5), in SPAN, from SOURCE;
            /// a rate
            rate: Rate = Rate::from_mbps(1), in Rate::ZERO..=Rate::from_mbps(9), from "ours: enough";
        }
    }

    params! {
        /// All kinds.
        struct All {
            /// bytes
            bytes: Bytes = Bytes(7), in Bytes(1)..=Bytes(1 << 40), from SOURCE;
            #[flatten]
            shared: Shared;
            /// a count
            count: u64 = 3, in 0..=1 << 40, from SOURCE;
            /// a count of 32 bits,
            /// on two lines
            window: u32 = 1 << 31, in 1..=u32::MAX, from SOURCE;
            /// a count of 8 bits
            field: u8 = 2, in 0..=3, from SOURCE;
            /// a ratio
            ratio: f64 = 1.0 / 3.0, in 0.0..=1.0, from SOURCE;
            /// a switch; "on"
            switch: bool = true, from SOURCE;
            /// a word
            word: Word = Word::Second, from SOURCE;
        }
    }

    /// The declarations of [`All`], written out.
    const WRITTEN: [Param; 9] = [
        Param::bytes("bytes", Bytes(7), (Bytes(1), Bytes(1 << 40)), SOURCE, "bytes"),
        Param::time("time", Time::from_millis(5), (Time::ZERO, Time::from_secs(1)), SOURCE, "a time"),
        Param::rate("rate", Rate::from_mbps(1), (Rate::ZERO, Rate::from_mbps(9)), "ours: enough", "a rate"),
        Param::count("count", 3, (0, 1 << 40), SOURCE, "a count"),
        Param::count("window", 1 << 31, (1, 0xffff_ffff), SOURCE, "a count of 32 bits, on two lines"),
        Param::count("field", 2, (0, 3), SOURCE, "a count of 8 bits"),
        Param::ratio("ratio", 1.0 / 3.0, (0.0, 1.0), SOURCE, "a ratio"),
        Param::switch("switch", true, SOURCE, "a switch; \"on\""),
        Param::choice("word", &["second-word", "first", "third"], SOURCE, "a word"),
    ];

    fn told(what: &impl std::fmt::Debug) -> String {
        format!("{what:?}")
    }

    #[test]
    fn the_list_is_in_order_and_a_choices_default_comes_first() {
        assert_eq!(told(&All::DECLARED), told(&WRITTEN));
    }

    #[test]
    fn a_choice_is_known_by_its_words() {
        let of_word = WRITTEN.iter().filter(|param| param.is::<Word>()).map(|param| param.name);
        assert_eq!(of_word.collect::<Vec<_>>(), ["word"]);
        assert!(!Param::choice("word", &["first", "second-word"], SOURCE, "two of them").is::<Word>());
    }

    #[test]
    fn the_struct_of_the_defaults_is_the_default_and_has_the_declared_values() {
        let read = All::from(&Params::defaults(&WRITTEN));
        assert_eq!(told(&read), told(&All::default()));
        let All { bytes, shared, count, window, field, ratio, switch, word } = read;
        assert_eq!((bytes, shared.time, shared.rate), (Bytes(7), Time::from_millis(5), Rate::from_mbps(1)));
        assert_eq!((count, window, field, ratio.to_bits()), (3, 1 << 31, 2, (1.0f64 / 3.0).to_bits()));
        assert_eq!((switch, word), (true, Word::Second));
    }

    #[test]
    fn each_value_given_is_read_at_its_place_and_nothing_else_changes() {
        let read = |name, value| All::from(&Params::resolve(All::DECLARED, [(name, value)]).unwrap());
        let all = All::default();
        let shared = |shared| All { shared, ..all };
        let (time, rate) = (Time::from_secs(1), Rate::ZERO);
        for (name, value, expected) in [
            ("bytes", Value::Bytes(Bytes(1 << 40)), All { bytes: Bytes(1 << 40), ..all }),
            ("time", Value::Time(time), shared(Shared { time, ..all.shared })),
            ("rate", Value::Rate(rate), shared(Shared { rate, ..all.shared })),
            ("count", Value::Count(1 << 40), All { count: 1 << 40, ..all }),
            ("window", Value::Count(0xffff_ffff), All { window: u32::MAX, ..all }),
            ("field", Value::Count(0), All { field: 0, ..all }),
            ("ratio", Value::Ratio(0.5), All { ratio: 0.5, ..all }),
            ("switch", Value::Bool(false), All { switch: false, ..all }),
            ("word", Value::Choice("first"), All { word: Word::First, ..all }),
            ("word", Value::Choice("third"), All { word: Word::Third, ..all }),
        ] {
            assert_eq!(told(&read(name, value)), told(&expected), "{name} = {value:?}");
        }
    }

    #[test]
    fn values_of_another_declaration_are_not_read() {
        let refused = |declared: &[Param]| {
            let params = Params::defaults(declared);
            std::panic::catch_unwind(|| Shared::from(&params)).is_err()
        };
        let [time, rate] = [WRITTEN[1], WRITTEN[2]];
        assert!(!refused(&[time, rate]));
        assert!(refused(&[time]) && refused(&[time, rate, WRITTEN[3]]) && refused(&[rate, time]));
        assert!(refused(&[time, Param { name: "other", ..rate }]));
        assert!(refused(&[time, Param { default: Value::Count(1), ..rate }]), "another kind");
    }

    #[test]
    fn other_defaults_leave_the_rest_as_it_is() {
        const OTHER: [Param; 2] = with_defaults(Shared::DECLARED, &[("rate", Value::Rate(Rate::ZERO), "RFC 2")]);
        let rate = Param { default: Value::Rate(Rate::ZERO), source: "RFC 2", ..WRITTEN[2] };
        assert_eq!(told(&OTHER), told(&[WRITTEN[1], rate]));
        assert_eq!(Shared::from(&Params::defaults(&OTHER)).rate, Rate::ZERO);
        let with = |others: &[_]| std::panic::catch_unwind(|| with_defaults::<2>(Shared::DECLARED, others)).is_err();
        assert!(with(&[("ratE", Value::Rate(Rate::ZERO), "")]) && with(&[("rat", Value::Rate(Rate::ZERO), "")]));
        assert!(with(&[("rate", Value::Count(1), "")]) && !with(&[]));
    }
}
