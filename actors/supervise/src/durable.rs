//! State of a child that outlives its restarts.

use std::{fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

/// State of one child that outlives its restarts, until the process ends. Clones share it.
///
/// [`ChildSpec::durable`](crate::ChildSpec::durable) declares it, and the tree shows its name. All other
/// state of a child is created by each incarnation.
pub struct Durable<T> {
    name: &'static str,
    value: Arc<Mutex<T>>,
}

/// Lock on [`Durable`] state.
pub type DurableGuard<'a, T> = MutexGuard<'a, T>;

/// Read-only handle on the [`Durable`] state of another child. Clones share it.
pub struct DurableView<T>(Durable<T>);

impl<T> Durable<T> {
    /// Creates state with the initial `value`.
    pub fn new(name: &'static str, value: T) -> Self {
        Self { name, value: Arc::new(Mutex::new(value)) }
    }

    /// Name in the tree.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a copy of the state.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.value.lock().clone()
    }

    /// Calls `change` under the lock; it must not block.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.lock())
    }

    /// Locks the state.
    pub fn lock(&self) -> DurableGuard<'_, T> {
        self.value.lock()
    }

    /// Returns a read-only handle for other children.
    pub fn view(&self) -> DurableView<T> {
        DurableView(self.clone())
    }
}

impl<T> DurableView<T> {
    /// Returns a copy of the state.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.0.get()
    }
}

impl<T> Clone for Durable<T> {
    fn clone(&self) -> Self {
        Self { name: self.name, value: self.value.clone() }
    }
}

impl<T> Clone for DurableView<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Durable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for DurableView<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DurableView").field(&self.0.name).finish()
    }
}
