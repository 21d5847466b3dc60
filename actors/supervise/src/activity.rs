//! The child whose code runs on this thread: its waits for others, and the panics in its code.

use std::{
    cell::Cell,
    panic::{self, PanicHookInfo},
    sync::{Arc, Once, OnceLock},
    time::Instant,
};

use orchestrator_observe::Frames;
use parking_lot::Mutex;

use crate::{
    guard::text,
    mailbox_stats::MailboxStats,
    sends::AllowedSends,
    standard_stream::print_panic,
    waits::{WaitKind, Waits},
};

/// Most panics kept until the end of an incarnation. There are several if the child catches panics, or panics
/// again while it is dropped.
const PANICS_MAX: usize = 4;

thread_local! {
    static CURRENT: Cell<Option<Arc<Activity>>> = const { Cell::new(None) };
    /// False while futures run beside which the child handles messages.
    static WAITS_BLOCK: Cell<bool> = const { Cell::new(true) };
}

/// Waits and panics of one child.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    waits: Waits,
    panics: Mutex<Vec<CaughtPanic>>,
    sends: OnceLock<AllowedSends>,
}

/// Position of a panic in the source.
#[derive(Debug)]
pub(crate) struct CaughtPanic {
    message: String,
    pub(crate) location: Option<String>,
    pub(crate) frames: Frames,
}

impl Activity {
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Allows these messages, and no others.
    pub(crate) fn allow(&self, sends: AllowedSends) {
        // A child is built once.
        let _ = self.sends.set(sends);
    }

    /// Forgets all panics, and returns the last one with this message.
    pub(crate) fn take_panic(&self, message: &str) -> Option<CaughtPanic> {
        let mut panics = std::mem::take(&mut *self.panics.lock());
        let at = panics.iter().rposition(|panic| panic.message == message)?;
        Some(panics.swap_remove(at))
    }
}

/// Scope in which the code of one child runs.
pub(crate) struct Scope(Cell<Option<Arc<Activity>>>);

/// Exchanges the current child with that of a scope, now and when it is dropped.
struct Entered<'a>(&'a Scope);

impl Scope {
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        Self(Cell::new(Some(activity.clone())))
    }

    /// Code in this scope belongs to no child.
    pub(crate) fn outside() -> Self {
        Self(Cell::new(None))
    }

    /// For another thread that works for the current child.
    pub(crate) fn of_current() -> Self {
        Self(Cell::new(current()))
    }

    pub(crate) fn run<T>(&self, code: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(self);
        code()
    }
}

impl<'a> Entered<'a> {
    fn new(scope: &'a Scope) -> Self {
        CURRENT.with(|current| current.swap(&scope.0));
        Self(scope)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.with(|current| current.swap(&self.0.0));
    }
}

fn current() -> Option<Arc<Activity>> {
    CURRENT.with(|current| {
        let activity = current.take();
        current.set(activity.clone());
        activity
    })
}

/// Runs code whose waits leave the child free for other messages.
pub(crate) fn non_blocking<T>(code: impl FnOnce() -> T) -> T {
    run_with(false, code)
}

/// Runs code whose waits keep the child from other messages.
pub(crate) fn blocking<T>(code: impl FnOnce() -> T) -> T {
    run_with(true, code)
}

fn run_with<T>(blocks: bool, code: impl FnOnce() -> T) -> T {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            WAITS_BLOCK.set(self.0);
        }
    }
    let _restored = Restored(WAITS_BLOCK.replace(blocks));
    code()
}

/// A wait of a child, until it is dropped. Empty outside of children.
#[derive(Debug)]
pub(crate) struct WaitGuard(Option<RecordedWait>);

#[derive(Debug)]
struct RecordedWait {
    activity: Arc<Activity>,
    target: usize,
    blocks: bool,
    succeeded: bool,
}

/// In debug builds, panics if the current child does not declare that it sends to `mailbox`.
pub(crate) fn check_send(mailbox: &MailboxStats) {
    check(mailbox, false);
}

/// In debug builds, panics if the current child does not declare that it waits for `mailbox`; a declared send
/// is enough where it handles messages meanwhile.
pub(crate) fn check_wait(mailbox: &MailboxStats) {
    check(mailbox, WAITS_BLOCK.get());
}

fn check(mailbox: &MailboxStats, waits: bool) {
    if cfg!(debug_assertions)
        && let Some(activity) = current()
        && let Some(sends) = activity.sends.get()
    {
        sends.check(mailbox, waits);
    }
}

/// Records that the current child waits for another one since a time.
pub(crate) fn wait(on: &Arc<MailboxStats>, kind: WaitKind, since: Instant) -> WaitGuard {
    check_wait(on);
    let Some(activity) = current() else { return WaitGuard(None) };
    let blocks = WAITS_BLOCK.get();
    let target = activity.waits.begin(on, kind, since, blocks);
    WaitGuard(Some(RecordedWait { activity, target, blocks, succeeded: false }))
}

impl WaitGuard {
    /// Ends the wait with success.
    pub(crate) fn succeed(mut self) {
        if let Some(wait) = &mut self.0 {
            wait.succeeded = true;
        }
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Some(RecordedWait { activity, target, blocks, succeeded }) = &self.0 {
            activity.waits.end(*target, *blocks, succeeded.then_some(Instant::now));
        }
    }
}

/// Makes panics of children record their position, once for the process. Other panics go to the former panic
/// hook.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A thread that ends has no current child any more.
            match CURRENT.try_with(|_| ()).ok().and_then(|()| current()) {
                Some(activity) => record(&activity, info),
                None => former(info),
            }
        }));
    });
}

/// Keeps a panic and prints it.
fn record(activity: &Activity, info: &PanicHookInfo<'_>) {
    print_panic(info);
    let mut panics = activity.panics.lock();
    if panics.len() == PANICS_MAX {
        panics.remove(0);
    }
    panics.push(CaughtPanic {
        message: text(info.payload()),
        location: info.location().map(ToString::to_string),
        frames: Frames::capture(),
    });
}
