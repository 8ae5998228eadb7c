//! The parameters that a specification gives a kind of traffic, read as its entry declares them.

use crate::Entry;
use crate::spec::{Arrivals, Count, Packets, Pages, Priorities, Rates, Size};
use knee_core::{Kind, Param, Params, ParamsSpec, ValueSpec};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

/// The declaration of a key that takes more than a single value.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// One line on what it does.
    pub about: &'static str,
}

macro_rules! forms {
    ($($(#[$about:meta])* $form:ident($type:ty) = $word:literal;)+) => {
        /// The value of a [`Table`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Form { $($(#[$about])* $form),+ }

        impl Form {
            /// All forms.
            pub const ALL: &[Self] = &[$(Self::$form),+];

            /// Its name in listings.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$form => $word),+ }
            }

            fn read(self, json: &Json) -> Result<Content, String> {
                match self {
                    $(Self::$form => {
                        let content: $type = from_json(json)?;
                        content.check()?;
                        Ok(Content::$form(content))
                    })+
                }
            }
        }

        /// The content of a [`Table`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum Content { $($(#[$about])* $form($type)),+ }

        $(impl<'a> TryFrom<&'a Content> for &'a $type {
            type Error = ();

            fn try_from(content: &'a Content) -> Result<Self, ()> {
                match content {
                    Content::$form(content) => Ok(content),
                    _ => Err(()),
                }
            }
        })+
    };
}

forms! {
    /// Times at which something starts.
    Arrivals(Arrivals) = "arrivals";
    /// Times at which users ask: after the answer, or whenever they come.
    Pages(Pages) = "pages";
    /// A size or a distribution of sizes.
    Size(Size) = "size";
    /// A number or a distribution of numbers.
    Count(Count) = "count";
    /// Ascending rates.
    Rates(Rates) = "rates";
    /// Recorded packets.
    Packets(Packets) = "packets";
    /// Priorities of messages.
    Priorities(Priorities) = "priorities";
}

fn from_json<T: DeserializeOwned>(json: &Json) -> Result<T, String> {
    T::deserialize(json).map_err(|error| error.to_string())
}

/// All parameters of a kind of traffic: the given ones, and the defaults of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Parameters that are single values.
    pub params: Params,
    tables: Vec<(&'static str, Content)>,
}

impl From<Params> for Given {
    /// Parameters without tables.
    fn from(params: Params) -> Self {
        Self { params, tables: Vec::new() }
    }
}

impl Given {
    /// Reads the keys of a specification as `entry` declares them. Single values are numbers in base units, booleans
    /// or words; null stands for the default.
    ///
    /// # Errors
    /// A key is missing or unknown, its value is not accepted, or two of them contradict each other.
    pub fn read(entry: &Entry, keys: &Map<String, Json>) -> Result<Self, String> {
        let (mut params, mut tables) = (ParamsSpec::new(), Vec::new());
        for (key, json) in keys.iter().filter(|(_, json)| !json.is_null()) {
            if let Some(param) = entry.params.iter().find(|param| param.name == key) {
                params.insert(key.clone(), value(param, json)?);
            } else if let Some(table) = entry.tables.iter().find(|table| table.name == key) {
                tables.push((table.name, table.form.read(json).map_err(|error| format!("`{key}`: {error}"))?));
            } else {
                let known = entry.params.iter().map(|param| param.name);
                let known: Vec<_> = known.chain(entry.tables.iter().map(|table| table.name)).collect();
                return Err(format!("no parameter `{key}`; there are: {}", known.join(", ")));
            }
        }
        // In one order, whatever that of the keys is: specifications are compared.
        tables.sort_unstable_by_key(|(name, _)| *name);
        let missing = |name: &&&str| keys.get(**name).is_none_or(Json::is_null);
        if let Some(missing) = entry.required.iter().find(missing) {
            return Err(format!("`{missing}` is missing"));
        }
        let params = Params::from_spec(entry.params, &params).map_err(|error| error.to_string())?;
        Ok(Self { params, tables })
    }

    /// The table called `name`, if it is given.
    pub fn find<T>(&self, name: &str) -> Option<&T>
    where
        for<'a> &'a T: TryFrom<&'a Content>,
    {
        let (_, content) = self.tables.iter().find(|(known, _)| *known == name)?;
        content.try_into().ok()
    }

    /// The table called `name`, which the entry requires.
    ///
    /// # Panics
    /// If the entry does not require it, or declares another form.
    pub fn table<T>(&self, name: &str) -> &T
    where
        for<'a> &'a T: TryFrom<&'a Content>,
    {
        self.find(name).unwrap_or_else(|| panic!("table `{name}` is read but not required in this form"))
    }
}

fn value(param: &Param, json: &Json) -> Result<ValueSpec, String> {
    let value = match param.kind {
        Kind::Time => json.as_u64().map(ValueSpec::Time),
        Kind::Rate => json.as_u64().map(ValueSpec::Rate),
        Kind::Bytes => json.as_u64().map(ValueSpec::Bytes),
        Kind::Count => json.as_u64().map(ValueSpec::Count),
        Kind::Ratio => json.as_f64().map(ValueSpec::Ratio),
        Kind::Bool => json.as_bool().map(ValueSpec::Bool),
        Kind::Choice(_) => json.as_str().map(|word| ValueSpec::Choice(word.into())),
    };
    value.ok_or_else(|| format!("`{}` is {json}; expected {}", param.name, param.accepted()))
}
