//! The msgpack bodies of requests and responses (contract §3, §4). Pure.
