//! Lists of what scenarios can name, to which programs add their own.

use std::sync::{PoisonError, RwLock};
use thiserror::Error;

/// An entry that scenarios name.
pub trait Named: Sync + 'static {
    /// Its name in scenario files.
    fn name(&self) -> &'static str;
}

/// The name of an entry that was to be added is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is a `{0}` already; give yours another name")]
pub struct NameTaken(pub &'static str);

/// Entries that are built in, and entries that the program has added.
#[derive(Debug)]
pub struct Registry<T: Named> {
    built_in: &'static [T],
    added: RwLock<Vec<&'static T>>,
}

impl<T: Named> Registry<T> {
    /// A registry with these entries.
    pub const fn new(built_in: &'static [T]) -> Self {
        Self { built_in, added: RwLock::new(Vec::new()) }
    }

    /// The entries that are built in, in the order of listings.
    pub const fn built_in(&self) -> &'static [T] {
        self.built_in
    }

    /// The entry called `name`.
    pub fn find(&self, name: &str) -> Option<&'static T> {
        let built_in = self.built_in.iter().find(|entry| entry.name() == name);
        built_in.or_else(|| {
            let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
            added.iter().copied().find(|entry| entry.name() == name)
        })
    }

    /// Adds an entry, which scenarios of this process can name from now on. One that was added before stays.
    ///
    /// # Errors
    /// If another entry has its name.
    pub fn add(&self, entry: &'static T) -> Result<(), NameTaken> {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.built_in.iter().chain(added.iter().copied());
        match all.find(|known| known.name() == entry.name()) {
            Some(known) if std::ptr::eq(known, entry) => Ok(()),
            Some(_) => Err(NameTaken(entry.name())),
            None => {
                added.push(entry);
                Ok(())
            }
        }
    }
}

/// Defines the registry of a crate: `registry!(Entry; FIRST, SECOND)` makes the functions `registry`, `find` and `add`.
/// An entry has a field `name`.
#[macro_export]
macro_rules! registry {
    ($entry:ty; $($built_in:expr),+ $(,)?) => {
        static REGISTRY: $crate::registry::Registry<$entry> = $crate::registry::Registry::new(&[$($built_in),+]);

        impl $crate::registry::Named for $entry {
            fn name(&self) -> &'static str {
                self.name
            }
        }

        /// All entries that are built in, in the order of listings.
        pub fn registry() -> &'static [$entry] {
            REGISTRY.built_in()
        }

        /// The entry called `name`.
        pub fn find(name: &str) -> Option<&'static $entry> {
            REGISTRY.find(name)
        }

        /// Adds an entry of another crate, which scenarios of this process can name from now on.
        ///
        /// # Errors
        /// If another one has its name.
        pub fn add(entry: &'static $entry) -> Result<(), $crate::registry::NameTaken> {
            REGISTRY.add(entry)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Entry(&'static str, u32);

    impl Named for Entry {
        fn name(&self) -> &'static str {
            self.0
        }
    }

    #[test]
    fn what_is_added_is_found_beside_what_is_built_in_and_no_name_stands_twice() {
        static REGISTRY: Registry<Entry> = Registry::new(&[Entry("a", 1)]);
        static MINE: [Entry; 3] = [Entry("b", 2), Entry("a", 3), Entry("b", 4)];
        let value = |name| REGISTRY.find(name).map(|entry| entry.1);
        assert_eq!((value("a"), value("b")), (Some(1), None));
        assert_eq!(REGISTRY.add(&MINE[0]), Ok(()));
        assert_eq!((value("a"), value("b")), (Some(1), Some(2)));
        // Once more, as where several tests add the same.
        assert_eq!(REGISTRY.add(&MINE[0]), Ok(()));
        assert_eq!([&MINE[1], &MINE[2]].map(|mine| REGISTRY.add(mine)), [Err(NameTaken("a")), Err(NameTaken("b"))]);
        assert_eq!((value("a"), value("b"), REGISTRY.built_in().len()), (Some(1), Some(2), 1));
    }
}
