//! Credentials as a request header, and the session that a password is exchanged for.

use std::time::Instant;

use hyper::{
    HeaderMap,
    header::{self, HeaderName, HeaderValue},
};
use orchestrator_subsystem::Secret;
use parking_lot::Mutex;

use crate::edge::credentials::{Credential, Credentials, Source, cookie_pair};

/// Header with the credentials; None: anonymous.
pub(super) type AuthHeader = Option<(HeaderName, HeaderValue)>;

/// Credentials for one server.
pub(super) struct Identity {
    credentials: Mutex<Credentials>,
    /// Session cookie with the password that it was issued for. One login at a time.
    session: tokio::sync::Mutex<Option<(Credential, HeaderValue)>>,
}

impl Identity {
    pub(super) fn new(source: Source, host: &str) -> Self {
        Self {
            credentials: Mutex::new(Credentials::new(source, host)),
            session: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the header. `log_in` exchanges user and password for the headers of the answer.
    ///
    /// # Errors
    /// No usable credentials, or the server rejects the login; the text says what to do.
    pub(super) async fn auth_header<E: From<String>, L: Future<Output = Result<HeaderMap, E>>>(
        &self,
        log_in: impl FnOnce(String, Secret) -> L,
    ) -> Result<AuthHeader, E> {
        let credential = self.credentials.lock().current(Instant::now()).map_err(E::from)?;
        let (name, value) = match &credential {
            Credential::Anonymous => return Ok(None),
            Credential::Bearer(token) => {
                (header::AUTHORIZATION, hidden(&format!("Bearer {}", token.expose())))
            }
            Credential::Cookie(cookie) => (header::COOKIE, hidden(cookie.expose())),
            Credential::Password { user, password } => {
                let mut session = self.session.lock().await;
                if let Some((_, cookie)) = session.as_ref().filter(|(of, _)| *of == credential) {
                    return Ok(Some((header::COOKIE, cookie.clone())));
                }
                let cookie = cookies(&log_in(user.clone(), password.clone()).await?);
                if let Ok(cookie) = &cookie {
                    *session = Some((credential.clone(), cookie.clone()));
                }
                (header::COOKIE, cookie)
            }
        };
        let advice = || self.credentials.lock().source().advice();
        let value = value.map_err(|reason| E::from(format!("{reason}: {}", advice())))?;
        Ok(Some((name, value)))
    }

    /// Discards refused credentials, so that their files are read again. A newer session is kept.
    pub(super) async fn invalidate(&self, who: &AuthHeader) {
        self.credentials.lock().invalidate();
        let mut session = self.session.lock().await;
        if session.as_ref().map(|(_, cookie)| cookie) == who.as_ref().map(|(_, value)| value) {
            *session = None;
        }
    }

    pub(super) fn advice(&self) -> String {
        self.credentials.lock().source().advice()
    }
}

/// Creates a header value that logs do not show.
fn hidden(text: &str) -> Result<HeaderValue, &'static str> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| "the credentials have bytes that no header has")?;
    value.set_sensitive(true);
    Ok(value)
}

/// One `Cookie` header with all cookies that an answer sets.
fn cookies(headers: &HeaderMap) -> Result<HeaderValue, &'static str> {
    let set = headers.get_all(header::SET_COOKIE).iter();
    let pairs: Vec<&str> = set.filter_map(|value| value.to_str().ok()).filter_map(cookie_pair).collect();
    if pairs.is_empty() {
        return Err("the server takes user and password, and gives no cookie for them");
    }
    hidden(&pairs.join("; "))
}
