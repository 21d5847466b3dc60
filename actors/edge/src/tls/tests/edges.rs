//! The cases of the harness with the broker's connection and a webhook's. The bytes that the server receives
//! show that it is accepted.

use std::time::Duration;

use hyper::HeaderMap;
use orchestrator_harness::{CERTIFICATE_CASES, CertificateCase, certificate_file};
use tokio::{io::AsyncReadExt, net::TcpListener};

use super::*;
use crate::{
    PeerError,
    amqp::Broker,
    http::{Target, Webhook},
};

/// Shows the certificate of `case` to a client that connects to `127.0.0.1` at a port. It must send `first`
/// or fail.
async fn judged(case: &CertificateCase, first: &[u8], connect: impl AsyncFnOnce(u16) -> PeerError) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let served = async {
        let (stream, _) = listener.accept().await?;
        let mut received = vec![0; first.len()];
        server(case.shown, &TLS13).accept(stream).await?.read_exact(&mut received).await?;
        io::Result::Ok(received)
    };
    let (received, error) = tokio::join!(served, connect(port));
    let is_accepted = received.is_ok_and(|received| received == first);
    case.judge((!is_accepted).then_some(&error.to_string()));
}

#[tokio::test]
async fn a_broker_is_judged_by_its_certificate() {
    for case in &CERTIFICATE_CASES {
        let connect = async |port| {
            let (url, authority) =
                (format!("amqps://{}:{port}", case.host), certificate_file(case.authority));
            let broker = Broker::with_authorities(&url, "test", Some(&authority)).expect("an address");
            broker.connect().await.expect_err("the server ends the connection")
        };
        judged(case, b"AMQP\0\0\x09\x01", connect).await;
    }
}

#[tokio::test]
async fn the_receiver_of_a_webhook_is_judged_by_its_certificate() {
    for case in &CERTIFICATE_CASES {
        let connect = async |port| {
            let (url, authority) =
                (format!("https://{}:{port}/", case.host), certificate_file(case.authority));
            let target = Target::new(&url, Some(&authority)).expect("an address");
            let timeout = Duration::from_secs(60);
            let (headers, headers_file, answer_max) = (HeaderMap::new(), None, None);
            let webhook = Webhook { target, headers, headers_file, timeout, answer_max, error_max: 0 };
            webhook.post(Vec::new(), HeaderMap::new()).await.expect_err("the server ends the connection")
        };
        judged(case, b"POST / HTTP/1.1\r\n", connect).await;
    }
}
