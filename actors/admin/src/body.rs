//! The JSON body of a request, limited in size and time.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::{BODY_LIMIT, ErrorKind};

/// Time within which the whole body has to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the body as `T`, or returns `T::default()` if it is empty. Error messages contain `example`.
///
/// # Errors
/// The body is late, too large or invalid.
pub(crate) async fn read<T: DeserializeOwned + Default>(
    body: Incoming,
    example: &str,
) -> Result<T, ApiError> {
    let bad =
        |error: String| ApiError::new(ErrorKind::BadRequest, format!("{error}: send JSON such as {example}"));
    let collected = timeout(BODY_TIMEOUT, collect(body)).await.map_err(|_elapsed| {
        ApiError::new(ErrorKind::SlowBody, format!("the body did not arrive within {BODY_TIMEOUT:?}"))
    })?;
    let Some(bytes) = collected.map_err(|error| bad(error.to_string()))? else {
        let message = format!("the body is larger than {BODY_LIMIT} bytes: send less");
        return Err(ApiError::new(ErrorKind::TooLarge, message));
    };
    if bytes.is_empty() {
        return Ok(T::default());
    }
    // serde would accept an array as a struct.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("the body is not a JSON object".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error: serde_json::Error| {
        let (text, at) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
        // A position in the text says nothing about a value.
        bad(text.strip_suffix(&at).filter(|_| error.is_data()).unwrap_or(&text).to_owned())
    })
}

/// Reads the body to its end; None if it is too large. Chunks are copied, since each one keeps its read
/// buffer alive.
async fn collect(mut body: Incoming) -> hyper::Result<Option<BytesMut>> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are skipped.
        let Ok(chunk) = frame?.into_data() else { continue };
        if chunk.len() > BODY_LIMIT - whole.len() {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole))
}
