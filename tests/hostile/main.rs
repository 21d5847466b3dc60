//! Hostile peers at every edge of the real binary: eight behaviours, another one of servers, and another one
//! where passwords are checked by both sides. The same limits for all.
//!
//! Each test is a cell: an edge and a behaviour of its peer. The attack lasts `ORCHESTRATOR_HOSTILE_SECS`
//! (default 2), while a queue worker continues in the same process. All cells check the same: bounded memory
//! and log, a tree that answers, a worker that is always served, and an edge that recovers soon after the
//! attack.

mod behaviour;
mod cell;
mod client;
mod edge;
mod edges;
mod generator;
mod measured;
mod pipelined;
mod pool;
mod protocols;
mod reference;
mod switch;
mod watch;
mod wire;

/// Defines a test for each behaviour of each edge.
macro_rules! cells {
    ({$($edge:ident: $build:path,)*} servers {$($server:ident: $server_build:path,)*} logins {$($login:ident: $login_build:path,)*}) => {
        static EDGES: &[edge::Cells] = &[
            $((stringify!($edge), $build, &behaviour::Behaviour::COMMON),)*
            $((stringify!($server), $server_build, &behaviour::Behaviour::OF_SERVERS),)*
            $((stringify!($login), $login_build, &[behaviour::Behaviour::MisusesLogin]),)*
        ];
        $(cells!(@common $edge);)*
        $(cells!(@common $server freezes_after_connecting FreezesAfterConnecting);)*
        $(cells!(@$login misuses_login MisusesLogin);)*
    };
    (@common $edge:ident $($name:ident $behaviour:ident)?) => {
        cells!(@$edge never_answers NeverAnswers, closes_after_each_byte ClosesAfterEachByte,
            announces_two_gib AnnouncesTwoGiB, streams_without_end StreamsWithoutEnd, sends_error_text SendsErrorText,
            sends_wrong_types SendsWrongTypes, sends_invalid_utf8 SendsInvalidUtf8, floods Floods
            $(, $name $behaviour)?);
    };
    (@$edge:ident $($name:ident $behaviour:ident),*) => {
        mod $edge {
            $(#[test]
            fn $name() {
                crate::pool::result_of(stringify!($edge), crate::behaviour::Behaviour::$behaviour, crate::EDGES);
            })*
        }
    };
}

cells! {{
    worker_socket: edges::queue::worker_socket,
    admin_tcp: edges::admin::tcp,
    admin_unix: edges::admin::unix,
    admin_probe: edges::admin::probe,
    admin_exports: edges::exports::exports,
    zmtp_worker: edges::ingester::zmtp_worker,
    sardana: edges::ingester::sardana,
} servers {
    redis: edges::ingester::redis,
    zmtp_source: edges::ingester::zmtp_source,
    eiger_v2_source: edges::ingester::eiger_v2_source,
    stins_parallel_source: edges::ingester::stins_parallel_source,
    faktory: edges::producer::faktory,
    producer_mongodb: edges::producer::mongodb,
    ermrest: edges::catalog::ermrest,
    postgres: edges::provenance::postgres,
    provenance_mongodb: edges::provenance::mongodb,
    catalog_amqp: edges::catalog::amqp,
    provenance_amqp: edges::provenance::amqp,
} logins {
    producer_mongodb_nonce: edges::producer::mongodb_nonce,
    producer_mongodb_iterations: edges::producer::mongodb_iterations,
    provenance_mongodb_nonce: edges::provenance::mongodb_nonce,
    provenance_mongodb_iterations: edges::provenance::mongodb_iterations,
}}
