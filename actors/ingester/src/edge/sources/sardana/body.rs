//! Bodies of posts, with a common memory limit for all connections.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{
    StatusCode,
    body::{Body, Incoming},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Longest body, bytes.
const BODY_MAX: usize = 64 << 20;
/// All bodies in memory, KiB.
const BODIES_MAX_KIB: usize = 128 << 10;
/// Posts that wait for the run, KiB; a longer one waits alone.
const QUEUED_MAX_KIB: u32 = 64 << 10;
/// Time-outs for the next chunk of a body, and for the whole body.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Memory limits of one server.
#[derive(Debug)]
pub(super) struct BodyLimits {
    bodies: Arc<Semaphore>,
    queued: Arc<Semaphore>,
}

/// A body with its share of the memory limit.
pub(super) struct PostBody {
    pub(super) bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Reason why a body is refused: status and advice.
pub(super) type Rejection = (StatusCode, &'static str);

impl Default for BodyLimits {
    fn default() -> Self {
        let [bodies, queued] =
            [BODIES_MAX_KIB, QUEUED_MAX_KIB as usize].map(|kib| Arc::new(Semaphore::new(kib)));
        Self { bodies, queued }
    }
}

impl BodyLimits {
    /// Upper bound of [`BodyLimits::held`].
    pub(super) const HELD_MAX: usize = (BODIES_MAX_KIB + QUEUED_MAX_KIB as usize) << 10;

    /// Bytes of all bodies and waiting posts.
    pub(super) fn held(&self) -> usize {
        let free_kib = self.bodies.available_permits() + self.queued.available_permits();
        Self::HELD_MAX - (free_kib << 10)
    }

    /// Reads a body to its end.
    pub(super) async fn read(&self, body: Incoming) -> Result<PostBody, Rejection> {
        if body.size_hint().lower() > BODY_MAX as u64 {
            return Err(TOO_LONG);
        }
        timeout(BODY_TIMEOUT, self.collect(body)).await.unwrap_or(Err(SLOW))
    }

    /// Reserves room for a post of `bytes` that waits for its run.
    pub(super) async fn queue(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = kib(bytes).min(QUEUED_MAX_KIB);
        self.queued.clone().acquire_many_owned(kib).await.ok()
    }

    async fn collect(&self, mut incoming: Incoming) -> Result<PostBody, Rejection> {
        let mut body = BytesMut::new();
        let mut limits: Option<OwnedSemaphorePermit> = None;
        loop {
            let frame = match timeout(CHUNK_TIMEOUT, incoming.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(PostBody { bytes: body.freeze(), _permit: limits }),
                Ok(Some(Err(_))) => return Err((StatusCode::BAD_REQUEST, "send the whole body")),
                Err(_elapsed) => return Err(SLOW),
            };
            // Trailers are skipped.
            let Ok(chunk) = frame.into_data() else { continue };
            if body.len() + chunk.len() > BODY_MAX {
                return Err(TOO_LONG);
            }
            body.extend_from_slice(&chunk);
            let held = limits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = kib(body.len()).saturating_sub(u32::try_from(held).unwrap_or(u32::MAX));
            let more = self.bodies.clone().try_acquire_many_owned(missing).map_err(|_| {
                (StatusCode::SERVICE_UNAVAILABLE, "too many posts at once: send it again in a moment")
            })?;
            match &mut limits {
                Some(limits) => limits.merge(more),
                None => limits = Some(more),
            }
        }
    }
}

const TOO_LONG: Rejection = (StatusCode::PAYLOAD_TOO_LARGE, "send at most 64 MiB in one post");

const SLOW: Rejection = (StatusCode::REQUEST_TIMEOUT, "send the body without pauses");

/// Bytes in KiB, rounded up.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}
