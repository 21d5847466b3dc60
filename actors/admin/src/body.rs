//! The JSON body of a request, limited in size and time.

use std::time::Duration;

use actix_web::web::Payload;
use serde::de::DeserializeOwned;

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::{BODY_LIMIT, ErrorKind};

/// Time within which the whole body has to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the body as `T`, or returns `T::default()` if it is empty. Error messages contain `example`.
///
/// # Errors
/// The body is late, too large or invalid.
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
