//! Standard output and standard error. In an instance nothing waits for whoever reads them: a stopped pager
//! must not stop the tree.
//!
//! The caller writes a text itself while the stream takes it at once, so that lines appear without delay.
//! Otherwise the text waits in a queue of [`CAPACITY`] for a thread that writes in order. A text without room
//! there is dropped and counted.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, IoSlice, Write},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    panic::{self, PanicHookInfo},
    sync::OnceLock,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, OFlags, fstat},
    io::{Errno, ReadWriteFlags},
    net::SendFlags,
};

/// Most bytes that wait for readers.
const CAPACITY: usize = 1 << 20;
/// Longest wait for a reader after a panic outside of all children, and at the end of the process.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Unset in commands: they wait for their reader.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// A standard stream of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl StandardStream {
    /// Stops waiting for readers from now on, in panics outside of all children, too.
    pub fn never_wait() {
        QUEUE.get_or_init(|| Queue {
            output: Route::of(Self::Output),
            error: Route::of(Self::Error),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        });
        panic::set_hook(Box::new(|info| {
            print_panic(info);
            Self::flush();
        }));
    }

    /// Writes a text. A reader that has closed the stream is no error.
    pub fn print(self, text: impl AsRef<[u8]>) {
        match QUEUE.get() {
            Some(queue) => queue.print(self, text.as_ref()),
            None => drop(self.write(text.as_ref())),
        }
    }

    /// Waits until all texts are written, at most one second.
    pub fn flush() {
        if let Some(queue) = QUEUE.get() {
            queue.ended.wait_while_for(&mut queue.waiting.lock(), |waiting| waiting.bytes > 0, LAST_WAIT);
        }
    }

    /// Number of texts that were not written: the reader was too slow, or has closed the stream.
    pub fn dropped() -> u64 {
        QUEUE.get().map_or(0, |queue| queue.waiting.lock().dropped)
    }

    fn descriptor(self) -> BorrowedFd<'static> {
        match self {
            Self::Output => rustix::stdio::stdout(),
            Self::Error => rustix::stdio::stderr(),
        }
    }

    /// Writes a text, and waits for the reader.
    fn write(self, mut text: &[u8]) -> io::Result<()> {
        while !text.is_empty() {
            match rustix::io::write(self.descriptor(), text) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => text = text.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Another process that shares the stream has made it non-blocking.
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::OUT)], None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Prints a panic as the standard hook does, but never with a stack: with `RUST_BACKTRACE=1`, that hook reads
/// the debug information of the whole binary into memory.
pub(crate) fn print_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    StandardStream::Error.print(format!("thread '{name}' {info}\n"));
}

/// The way to write to a stream without a wait. `O_NONBLOCK` is never set on the stream itself: it is shared
/// with other processes.
#[derive(Debug)]
enum Route {
    /// A regular file, which takes all texts.
    File,
    Socket,
    /// A pipe or terminal, opened once more and non-blocking.
    Reopened(File),
    /// A pipe or terminal of another user. Anonymous pipes take `RWF_NOWAIT` since Linux 6.4; the queue has
    /// all other texts.
    Shared,
}

impl Route {
    fn of(stream: StandardStream) -> Self {
        let kind = fstat(stream.descriptor()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::Fifo | FileType::CharacterDevice) => {
                let path = format!("/proc/self/fd/{}", stream.descriptor().as_raw_fd());
                let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
                let reopened = OpenOptions::new().write(true).custom_flags(flags).open(path);
                reopened.map_or(Self::Shared, Self::Reopened)
            }
            Ok(_) | Err(_) => Self::File,
        }
    }

    /// Writes as much of a text as the stream takes without a wait.
    fn write(&self, stream: StandardStream, text: &[u8]) -> io::Result<usize> {
        let descriptor = stream.descriptor();
        let written = match self {
            Self::File => stream.write(text).map(|()| text.len()),
            Self::Reopened(file) => (&*file).write(text),
            Self::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(descriptor, text, flags).map_err(io::Error::from)
            }
            Self::Shared => {
                // This position stands for none, as in write(2).
                let written =
                    rustix::io::pwritev2(descriptor, &[IoSlice::new(text)], u64::MAX, ReadWriteFlags::NOWAIT);
                written.map_err(io::Error::from)
            }
        };
        let is_refused = |error: &io::Error| {
            matches!(
                Errno::from_io_error(error),
                Some(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS)
            )
        };
        written.or_else(|error| if is_refused(&error) { Ok(0) } else { Err(error) })
    }
}

/// Both streams of an instance. They have one queue, since they are often the same pipe.
#[derive(Debug)]
struct Queue {
    output: Route,
    error: Route,
    waiting: Mutex<Waiting>,
    /// The thread has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    texts: VecDeque<(StandardStream, Vec<u8>)>,
    /// Bytes of these texts, and of the text that the thread writes.
    bytes: usize,
    has_thread: bool,
    dropped: u64,
}

impl Queue {
    fn print(&'static self, stream: StandardStream, text: &[u8]) {
        let mut waiting = self.waiting.lock();
        let route = match stream {
            StandardStream::Output => &self.output,
            StandardStream::Error => &self.error,
        };
        let written = if waiting.bytes > 0 { Ok(0) } else { route.write(stream, text) };
        let Ok(written) = written else {
            waiting.dropped += 1;
            return;
        };
        let rest = text.get(written..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        // The rest of a line that has begun is always kept.
        if written == 0 && waiting.bytes + rest.len() > CAPACITY {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += rest.len();
        waiting.texts.push_back((stream, rest.to_owned()));
        if !waiting.has_thread {
            let started = thread::Builder::new().name("output".to_owned()).spawn(|| self.write_texts());
            waiting.has_thread = started.is_ok();
        }
    }

    fn write_texts(&self) {
        let mut waiting = self.waiting.lock();
        while let Some((stream, text)) = waiting.texts.pop_front() {
            let written = MutexGuard::unlocked(&mut waiting, || stream.write(&text));
            waiting.bytes -= text.len();
            waiting.dropped += u64::from(written.is_err());
        }
        waiting.has_thread = false;
        self.ended.notify_all();
    }
}
