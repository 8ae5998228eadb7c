//! Copies of boxed trait objects.

/// Lets boxes of a trait's objects be copied, for whatever implements the trait and derives `Clone`.
///
/// `boxed_clone!(CloneMedium: Medium => Medium)` declares `CloneMedium`, which is to be a supertrait of `Medium`, and
/// implements it for each type that is a `Medium` and `Clone`. The trait behind the arrow is that of the objects.
#[macro_export]
macro_rules! boxed_clone {
    ($copies:ident: $implemented:path => $object:path) => {
        /// Copies its implementer. It is implemented for all that derive `Clone`.
        pub trait $copies {
            /// A copy, boxed.
            fn boxed_copy(&self) -> Box<dyn $object>;
        }

        impl<T: $implemented + Clone + 'static> $copies for T {
            fn boxed_copy(&self) -> Box<dyn $object> {
                Box::new(self.clone())
            }
        }

        impl Clone for Box<dyn $object> {
            fn clone(&self) -> Self {
                (**self).boxed_copy()
            }
        }
    };
}
