//! The bytes of a request (CONTRACT CP01 to CP05).

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use orchestrator_edge::http::{Body, Request};
use uuid::Uuid;

use super::{meaning::shown, place::Place};
use crate::{
    edge::credentials::Secret,
    service::{Get, Put, Trouble},
};

/// Part of every ETag: a write that rests on a question must have the same one (CONTRACT CP03).
const ACCEPT: HeaderValue = HeaderValue::from_static("*/*");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));
const CONTEXT: HeaderName = HeaderName::from_static("deriva-client-context");

/// Who asks, for the server's log: the same for all requests of this process. None of its bytes needs an escape.
static CLIENT: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let context = format!(r#"{{"cid":"orchestrator","wid":"{}"}}"#, Uuid::new_v4().simple());
    HeaderValue::from_str(&context).ok()
});

/// What is asked.
#[derive(Debug)]
pub(super) enum Ask {
    Get(Get),
    Put(Put),
}

impl Ask {
    pub(super) fn is_get(&self) -> bool {
        matches!(self, Self::Get(_))
    }

    fn path(&self) -> &str {
        match self {
            Self::Get(get) => &get.path,
            Self::Put(put) => &put.path,
        }
    }

    /// For people: method and path, without what is in a body.
    pub(super) fn describe(&self) -> String {
        let method = if self.is_get() { "GET" } else { "PUT" };
        format!("{method} {}", shown(self.path()))
    }

    /// The request to `place`, with the header that says who we are.
    ///
    /// # Errors
    /// [`Trouble::Refused`]: it has bytes that no request has.
    pub(super) fn request(
        &self,
        place: &Place,
        who: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<Request, Trouble> {
        let refused = |what: &str| {
            let percent = "percent-encode its names and values";
            Trouble::Refused(format!("{}: {what} cannot be sent as it is: {percent}", self.describe()))
        };
        let target = place.target(self.path()).ok_or_else(|| refused("the path"))?;
        let mut request = match self {
            Self::Get(_) => Request::new(Body::default()),
            Self::Put(put) => Request::new(Body::new(put.body.clone())),
        };
        let (condition, etag) = match self {
            Self::Get(get) => (header::IF_NONE_MATCH, &get.if_none_match),
            Self::Put(put) => (header::IF_MATCH, &put.if_match),
        };
        if let Some(etag) = etag {
            let etag = HeaderValue::from_bytes(etag.as_bytes()).map_err(|_| refused("the ETag"))?;
            request.headers_mut().insert(condition, etag);
        }
        if !self.is_get() {
            *request.method_mut() = Method::PUT;
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        *request.uri_mut() = target;
        mark(request.headers_mut(), place, who);
        Ok(request)
    }
}

/// The exchange of a user and a password for a session's cookie (CONTRACT CP06).
pub(super) fn login(place: &Place, user: &str, password: &Secret) -> Request {
    let form = format!("username={}&password={}", escaped(user), escaped(password.expose()));
    let mut request = Request::new(Body::new(Bytes::from(form)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = hyper::Uri::from_static("/authn/session");
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, form);
    mark(request.headers_mut(), place, None);
    request
}

/// What all requests have.
fn mark(headers: &mut HeaderMap, place: &Place, who: Option<&(HeaderName, HeaderValue)>) {
    headers.insert(header::HOST, place.authority.clone());
    headers.insert(header::USER_AGENT, USER_AGENT);
    headers.insert(header::ACCEPT, ACCEPT);
    if let Some(client) = &*CLIENT {
        headers.insert(CONTEXT, client.clone());
    }
    if let Some((name, value)) = who {
        headers.insert(name, value.clone());
    }
}

/// All but what RFC 3986 leaves as it is, percent-encoded.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::with_capacity(text.len()), |mut form, byte| {
        if plain(byte) {
            form.push(byte.into());
        } else {
            form.push_str(&format!("%{byte:02X}"));
        }
        form
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_keeps_every_byte() {
        assert_eq!(escaped("a-Z0._~ +&=%é"), "a-Z0._~%20%2B%26%3D%25%C3%A9");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_it_is() {
        let place = Place::new("http://h/ermrest/catalog/1", None, &[]).expect("an address");
        let get = |path: &str, etag: Option<&str>| {
            let ask = Ask::Get(Get { path: path.to_owned(), if_none_match: etag.map(str::to_owned) });
            ask.request(&place, None).map(drop)
        };
        assert_eq!(get("/entity/Foo", Some("\"a;*/*;2026-11-20 12:42\"")), Ok(()));
        for (path, etag, what) in
            [("/entity/F oo", None, "the path"), ("/entity/Foo", Some("a\r\nb"), "the ETag")]
        {
            let Err(Trouble::Refused(text)) = get(path, etag) else { panic!("{path} is sent") };
            assert!(text.starts_with(&format!("GET {path}: {what} cannot be sent")), "{text}");
        }
    }
}
