//! State that outlives the restarts of the child that it belongs to.

use std::{fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

/// State of one child that outlives its restarts, as long as the process. [`ChildSpec::durable`](crate::ChildSpec::durable) declares it, so
/// that the tree names it; all other state of a child begins anew with each incarnation. Clones share it.
pub struct Durable<T> {
    name: &'static str,
    value: Arc<Mutex<T>>,
}

/// Access to [`Durable`] state, for many changes at once. To be dropped soon: others wait for it.
pub type DurableGuard<'a, T> = MutexGuard<'a, T>;

/// A reader's handle on the [`Durable`] state of another child. Clones share it.
pub struct DurableView<T>(Durable<T>);

impl<T> Durable<T> {
    /// Begins with `value`.
    pub fn new(name: &'static str, value: T) -> Self {
        Self { name, value: Arc::new(Mutex::new(value)) }
    }

    /// The name under which the tree shows it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a copy.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.value.lock().clone()
    }

    /// Changes it by `change`, which must not wait for anything.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.lock())
    }

    /// Locks it, for many changes at once.
    pub fn lock(&self) -> DurableGuard<'_, T> {
        self.value.lock()
    }

    /// A handle for other children, which read it.
    pub fn view(&self) -> DurableView<T> {
        DurableView(self.clone())
    }
}

impl<T> DurableView<T> {
    /// Returns a copy.
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
