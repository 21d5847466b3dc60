//! Hostile peers at every edge of the real binary: one generator, eight behaviours, one assertion.
//!
//! A test is a cell: an edge, and a behaviour of its peer. The edge is attacked for `ORCHESTRATOR_HOSTILE_SECS` (2 by default), while
//! a worker of the queue goes on in the same process. Asserted is the same for all cells: bounded memory and log, a tree that answers, a
//! worker that is served all the time, and an edge that works again soon after its peer is sane.

mod behaviour;
mod cell;
mod client;
mod edge;
mod edges;
mod generator;
mod measured;
mod pool;
mod protocols;
mod reference;
mod switch;
mod watch;
mod wire;

/// A test for each behaviour of each edge.
macro_rules! cells {
    ($($edge:ident: $build:path,)*) => {
        static EDGES: &[(&str, edge::Build)] = &[$((stringify!($edge), $build),)*];
        $(cells!(@$edge never_answers NeverAnswers, closes_after_each_byte ClosesAfterEachByte,
            announces_two_gib AnnouncesTwoGiB, streams_without_end StreamsWithoutEnd, sends_error_text SendsErrorText,
            sends_wrong_types SendsWrongTypes, sends_invalid_utf8 SendsInvalidUtf8, floods Floods);)*
    };
    (@$edge:ident $($name:ident $behaviour:ident),*) => {
        mod $edge {
            $(#[test]
            fn $name() {
                crate::pool::verdict(stringify!($edge), crate::behaviour::Behaviour::$behaviour, crate::EDGES);
            })*
        }
    };
}

cells! {
    worker_socket: edges::queue::worker_socket,
    admin_tcp: edges::admin::tcp,
    admin_unix: edges::admin::unix,
    redis: edges::ingester::redis,
    zmtp_source: edges::ingester::zmtp_source,
    zmtp_worker: edges::ingester::zmtp_worker,
    sardana: edges::ingester::sardana,
    faktory: edges::producer::faktory,
    producer_mongodb: edges::producer::mongodb,
    ermrest: edges::catalog::ermrest,
    postgres: edges::provenance::postgres,
    provenance_mongodb: edges::provenance::mongodb,
    catalog_amqp: edges::catalog::amqp,
    provenance_amqp: edges::provenance::amqp,
}
