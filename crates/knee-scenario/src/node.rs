//! Tables and values of a TOML file, with their places in it.

use crate::error::Part;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands, in bytes of the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Whole(i128),
    Number(f64),
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

/// Keys in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<Key>);

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn of(table: &DeTable<'_>) -> Self {
        let mut keys: Vec<Key> = table
            .iter()
            .map(|(key, value)| Key { name: key.as_ref().to_string(), span: key.span(), node: Node::of(value) })
            .collect();
        keys.sort_by_key(|key| key.span.start);
        Self(keys)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|key| key.name == name).map(|key| &key.node)
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
    fn of(value: &Spanned<DeValue<'_>>) -> Self {
        let read = match value.as_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(n) => {
                let negative = n.as_str().starts_with('-');
                let most = if negative { i128::MIN } else { i128::MAX };
                Value::Whole(i128::from_str_radix(n.as_str(), n.radix()).unwrap_or(most))
            }
            DeValue::Float(x) => Value::Number(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(date) => Value::Date(date.to_string()),
            DeValue::Array(list) => Value::List(list.iter().map(Self::of).collect()),
            DeValue::Table(table) => Value::Table(Table::of(table)),
        };
        Self { value: read, span: value.span() }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }
}

/// Where the value of a key stands, or the key itself where that is a table; what contains it where it is missing.
/// Nothing where that is the file.
pub(crate) fn place(root: &Table, key: &[Part]) -> Option<usize> {
    let (mut table, mut list, mut at): (Option<&Table>, Option<&Vec<Node>>, Option<usize>) = (Some(root), None, None);
    for (i, part) in key.iter().enumerate() {
        let node = match part {
            Part::Key(name) => {
                let Some(key) = table.and_then(|table| table.0.iter().find(|key| key.name == *name)) else { break };
                at = Some(key.span.start);
                &key.node
            }
            Part::Index(index) => {
                let Some(node) = list.and_then(|list| list.get(*index)) else { break };
                at = Some(node.span.start);
                node
            }
        };
        (table, list) = match &node.value {
            Value::Table(inner) => (Some(inner), None),
            Value::List(inner) => (None, Some(inner)),
            _ => {
                if i + 1 == key.len() {
                    at = Some(node.span.start);
                }
                (None, None)
            }
        };
    }
    at
}
