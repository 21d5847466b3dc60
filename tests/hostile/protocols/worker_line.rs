//! The worker socket's lines, as a worker.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    wire::Wire,
};

/// A worker of the queue.
pub(crate) struct WorkerLine;

impl Protocol for WorkerLine {
    fn answers_requests(&self) -> bool {
        false
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        wire.write(b"READY\n")?;
        wire.read_line()?;
        Ok(Vec::new())
    }

    fn announcement(&self, _request: &[u8]) -> Vec<u8> {
        // Lines announce nothing: this one has no end.
        b"DONE ".to_vec()
    }

    fn endless(&self, _request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // Valid requests whose answers nobody reads.
        (Vec::new(), b"READY\n".to_vec())
    }

    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        [b"DONE ", text, b" 1\n"].concat()
    }

    fn wrong_types(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        let lines: [&[u8]; 9] = [
            b"JOB hello 1\n",
            b"NOJOBS\n",
            b"ready\n",
            b"DONE\n",
            b"DONE hello\n",
            b"DONE hello 99999999999999999999\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\n\n\n",
            b"\0\0\0\n",
        ];
        lines.map(<[u8]>::to_vec).to_vec()
    }

    fn invalid_utf8(&self, _request: &[u8]) -> Vec<Vec<u8>> {
        vec![
            [b"DONE ", INVALID_UTF8, b" 0\n"].concat(),
            [INVALID_UTF8, b"\n"].concat(),
            [b"DONE hello ", INVALID_UTF8, b"\n"].concat(),
        ]
    }

    fn small(&self, _request: &[u8]) -> Vec<u8> {
        b"READY\n".to_vec()
    }
}
