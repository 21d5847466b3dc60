//! Bodies of posts, limited together: each connection may send a long one, and there are many connections.

use std::{sync::Arc, time::Duration};

use actix_web::{HttpRequest, http::StatusCode, http::header, web::Payload};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Longest body, bytes.
const BODY_MAX: usize = 64 << 20;
/// Bodies that are read, or wait to be taken, KiB.
const BODIES_MAX_KIB: usize = 128 << 10;
/// Posts that wait for the run, KiB; a longer one waits alone.
const QUEUED_MAX_KIB: u32 = 64 << 10;
/// Longest silence within a body, and longest time for all of it.
const SILENCE: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(60);

/// Room for the bodies of one server.
#[derive(Debug)]
pub(super) struct Room {
    bodies: Arc<Semaphore>,
    queued: Arc<Semaphore>,
}

/// A body; as long as it is held its room is taken.
pub(super) struct Body {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Why a body is not taken: the status, and what to do.
pub(super) type Refused = (StatusCode, &'static str);

impl Default for Room {
    fn default() -> Self {
        let [bodies, queued] =
            [BODIES_MAX_KIB, QUEUED_MAX_KIB as usize].map(|kib| Arc::new(Semaphore::new(kib)));
        Self { bodies, queued }
    }
}

impl Room {
    /// Reads a body to its end.
    pub(super) async fn read(&self, request: &HttpRequest, payload: Payload) -> Result<Body, Refused> {
        let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > BODY_MAX) {
            return Err(TOO_LONG);
        }
        let slow = (StatusCode::REQUEST_TIMEOUT, "send the body without a break");
        timeout(WHOLE, self.collect(payload)).await.unwrap_or(Err(slow))
    }

    /// Room for a post of `bytes` that waits for its run.
    pub(super) async fn queue(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = kib(bytes).min(QUEUED_MAX_KIB);
        self.queued.clone().acquire_many_owned(kib).await.ok()
    }

    async fn collect(&self, mut payload: Payload) -> Result<Body, Refused> {
        let mut body = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        loop {
            let chunk = match timeout(SILENCE, payload.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => return Ok(Body { bytes: body.freeze(), _room: room }),
                Ok(Some(Err(_))) => return Err((StatusCode::BAD_REQUEST, "send a whole body")),
                Err(_elapsed) => return Err((StatusCode::REQUEST_TIMEOUT, "send the body without a break")),
            };
            if body.len() + chunk.len() > BODY_MAX {
                return Err(TOO_LONG);
            }
            body.extend_from_slice(&chunk);
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = kib(body.len()).saturating_sub(u32::try_from(held).unwrap_or(u32::MAX));
            let more = self.bodies.clone().try_acquire_many_owned(missing).map_err(|_| {
                (StatusCode::SERVICE_UNAVAILABLE, "too much is posted at once: send it again in a moment")
            })?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
    }
}

const TOO_LONG: Refused = (StatusCode::PAYLOAD_TOO_LARGE, "send at most 64 MiB in one post");

/// KiB that `bytes` begin.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}
