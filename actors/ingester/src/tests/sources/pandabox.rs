//! PandABox over TCP.

use futures_util::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::support::{bench, in_time, make, take, until, upstream};
use crate::tests::captures::{compare, messages};

async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = in_time("a connection", listener.accept()).await.expect("a connection");
    let mut hello = [0; 1];
    in_time("hello", stream.read_exact(&mut hello)).await.expect("hello");
    assert_eq!(&hello, b"\n");
    stream
}

#[test]
fn lines_arrive_as_the_originals_items() {
    for (case, count) in [("pandabox-plain", 6), ("pandabox-odd", 14)] {
        bench(async |bench| {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let mut source = make("TcpPcapIngester", &upstream(port)).expect("a source");
            let mut items = source.run(bench.cx("s"));
            let serve = async {
                let mut stream = accept(&listener).await;
                for piece in messages(case).concat() {
                    stream.write_all(&piece).await.expect("room");
                }
                stream
            };
            let (stream, ours) = tokio::join!(serve, take(&mut items, count));
            compare(case, ours);
            assert!(bench.is_up());
            drop(stream);
        });
    }
}

#[test]
fn a_lost_connection_is_reopened_without_empty_items() {
    bench(async |bench| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut source = make("pandabox", &upstream(port)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        for (sent, lost) in [
            ("OK\narm_time: 1\n\n1 2\n", 1),
            ("OK\n3 4\narm_time: 2\n\n5\nEND\n", 1),
            ("OK\narm_time: 3\n\n6 7\n", 2),
        ] {
            let serve = async {
                let mut stream = accept(&listener).await;
                stream.write_all(sent.as_bytes()).await.expect("room");
            };
            let count = if sent.contains("END") { 3 } else { 2 };
            let ((), ours) = tokio::join!(serve, take(&mut items, count));
            assert!(ours.iter().all(|item| item.frames[0].len() > 1), "{ours:?}");
            until(&mut items, "the loss", || bench.down().is_some()).await;
            assert_eq!(bench.counts.invalid.get(), lost);
        }
        assert_eq!((bench.counts.reconnects.get(), bench.counts.outside.get()), (2, 1));
    });
}

#[test]
fn another_server_is_not_a_pandabox() {
    bench(async |bench| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut source = make("pandabox", &upstream(port)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        let serve = async {
            accept(&listener).await.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.expect("room");
        };
        tokio::select! {
            item = items.next() => panic!("{item:?}"),
            () = serve => {}
        }
        until(&mut items, "the link to be down", || bench.down().is_some_and(|why| why.contains("8889")))
            .await;
    });
}
