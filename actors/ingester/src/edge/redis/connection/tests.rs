//! Hostile servers, and servers other than Redis.

use redis::{Client, cmd};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

const REPLY_MAX: usize = 64 << 10;

/// Error of a client whose server sends `first`, then `rest` without end.
async fn error_of(first: &[u8], rest: &[u8]) -> PeerError {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}/0", listener.local_addr().expect("its address"));
    let serving = async {
        let (mut stream, _) = listener.accept().await.expect("it is dialled");
        let mut asked = [0; 4096];
        let _ = stream.read(&mut asked).await;
        let (first, rest) = (first.to_vec(), rest.repeat(4096));
        let mut sent = stream.write_all(&first).await;
        while sent.is_ok() && !rest.is_empty() {
            sent = stream.write_all(&rest).await;
        }
        std::future::pending::<PeerError>().await
    };
    let asking = async {
        let client = Client::open(url).expect("a url");
        let mut connection =
            Connection::open(client.get_connection_info(), None, Duration::ZERO, REPLY_MAX).await?;
        connection.ask(cmd("GET").arg("x")).await
    };
    let outcome = tokio::select! {
        outcome = asking => outcome,
        _ = serving => unreachable!("it waits for ever"),
    };
    outcome.expect_err("no server gives what was asked for")
}

#[tokio::test]
async fn an_endless_reply_is_too_long() {
    let nothing: &[u8] = b"";
    for (first, rest) in [
        (&b"$2147483647\r\n"[..], &b"x"[..]),
        (b"*9223372036854775807\r\n", b":1\r\n"),
        (b"%4611686018427387904\r\n", b"_\r\n"),
        (b"+", b"x"),
        (b"-ERR ", b"\xff"),
        (nothing, b">1\r\n$1\r\nx\r\n"),
    ] {
        let error = error_of(first, rest).await;
        assert_eq!(error, too_large(REPLY_MAX), "{}", first.escape_ascii());
    }
}

#[tokio::test]
async fn an_invalid_reply_has_a_short_error() {
    let deep = b"*1\r\n".repeat(1_000);
    let text = [&b"-ERR "[..], &b"y\x1b[2J".repeat(2_000), b"\r\n"].concat();
    for first in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &deep,
        &text,
        b"\xff\xff\r\n",
        b"%-1\r\n",
        b"|-5\r\n:1\r\n",
        b"~-7\r\n",
        b">0\r\n",
        b"$x\r\n",
        b"*1\r\n-ERR no\r\n",
    ] {
        let text = error_of(&first.repeat(4), b"").await.to_string();
        assert!(text.len() <= 600 && !text.contains('\u{1b}'), "{text}");
    }
    let refused = error_of(&text.repeat(3), b"").await;
    assert!(matches!(refused.kind, PeerErrorKind::Refused | PeerErrorKind::Lost), "{refused}");
}

#[test]
fn a_long_error_is_truncated_while_formatting() {
    struct Endless;
    impl Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("\u{e4}x")?;
            }
        }
    }
    assert!(truncated(&Endless).len() <= TEXT_MAX);
    assert_eq!(truncated(&"a\nb"), "a\\nb");
}

#[test]
fn advice_follows_the_code_of_the_server() {
    let error = |code: &str| redis::make_extension_error(code.to_owned(), Some("no".to_owned()));
    for (code, advice) in ADVICE {
        let refused = peer_error(error(code));
        assert_eq!(
            (refused.kind, refused.advice.as_deref()),
            (PeerErrorKind::Refused, Some(advice)),
            "{code}"
        );
        assert!(refused.text.contains(code), "{refused:?}");
    }
    assert_eq!(peer_error(error("UNKNOWN")).advice, None);
    let wrong = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
    assert!(peer_error(wrong).advice.expect("advice").starts_with("correct user and password"));
}
