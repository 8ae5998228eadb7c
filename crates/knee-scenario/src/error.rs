//! Why a scenario file was refused.

use std::fmt;

/// A part of the place of a value in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key(String),
    Index(usize),
}

/// A refusal, with its place in the file's tables.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) key: Vec<Part>,
    pub(crate) found: String,
    pub(crate) accepted: String,
    /// True for a key that is not known, which explains more than the missing one that it was meant to be.
    pub(crate) unknown: bool,
}

pub(crate) fn refused(found: impl Into<String>, accepted: impl Into<String>) -> Refused {
    Refused { key: Vec::new(), found: found.into(), accepted: accepted.into(), unknown: false }
}

impl Refused {
    /// Below a key.
    pub(crate) fn under(mut self, key: &str) -> Self {
        self.key.insert(0, Part::Key(key.into()));
        self
    }

    /// In the element of this list.
    pub(crate) fn in_list(mut self, index: usize) -> Self {
        self.key.insert(0, Part::Index(index));
        self
    }

    /// In the element of a list.
    pub(crate) fn at(mut self, index: usize, list: &str) -> Self {
        self.key.splice(0..0, [Part::Key(list.into()), Part::Index(index)]);
        self
    }

    /// The key as errors name it, such as `links[0].rate`.
    pub(crate) fn name(&self) -> String {
        let parts = self.key.iter().enumerate().map(|(place, part)| match part {
            Part::Index(i) => format!("[{i}]"),
            Part::Key(key) if place == 0 || key.is_empty() => key.clone(),
            Part::Key(key) => format!(".{key}"),
        });
        parts.collect()
    }
}

/// Why a scenario file was refused: a paragraph with file, line, column, key, what was found and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, or what the text is called.
    pub file: String,
    /// Line in the text, from 1; 0 where nothing of the key is there.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key at fault, such as `links[0].rate`; empty where the file as a whole is.
    pub key: String,
    /// The value found there.
    pub found: String,
    /// The values accepted.
    pub accepted: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, key, found, accepted } = self;
        f.write_str(file)?;
        if *line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        if !key.is_empty() {
            write!(f, ": {key}")?;
        }
        write!(f, ": {found}; {accepted}.")
    }
}

impl std::error::Error for Error {}

/// Line and column of a place in a text, in bytes; both from 1.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
