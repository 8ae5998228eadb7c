//! Tables and values of a TOML file, with their places in it.

use crate::words::shown;
use crate::words::{MOST_KEY, on_one_line};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands, in bytes of the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place.
    pub span: Range<usize>,
}

/// A value of a file.
#[derive(Clone, Debug)]
pub enum Value {
    /// Text in quotes.
    Text(String),
    /// A whole number.
    Whole(i128),
    /// Another number.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// Keys in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table(pub Vec<Key>);

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key, without quotes.
    pub name: String,
    /// Its place.
    pub span: Range<usize>,
    /// Its value.
    pub node: Node,
}

/// The reason for which a text has no tables: its place, what was found there, and what is accepted.
pub(crate) type Unread = (usize, String, &'static str);

impl Table {
    /// The tables of a text.
    pub(crate) fn parse(text: &str) -> Result<Self, Unread> {
        if text.starts_with('\u{feff}') {
            let found = "it begins with a byte order mark (U+FEFF), which is not TOML".into();
            return Err((0, found, "expected plain UTF-8: save it as \"UTF-8\", not as \"UTF-8 with BOM\""));
        }
        let (parsed, errors) = DeTable::parse_recoverable(text);
        let Some(error) = errors.first() else { return Self::of(parsed.as_ref()) };
        let reason = error.message().lines().collect::<Vec<_>>().join(", ");
        let reason = if reason.contains("recurs") { "it is nested too deeply".into() } else { reason };
        let found = format!("it is not valid TOML ({reason})");
        Err((error.span().map_or(0, |span| span.start), found, "see https://toml.io"))
    }

    fn of(table: &DeTable<'_>) -> Result<Self, Unread> {
        let read = |(key, value): (&Spanned<_>, _)| {
            Ok(Key { name: ToString::to_string(key.as_ref()), span: key.span(), node: Node::of(value)? })
        };
        let mut keys = table.iter().map(read).collect::<Result<Vec<Key>, Unread>>()?;
        keys.sort_by_key(|key| key.span.start);
        Ok(Self(keys))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|key| key.name == name).map(|key| &key.node)
    }

    /// The longest key of the table that a dotted key, as errors write it, begins with, and the rest of that.
    fn begins<'a>(&self, dotted: &'a str, is_cut: bool) -> Option<(&Key, &'a str)> {
        let rest = |key: &Key| {
            let shown = on_one_line(&key.name);
            if is_cut && shown.starts_with(dotted) {
                return Some("");
            }
            dotted.strip_prefix(&*shown).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let fitting = self.0.iter().filter_map(|key| Some((key, rest(key)?)));
        fitting.min_by_key(|(_, rest)| rest.len())
    }

    /// Text under a key, if it is there and is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Node::text)
    }

    /// Gives a key a value in place of the one it has.
    pub(crate) fn put(&mut self, name: &str, node: Node) {
        match self.0.iter_mut().find(|key| key.name == name) {
            Some(key) => key.node = node,
            None => self.0.push(Key { name: name.into(), span: node.span.clone(), node }),
        }
    }

    /// Gives a key a value if it has none.
    pub(crate) fn put_default(&mut self, name: &str, node: &Node) {
        if self.get(name).is_none() {
            self.put(name, node.clone());
        }
    }
}

impl Node {
    fn of(value: &Spanned<DeValue<'_>>) -> Result<Self, Unread> {
        const ACCEPTED: &str = "expected text, a number, true or false, or a list or table of these";
        let read = match value.as_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(n) => Value::Whole(i128::from_str_radix(n.as_str(), n.radix()).map_err(|_| {
                let number = shown(&Value::Text(n.as_str().into()));
                (value.span().start, format!("{} is too long for a number", number.trim_matches('"')), ACCEPTED)
            })?),
            DeValue::Float(x) => Value::Number(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(date) => return Err((value.span().start, format!("{date} is a date"), ACCEPTED)),
            DeValue::Array(list) => Value::List(list.iter().map(Self::of).collect::<Result<_, _>>()?),
            DeValue::Table(table) => Value::Table(Table::of(table)?),
        };
        Ok(Self { value: read, span: value.span() })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }
}

/// Where the value of a key that an error names stands, or the key itself where that is a table, and the rest of the
/// key that is not there: the place is then that of what should contain it, or nothing where that is the file.
pub(crate) fn place<'a>(root: &Table, key: &'a str) -> (Option<usize>, &'a str) {
    // An error cuts a long key.
    let is_cut = key.chars().count() + 1 == MOST_KEY;
    let (mut at, mut left) = (None, key);
    let mut inside = Inside::Table(root);
    loop {
        let (start, node, behind) = match inside {
            Inside::Table(table) => match table.begins(left, is_cut) {
                Some((key, behind)) => (key.span.start, &key.node, behind),
                None => return (at, left),
            },
            Inside::List(list) => match index(left).and_then(|(i, behind)| Some((list.get(i)?, behind))) {
                Some((node, behind)) => (node.span.start, node, behind),
                None => return (at, left),
            },
        };
        (at, left) = (Some(start), behind.strip_prefix('.').unwrap_or(behind));
        inside = match &node.value {
            Value::Table(table) => Inside::Table(table),
            Value::List(list) => Inside::List(list),
            _ if left.is_empty() => return (Some(node.span.start), left),
            _ => return (at, left),
        };
    }
}

enum Inside<'a> {
    Table(&'a Table),
    List(&'a [Node]),
}

/// The index in brackets that a key begins with, and the key behind it.
fn index(key: &str) -> Option<(usize, &str)> {
    let (index, behind) = key.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, behind))
}
