//! Classification of the server's answers (CONTRACT CE01 to CE09) by status, headers and body. Pure.

use std::time::Duration;

use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{self, HeaderName},
};
use jiff::Timestamp;
use orchestrator_edge::http::Response;
use orchestrator_supervise::sanitize_to;

use crate::service::{Reply, Trouble};

/// A server's words beyond this many bytes are not repeated; likewise a path.
const WORDS_MAX: usize = 200;

/// Meaning of `answer` to a question, or else to a write; `what` names the request for people. 401 and 403 are [`Trouble::Denied`] without
/// advice.
pub(super) fn meaning(answer: Response, is_get: bool, what: &str) -> Result<Reply, Trouble> {
    if answer.status.is_success() {
        return Ok(Reply::Rows { etag: text(&answer.headers, header::ETAG), body: answer.body });
    }
    if answer.status == StatusCode::NOT_MODIFIED && is_get {
        return Ok(Reply::Unchanged { etag: text(&answer.headers, header::ETAG) });
    }
    let said = said(&answer, what);
    Err(match answer.status.as_u16() {
        401 | 403 => Trouble::Denied(said),
        404 | 410 => Trouble::Missing(said),
        // It gave up reading, or did not begin: nothing was carried out.
        408 | 429 => Trouble::Away(said),
        412 => Trouble::Concurrent,
        413 => Trouble::TooLarge,
        500..=599 if is_get => Trouble::Away(said),
        // Whoever says so, a server or a proxy before it, does not say how far the write had come.
        500..=599 => Trouble::Unsettled(said),
        300..=399 => {
            let to = text(&answer.headers, header::LOCATION).unwrap_or_default();
            Trouble::Refused(format!("{said}: it sends us to {}: correct the base", shown(&to)))
        }
        _ => Trouble::Refused(format!("{said}: correct the rule")),
    })
}

/// Tells whether the transaction met another one, and nothing was written.
pub(super) fn is_aborted(answer: &Response) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE
        && answer.body.windows(ABORTED.len()).any(|window| window == ABORTED)
}

/// How long the server, which has not carried out the request, wants to be left alone. A date is measured from `now`.
pub(super) fn held_for(answer: &Response, now: Timestamp) -> Option<Duration> {
    let asks = matches!(answer.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    asks.then(|| retry_after(&answer.headers, now)).flatten()
}

/// Status and words of an answer, for people.
pub(super) fn said(answer: &Response, what: &str) -> String {
    format!("the server answers {what} with {}{}", answer.status.as_u16(), words(&answer.body))
}

/// What a server says of a transaction that met another one.
const ABORTED: &[u8] = b"Transaction aborted.";

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// How long a server wants to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, header::RETRY_AFTER)?;
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(date.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

/// The first line of what a server says, for people.
fn words(body: &Bytes) -> String {
    let line = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| format!(": {}", shown(line)))
}

/// Text of a server, or a path: escaped, and limited in length.
pub(super) fn shown(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, WORDS_MAX)
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

    fn trouble(status: u16, is_get: bool) -> Trouble {
        let answer = answer(status, &[], "Phrase. Detail: more\nand more");
        meaning(answer, is_get, "X /p").expect_err("no success")
    }

    #[test]
    fn an_etag_is_what_the_server_wrote() {
        let etag = "\"zcH==;*/*;2026-11-20 12:42:13.697683+00:00\"";
        for status in [200, 201] {
            let body = Bytes::from_static(b"[]\n");
            let reply = Reply::Rows { etag: Some(etag.to_owned()), body };
            assert_eq!(meaning(answer(status, &[("etag", etag)], "[]\n"), true, "X /p"), Ok(reply));
        }
        let reply = Reply::Unchanged { etag: Some(etag.to_owned()) };
        assert_eq!(meaning(answer(304, &[("etag", etag)], ""), true, "X /p"), Ok(reply));
    }

    #[test]
    fn every_status_has_its_trouble() {
        let said = |status| format!("the server answers X /p with {status}: Phrase. Detail: more");
        for is_get in [true, false] {
            for status in [400, 405, 409, 415, 414, 422] {
                let wanted = format!("{}: correct the rule", said(status));
                assert_eq!(trouble(status, is_get), Trouble::Refused(wanted));
            }
            assert_eq!(trouble(404, is_get), Trouble::Missing(said(404)));
            assert_eq!(trouble(429, is_get), Trouble::Away(said(429)));
            assert_eq!(trouble(412, is_get), Trouble::Concurrent);
            assert_eq!(trouble(413, is_get), Trouble::TooLarge);
            for status in [401, 403] {
                assert_eq!(trouble(status, is_get), Trouble::Denied(said(status)));
            }
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(trouble(status, true), Trouble::Away(said(status)));
            assert_eq!(trouble(status, false), Trouble::Unsettled(said(status)));
        }
        assert!(matches!(trouble(304, false), Trouble::Refused(_)), "nobody asked a write for changes");
    }

    #[test]
    fn an_aborted_transaction_goes_before_all_that_503_may_mean() {
        let text = "The service is temporarily unavailable. Detail: Transaction aborted.";
        assert!(!is_aborted(&answer(500, &[], text)) && !is_aborted(&answer(503, &[], "")));
        for headers in [&[][..], &[("retry-after", "5")]] {
            assert!(is_aborted(&answer(503, headers, text)));
        }
    }

    #[test]
    fn a_server_that_wants_to_be_left_alone_says_how_long() {
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
                let held = held_for(&answer(status, &[("retry-after", value)], ""), now);
                assert_eq!(held.map(|span| span.as_secs()), wanted, "{value}");
            }
            assert_eq!(held_for(&answer(500, &[("retry-after", value)], ""), now), None);
        }
    }

    #[test]
    fn a_redirect_is_told_and_not_followed() {
        let told = meaning(answer(302, &[("location", "https://elsewhere/")], ""), true, "X /p");
        let said = "the server answers X /p with 302: it sends us to https://elsewhere/: correct the base";
        assert_eq!(told, Err(Trouble::Refused(said.to_owned())));
    }

    #[test]
    fn words_are_few_and_of_one_line() {
        assert_eq!(words(&Bytes::from_static(b"\n  a\tb  \nsecond")), ": a\\tb");
        let long = shown("é".repeat(300));
        assert_eq!((long.len(), long.ends_with("bytes left out)")), (long.len().min(WORDS_MAX), true));
    }
}
