//! The keys of a table, read one by one in the order in which they are declared; every refusal is kept.

use crate::error::{Part, Refused, refused};
use crate::node::{Node, Table, Value};
use crate::words::{is_printable, near, quoted, shown};

/// Reads the value of a key.
pub(crate) type Read<T> = Result<T, Refused>;

/// A table that is being read.
pub(crate) struct Fields<'a> {
    table: &'a Table,
    pub(crate) errors: Vec<Refused>,
}

impl<'a> Fields<'a> {
    pub(crate) const fn of(table: &'a Table) -> Self {
        Self { table, errors: Vec::new() }
    }

    /// The value of a key; `None` if it is not there, or was refused.
    pub(crate) fn take<T>(&mut self, name: &'static str, read: impl FnOnce(&Value) -> Read<T>) -> Option<T> {
        let node = self.table.get(name)?;
        self.keep(read(&node.value).map_err(|error| error.under(name)))
    }

    /// The value of a key that must be there; `about` says what it takes.
    pub(crate) fn require<T>(
        &mut self,
        name: &'static str,
        about: &str,
        read: impl FnOnce(&Value) -> Read<T>,
    ) -> Option<T> {
        if self.table.get(name).is_none() {
            self.errors.push(refused("it is missing", format!("expected {about}")).under(name));
        }
        self.take(name, read)
    }

    /// The value read, or the refusal.
    pub(crate) fn keep<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|error| self.errors.push(error)).ok()
    }

    /// The node of a key that others read.
    pub(crate) fn node(&self, name: &'static str) -> Option<&'a Node> {
        self.table.get(name)
    }

    /// The end of the table: the first key that is not among those known is refused.
    pub(crate) fn end(&mut self, known: &[&'static str]) {
        for key in &self.table.0 {
            if !known.contains(&key.name.as_str()) {
                let error = Refused { unknown: true, ..refused("unknown key", near(&key.name, known)) };
                return self.errors.push(error.under(&key.name));
            }
        }
    }
}

fn wrong_type(value: &Value, accepted: &str) -> Refused {
    refused(format!("{} has the wrong type", shown(value)), accepted)
}

pub(crate) fn out_of_range(value: &Value, about: &str) -> Refused {
    refused(format!("{} is out of range", shown(value)), format!("expected {about}"))
}

pub(crate) fn table(value: &Value) -> Read<&Table> {
    if let Value::Table(table) = value { Ok(table) } else { Err(wrong_type(value, "expected a table")) }
}

pub(crate) fn list(value: &Value) -> Read<&[Node]> {
    if let Value::List(list) = value { Ok(list) } else { Err(wrong_type(value, "expected a list")) }
}

pub(crate) fn text(value: &Value) -> Read<&str> {
    if let Value::Text(text) = value { Ok(text) } else { Err(wrong_type(value, "expected text in quotes")) }
}

pub(crate) fn switch(value: &Value) -> Read<bool> {
    if let Value::Bool(on) = value { Ok(*on) } else { Err(wrong_type(value, "expected true or false")) }
}

/// A whole number from `least` on.
pub(crate) fn whole(value: &Value, least: u64, about: &str) -> Read<u64> {
    let Value::Whole(n) = value else { return Err(wrong_type(value, "expected a whole number without unit")) };
    u64::try_from(*n).ok().filter(|n| *n >= least).ok_or_else(|| out_of_range(value, about))
}

/// A whole number from `least` to `most`.
pub(crate) fn between(value: &Value, least: u64, most: u64, about: &str) -> Read<u64> {
    let number = whole(value, least, about)?;
    if number <= most { Ok(number) } else { Err(out_of_range(value, about)) }
}

/// As [`between`], below 2^32.
pub(crate) fn between_u32(value: &Value, least: u64, most: u32, about: &str) -> Read<u32> {
    between(value, least, most.into(), about).map(|number| u32::try_from(number).unwrap_or(most))
}

/// A probability, 0 to 1.
pub(crate) fn probability(value: &Value, about: &str) -> Read<f64> {
    number(value, |number| (0.0..=1.0).contains(&number), about)
}

/// A number that `is_accepted`, which NaN is not.
pub(crate) fn number(value: &Value, is_accepted: impl FnOnce(f64) -> bool, about: &str) -> Read<f64> {
    const NUMBER: &str = "expected a plain number such as 0.01";
    let number = match value {
        Value::Whole(n) if n.unsigned_abs() > 1 << 53 => {
            return Err(refused(format!("{} is out of range", shown(value)), NUMBER));
        }
        Value::Whole(n) => *n as f64,
        Value::Number(x) => *x,
        other => return Err(wrong_type(other, NUMBER)),
    };
    if is_accepted(number) { Ok(number) } else { Err(out_of_range(value, about)) }
}

/// One line of text.
pub(crate) fn line(value: &Value) -> Read<String> {
    let text = text(value)?;
    if !is_printable(text) || text.chars().count() > 200 {
        let found = format!("{} is not a line of text", quoted(text));
        return Err(refused(found, "expected at most 200 printable characters"));
    }
    Ok(text.to_owned())
}

/// A name of a part of a scenario.
pub(crate) fn name(value: &Value) -> Read<String> {
    let text = line(value)?;
    if text.trim().is_empty() || text.trim() != text || text.chars().count() > 100 {
        let accepted = "expected 1 to 100 characters without spaces at the ends";
        return Err(refused(format!("{} is not a valid name", quoted(&text)), accepted));
    }
    Ok(text)
}

/// One of some words.
pub(crate) fn word(value: &Value, words: &[&'static str]) -> Read<&'static str> {
    if let Value::Text(text) = value
        && let Some(word) = words.iter().find(|word| *word == text)
    {
        return Ok(word);
    }
    let named = match value {
        Value::Text(text) => text.clone(),
        other => shown(other),
    };
    Err(refused(format!("{} is not known", shown(value)), near(&named, words)))
}

/// The elements of a list of tables that stand under `key`, with what was refused in them.
pub(crate) fn each<T>(
    key: &str,
    nodes: &[Node],
    errors: &mut Vec<Refused>,
    mut read: impl FnMut(&Table) -> Result<T, Vec<Refused>>,
) -> Vec<T> {
    let mut made = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        match table(&node.value).map_err(|error| vec![error]).and_then(&mut read) {
            Ok(one) => made.push(one),
            Err(refused) => errors.extend(refused.into_iter().map(|error| error.at(i, key))),
        }
    }
    made
}

/// A refusal below the element of a list.
pub(crate) fn within(error: Refused, list: &str, index: usize) -> Refused {
    let mut key = vec![Part::Key(list.into()), Part::Index(index)];
    key.extend(error.key);
    Refused { key, ..error }
}
