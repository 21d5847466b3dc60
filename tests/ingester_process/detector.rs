//! A detector that an ingester dials: a PUSH socket whose newest connection is the one that counts.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use orchestrator_harness::{ZmtpPeer, wait_for};

/// Bytes of an image.
const PIXELS: usize = 8 << 10;

/// What an image of a scan shows.
pub(crate) fn pixels(scan: u64, frame: u64) -> Vec<u8> {
    let mut pixels = vec![(scan ^ frame) as u8; PIXELS];
    pixels[..8].copy_from_slice(&frame.to_be_bytes());
    pixels
}

/// What a sender does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    Go,
    Wait,
    Stop,
}

/// The detector. It takes every connection at once, so that the newest is the ingester's present one.
pub(crate) struct Detector {
    address: SocketAddr,
    newest: Arc<Mutex<Option<ZmtpPeer>>>,
    closed: Arc<AtomicBool>,
    taking: Option<JoinHandle<()>>,
}

impl Detector {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (newest, closed) = (Arc::<Mutex<_>>::default(), Arc::<AtomicBool>::default());
        let (slot, over) = (newest.clone(), closed.clone());
        let taking = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(SeqCst) {
                    return;
                }
                // Nobody has this connection's greeting before the slot is locked: who sees its link up finds it there.
                let mut newest = lock(&slot);
                // A run that was over before it was greeted leaves nothing.
                *newest = ZmtpPeer::from_stream(stream, "PUSH").ok();
            }
        });
        Self { address, newest, closed, taking: Some(taking) }
    }

    pub(crate) fn url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Sends the start of a scan.
    pub(crate) fn start(&self, scan: u64) {
        self.send(
            &[format!(r#"{{"htype":"header","msg_number":0,"filename":"","scan":{scan}}}"#).as_bytes()],
        );
    }

    /// Sends its end.
    pub(crate) fn end(&self, scan: u64) {
        self.send(&[format!(r#"{{"htype":"series_end","msg_number":1,"scan":{scan}}}"#).as_bytes()]);
    }

    /// Sends images, each when `may` lets it; gives the number of the first that was not sent.
    pub(crate) fn images(&self, scan: u64, frames: Range<u64>, may: impl Fn(u64) -> May) -> u64 {
        let end = frames.end;
        for frame in frames {
            let turn = wait_for("leave to send", || Some(may(frame)).filter(|may| *may != May::Wait));
            let head = format!(
                r#"{{"htype":"image","frame":{frame},"shape":[{PIXELS}],"type":"uint8","compression":"none","msg_number":1,"scan":{scan}}}"#
            );
            // After an interruption it may have to be said once more whether to go on.
            if turn == May::Stop || !self.send(&[head.as_bytes(), &pixels(scan, frame)]) {
                return frame;
            }
        }
        end
    }

    /// Was it taken by a connection that is there?
    fn send(&self, parts: &[&[u8]]) -> bool {
        lock(&self.newest).as_mut().is_some_and(|peer| peer.send(parts).is_ok())
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        self.closed.store(true, SeqCst);
        // Wakes the one that waits for connections.
        let _ = TcpStream::connect(self.address);
        if let Some(taking) = self.taking.take() {
            let _ = taking.join();
        }
    }
}

fn lock(newest: &Mutex<Option<ZmtpPeer>>) -> MutexGuard<'_, Option<ZmtpPeer>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}
