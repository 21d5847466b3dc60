//! Panics in code of client libraries: failed calls of a child, not crashes. They are neither printed nor
//! part of a crash report.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::{Arc, Once},
};

use tokio::sync::watch;

use crate::{activity::Scope, guard::text};

/// Receiver of the panics of this thread.
enum Observer {
    /// None: the thread runs code of a child.
    Child,
    /// Caller of foreign code; the first panic in it.
    Caller(Option<String>),
    /// Owner of a thread with foreign code only.
    Thread(ForeignPanics),
}

thread_local! {
    static OBSERVER: RefCell<Observer> = const { RefCell::new(Observer::Child) };
}

/// Calls `code` of a client library. After a panic, everything that it changed must be dropped.
///
/// # Errors
/// Message and source position of a panic, escaped and limited by [`sanitize`](orchestrator_text::sanitize).
pub fn catch_foreign_panic<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let former = OBSERVER.replace(Observer::Caller(None));
    // `code` must be unwind safe (see above). It runs outside the child's scope, so the child's panic hook
    // ignores it, whichever hook was installed first.
    let outcome = Scope::outside().run(|| catch_unwind(AssertUnwindSafe(code)));
    let observer = OBSERVER.replace(former);
    outcome.map_err(|payload| match observer {
        Observer::Caller(Some(found)) => found,
        _ => text(&*payload),
    })
}

/// First panic on the threads of a client library. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ForeignPanics(Arc<watch::Sender<Option<String>>>);

impl ForeignPanics {
    /// Records the panics of this thread from now on.
    pub fn observe_thread(&self) {
        install_hook();
        OBSERVER.set(Observer::Thread(self.clone()));
    }

    /// Message and source position of the first panic, as [`catch_foreign_panic`] gives them.
    pub fn first(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits for the first panic, and returns it like [`ForeignPanics::first`]. Cancel safe.
    pub async fn wait(&self) -> String {
        let mut panics = self.0.subscribe();
        let first = panics.wait_for(Option::is_some).await;
        // The sender is part of `self`.
        first.ok().and_then(|first| first.clone()).unwrap_or_default()
    }
}

/// Makes panics of foreign code known to their observers only, once for the process.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !record(info) {
                former(info);
            }
        }));
    });
}

/// Records a panic of foreign code; returns false if the thread runs code of a child.
fn record(info: &PanicHookInfo<'_>) -> bool {
    let found = || {
        let position = info.location().map(|location| format!(" at {location}")).unwrap_or_default();
        format!("{}{position}", text(info.payload()))
    };
    // A thread that ends has no observer any more.
    let recorded = OBSERVER.try_with(|observer| match &mut *observer.borrow_mut() {
        Observer::Child => false,
        Observer::Caller(first) => {
            first.get_or_insert_with(found);
            true
        }
        Observer::Thread(panics) => {
            panics.0.send_if_modified(|first| first.is_none() && first.replace(found()).is_none());
            true
        }
    });
    recorded.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_has_its_position() {
        assert_eq!(catch_foreign_panic(|| 5), Ok(5));
        let caught = catch_foreign_panic(|| -> () { panic!("a \u{1b} in a reply") }).expect_err("a panic");
        assert!(
            caught.starts_with("a \\u{1b} in a reply at ") && caught.contains("foreign_panics.rs:"),
            "{caught}"
        );
        assert!(OBSERVER.with_borrow(|observer| matches!(observer, Observer::Child)));
    }

    #[test]
    fn the_first_panic_of_a_thread_is_kept() {
        let panics = ForeignPanics::default();
        let observed = panics.clone();
        let thread = std::thread::spawn(move || {
            observed.observe_thread();
            for message in ["first", "second"] {
                let _ = catch_unwind(|| panic!("{message}"));
            }
        });
        thread.join().expect("its panics are caught");
        assert!(panics.first().is_some_and(|text| text.starts_with("first at ")), "{panics:?}");
    }
}
