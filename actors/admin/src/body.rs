//! Reads a request's JSON body, bounded in size and time.

use std::time::Duration;

use actix_web::web::Payload;
use serde::de::DeserializeOwned;

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::{BODY_LIMIT, ErrorKind};

/// A client that sends slower than this is cut off.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The body as `T`, or `T::default()` when it is empty; `example` shows in the error what it should look like.
pub(crate) async fn read<T: DeserializeOwned + Default>(
    payload: Payload,
    example: &str,
) -> Result<T, ApiError> {
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, payload.to_bytes_limited(BODY_LIMIT)).await else {
        return Err(ApiError::new(
            ErrorKind::SlowBody,
            format!("the body did not arrive within {BODY_TIMEOUT:?}"),
        ));
    };
    let Ok(read) = read else {
        let message = format!("the body is larger than {BODY_LIMIT} bytes: send less");
        return Err(ApiError::new(ErrorKind::TooLarge, message));
    };
    let bad =
        |error: String| ApiError::new(ErrorKind::BadRequest, format!("{error}: send JSON such as {example}"));
    let bytes = read.map_err(|error| bad(error.to_string()))?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    // A list of values is no list of named ones, although serde takes it for a struct.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("the body is not a JSON object".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
}
