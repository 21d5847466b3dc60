//! Classification of the server's answers (CONTRACT CE01 to CE09) by status, headers and body. Pure.

use std::time::Duration;

use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{self, HeaderName},
};
use jiff::Timestamp;
use orchestrator_edge::http::Response;
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_text::sanitize_to;

use crate::service::{CatalogResponse, RequestError};

/// Maximum length of quoted texts of the server, and of paths, in bytes.
const QUOTED_MAX: usize = 200;

/// Classifies the answer to a read (`is_get`) or a write: of any 2xx status, or 304 to a read. `what` names
/// the request in error texts. The text of 401 and 403 is without advice.
pub(super) fn classify(answer: Response, is_get: bool, what: &str) -> Result<Response, RequestError> {
    if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED && is_get {
        return Ok(answer);
    }
    let description = describe_answer(&answer, what);
    Err(match answer.status.as_u16() {
        // The credentials tell what helps.
        401 => RequestError::Unauthorized(LinkFailure::new(FailureKind::Refused, description)),
        403 => RequestError::Unauthorized(LinkFailure::refused(
            description,
            "ask an owner of the catalog for the right in its ACLs, or log in as another user",
        )),
        404 | 410 => RequestError::NotFound(description),
        // The server did not process the request.
        408 | 429 => RequestError::Unavailable(description),
        412 => RequestError::PreconditionFailed,
        413 => RequestError::PayloadTooLarge,
        500..=599 if is_get => RequestError::Unavailable(description),
        // Whether server or proxy says so, the progress of the write is unknown.
        500..=599 => RequestError::OutcomeUnknown(description),
        300..=399 => {
            let to = text(&answer.headers, header::LOCATION).unwrap_or_default();
            RequestError::Rejected(format!(
                "{description}: it redirects to {}: correct the base",
                quoted(&to)
            ))
        }
        _ => RequestError::Rejected(format!("{description}: correct the rule")),
    })
}

impl From<Response> for CatalogResponse {
    fn from(Response { status, headers, body }: Response) -> Self {
        let etag = text(&headers, header::ETAG);
        if status == StatusCode::NOT_MODIFIED {
            Self::NotModified { etag }
        } else {
            Self::Rows { etag, body }
        }
    }
}

/// Returns true if the server aborted the transaction because of a conflict. Nothing was written.
pub(super) fn is_aborted(answer: &Response) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE
        && answer.body.windows(ABORTED.len()).any(|window| window == ABORTED)
}

/// `Retry-After` of a 429 or 503. A date counts from `now`.
pub(super) fn retry_after_of(answer: &Response, now: Timestamp) -> Option<Duration> {
    let asks = matches!(answer.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    asks.then(|| retry_after(&answer.headers, now)).flatten()
}

/// Describes status and first line of an answer for error texts.
pub(super) fn describe_answer(answer: &Response, what: &str) -> String {
    format!("the server answers {what} with {}{}", answer.status.as_u16(), first_line(&answer.body))
}

/// Text of ERMrest for an aborted transaction.
const ABORTED: &[u8] = b"Transaction aborted.";

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, header::RETRY_AFTER)?;
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(date.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

fn first_line(body: &Bytes) -> String {
    let line = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| format!(": {}", quoted(line)))
}

/// Escapes and shortens a text of the server, or a path.
pub(super) fn quoted(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, QUOTED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Response {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value")));
        Response {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: headers.collect(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    fn read(answer: Response) -> Result<CatalogResponse, RequestError> {
        classify(answer, true, "X /p").map(CatalogResponse::from)
    }

    fn error(status: u16, is_get: bool) -> RequestError {
        let answer = answer(status, &[], "Phrase. Detail: more\nand more");
        classify(answer, is_get, "X /p").expect_err("no success")
    }

    #[test]
    fn an_etag_is_kept_as_written() {
        let etag = "\"zcH==;*/*;2026-11-20 12:42:13.697683+00:00\"";
        for status in [200, 201] {
            let body = Bytes::from_static(b"[]\n");
            let reply = CatalogResponse::Rows { etag: Some(etag.to_owned()), body };
            assert_eq!(read(answer(status, &[("etag", etag)], "[]\n")), Ok(reply));
        }
        let reply = CatalogResponse::NotModified { etag: Some(etag.to_owned()) };
        assert_eq!(read(answer(304, &[("etag", etag)], "")), Ok(reply));
    }

    #[test]
    fn each_status_has_its_error() {
        let description = |status| format!("the server answers X /p with {status}: Phrase. Detail: more");
        for is_get in [true, false] {
            for status in [400, 405, 409, 415, 414, 422] {
                let wanted = format!("{}: correct the rule", description(status));
                assert_eq!(error(status, is_get), RequestError::Rejected(wanted));
            }
            assert_eq!(error(404, is_get), RequestError::NotFound(description(404)));
            assert_eq!(error(429, is_get), RequestError::Unavailable(description(429)));
            assert_eq!(error(412, is_get), RequestError::PreconditionFailed);
            assert_eq!(error(413, is_get), RequestError::PayloadTooLarge);
            for status in [401, 403] {
                let RequestError::Unauthorized(failure) = error(status, is_get) else { panic!("{status}") };
                assert_eq!((failure.reason, failure.help.is_some()), (description(status), status == 403));
            }
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(error(status, true), RequestError::Unavailable(description(status)));
            assert_eq!(error(status, false), RequestError::OutcomeUnknown(description(status)));
        }
        assert!(matches!(error(304, false), RequestError::Rejected(_)), "nobody asked a write for changes");
    }

    #[test]
    fn an_aborted_transaction_takes_precedence_over_retry_after() {
        let text = "The service is temporarily unavailable. Detail: Transaction aborted.";
        assert!(!is_aborted(&answer(500, &[], text)) && !is_aborted(&answer(503, &[], "")));
        for headers in [&[][..], &[("retry-after", "5")]] {
            assert!(is_aborted(&answer(503, headers, text)));
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-11-20T12:00:00Z".parse().expect("a time");
        for (value, wanted) in [
            ("3600", Some(3600)),
            ("0", Some(0)),
            ("Fri, 20 Nov 2026 12:00:09 GMT", Some(9)),
            ("Fri, 20 Nov 2026 11:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            for status in [429, 503] {
                let held = retry_after_of(&answer(status, &[("retry-after", value)], ""), now);
                assert_eq!(held.map(|span| span.as_secs()), wanted, "{value}");
            }
            assert_eq!(retry_after_of(&answer(500, &[("retry-after", value)], ""), now), None);
        }
    }

    #[test]
    fn a_redirect_is_an_error_that_names_its_target() {
        let response = read(answer(302, &[("location", "https://elsewhere/")], ""));
        let description =
            "the server answers X /p with 302: it redirects to https://elsewhere/: correct the base";
        assert_eq!(response, Err(RequestError::Rejected(description.to_owned())));
    }

    #[test]
    fn quoted_text_is_one_short_line() {
        assert_eq!(first_line(&Bytes::from_static(b"\n  a\tb  \nsecond")), ": a\\tb");
        let long = quoted("é".repeat(300));
        assert_eq!((long.len(), long.ends_with("bytes left out)")), (long.len().min(QUOTED_MAX), true));
    }
}
