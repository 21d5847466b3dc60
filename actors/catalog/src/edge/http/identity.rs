//! Who we are, as a header; and the session that a password is exchanged for.

use std::{cell::RefCell, time::Instant};

use hyper::{
    HeaderMap,
    header::{self, HeaderName, HeaderValue},
};
use tokio::sync::Mutex;

use crate::edge::credentials::{Credentials, Grant, Secret, Source, cookie_pair};

/// The header that says who we are; None for nobody.
pub(super) type Who = Option<(HeaderName, HeaderValue)>;

/// Who we are to one server.
pub(super) struct Identity {
    credentials: RefCell<Credentials>,
    /// The session of the password that it was given for. One logs in at a time.
    session: Mutex<Option<(Grant, HeaderValue)>>,
}

impl Identity {
    pub(super) fn new(source: Source, host: &str) -> Self {
        Self { credentials: RefCell::new(Credentials::new(source, host)), session: Mutex::default() }
    }

    /// The header. `log_in` exchanges user and password for the headers of an answer.
    ///
    /// # Errors
    /// There are no credentials, or the server does not take them; says what to do.
    pub(super) async fn who<E: From<String>>(
        &self,
        log_in: impl AsyncFn(&str, &Secret) -> Result<HeaderMap, E>,
    ) -> Result<Who, E> {
        let grant = self.credentials.borrow_mut().grant(Instant::now()).map_err(E::from)?;
        let (name, value) = match &grant {
            Grant::Anonymous => return Ok(None),
            Grant::Bearer(token) => (header::AUTHORIZATION, hidden(&format!("Bearer {}", token.expose()))),
            Grant::Cookie(cookie) => (header::COOKIE, hidden(cookie.expose())),
            Grant::Password { user, password } => {
                let mut session = self.session.lock().await;
                if let Some((_, cookie)) = session.as_ref().filter(|(of, _)| *of == grant) {
                    return Ok(Some((header::COOKIE, cookie.clone())));
                }
                let cookie = cookies(&log_in(user, password).await?);
                if let Ok(cookie) = &cookie {
                    *session = Some((grant.clone(), cookie.clone()));
                }
                (header::COOKIE, cookie)
            }
        };
        let advice = || self.credentials.borrow().source().advice();
        let value = value.map_err(|reason| E::from(format!("{reason}: {}", advice())))?;
        Ok(Some((name, value)))
    }

    /// The server does not believe `who`: what it came from is read again. Not if it is not what is shown any more.
    pub(super) async fn doubt(&self, who: &Who) {
        self.credentials.borrow_mut().doubt();
        let mut session = self.session.lock().await;
        if session.as_ref().map(|(_, cookie)| cookie) == who.as_ref().map(|(_, value)| value) {
            *session = None;
        }
    }

    /// For people: what to do if the server does not believe us.
    pub(super) fn advice(&self) -> String {
        self.credentials.borrow().source().advice()
    }
}

/// A header's value that is not shown.
fn hidden(text: &str) -> Result<HeaderValue, &'static str> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| "the credentials have bytes that no header has")?;
    value.set_sensitive(true);
    Ok(value)
}

/// All cookies that an answer sets, as they are sent back.
fn cookies(headers: &HeaderMap) -> Result<HeaderValue, &'static str> {
    let set = headers.get_all(header::SET_COOKIE).iter();
    let pairs: Vec<&str> = set.filter_map(|value| value.to_str().ok()).filter_map(cookie_pair).collect();
    if pairs.is_empty() {
        return Err("the server takes user and password, and gives no cookie for them");
    }
    hidden(&pairs.join("; "))
}
