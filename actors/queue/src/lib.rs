//! The queue subsystem: hands out the lines of fetcher files as jobs, one at a time, over a unix socket.
