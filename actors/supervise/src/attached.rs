//! Values that a specification attaches to its child. Others find them in the tree, by their type.

use std::{any::Any, sync::Arc};

/// Values of one child, of different types.
#[derive(Default)]
pub(crate) struct Attached(Vec<Arc<dyn Any + Send + Sync>>);

impl Attached {
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.push(Arc::new(value));
    }

    /// The first value of type `T`.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.iter().find_map(|value| value.clone().downcast().ok())
    }
}
