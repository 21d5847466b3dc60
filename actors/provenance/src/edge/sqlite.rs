//! A store in an SQLite file: the embedded default, which needs no server.
