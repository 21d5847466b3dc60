//! Errors of a broker as operators read them: its words first, and advice by the reply code.

use std::io;

use lapin::{
    ErrorKind,
    protocol::{AMQPHardError, AMQPSoftError},
};
use orchestrator_text::sanitize;

use crate::{PeerError, PeerErrorKind, Sent, shell_word};

/// A refusal of the broker has the broker's words.
pub(super) fn peer_error(error: &lapin::Error) -> PeerError {
    let (kind, text) = match error.kind() {
        ErrorKind::ProtocolError(refusal) => (PeerErrorKind::Refused, refusal.get_message().to_string()),
        ErrorKind::IOError(failed) => {
            if let Some(error) = failed.get_ref().and_then(|inner| inner.downcast_ref::<PeerError>()) {
                return error.clone();
            }
            let is_late = failed.kind() == io::ErrorKind::TimedOut;
            (if is_late { PeerErrorKind::Timeout } else { PeerErrorKind::Lost }, error.to_string())
        }
        _ => (PeerErrorKind::Lost, error.to_string()),
    };
    PeerError::new(kind, Sent::Maybe, sanitize(text))
}

/// Reply code of the broker's refusal.
fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => Some(refusal.get_id()),
        _ => None,
    }
}

/// Advice after a refusal to open a connection of `user` to `vhost`.
pub(super) fn connection_advice(error: &lapin::Error, user: &str, vhost: &str) -> Option<String> {
    let (user, vhost) = (shell_word(user), shell_word(vhost));
    let code = code(error)?;
    if code == AMQPSoftError::ACCESSREFUSED.get_id() {
        return Some(format!(
            "correct user and password in the url and restart, or: rabbitmqctl change_password {user} PASSWORD (rabbitmqctl list_users shows the users)"
        ));
    }
    (code == AMQPHardError::NOTALLOWED.get_id()).then(|| {
        format!("rabbitmqctl add_vhost {vhost}; rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'; or correct the virtual host in the url")
    })
}

pub(super) fn request_advice(error: &lapin::Error) -> Option<String> {
    (code(error)? == AMQPSoftError::ACCESSREFUSED.get_id()).then(|| {
        "rabbitmqctl list_permissions -p VHOST; rabbitmqctl set_permissions -p VHOST USER '.*' '.*' '.*'"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use lapin::protocol::{AMQPError, AMQPErrorKind};

    use super::*;

    #[test]
    fn advice_follows_the_reply_code() {
        let soft = |code| AMQPErrorKind::Soft(code);
        for (kind, connecting, requesting) in [
            (
                soft(AMQPSoftError::ACCESSREFUSED),
                "rabbitmqctl change_password me ",
                "rabbitmqctl list_permissions",
            ),
            (AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED), "rabbitmqctl add_vhost 'a b'; ", ""),
            (soft(AMQPSoftError::NOTFOUND), "", ""),
        ] {
            let error =
                lapin::Error::from(ErrorKind::ProtocolError(AMQPError::new(kind, "SAID - so".into())));
            let found = (connection_advice(&error, "me", "a b"), request_advice(&error));
            let found = (found.0.unwrap_or_default(), found.1.unwrap_or_default());
            assert!(found.0.contains(connecting) && found.0.is_empty() == connecting.is_empty(), "{found:?}");
            assert!(found.1.contains(requesting) && found.1.is_empty() == requesting.is_empty(), "{found:?}");
            let error = peer_error(&error);
            assert_eq!((error.kind, error.text.as_str()), (PeerErrorKind::Refused, "SAID - so"));
        }
    }
}
