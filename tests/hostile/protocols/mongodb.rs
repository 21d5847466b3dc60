//! MongoDB's wire protocol, as a server: OP_MSG, and OP_REPLY for the first question of old clients.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Login, Protocol},
    wire::Wire,
};

/// MongoDB, with this answer to logins.
pub(crate) struct MongoDb(pub(crate) Login);

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

/// A value of BSON.
enum Bson<'a> {
    Number(f64),
    Integer(i32),
    Long(i64),
    Text(&'a [u8]),
    Bool(bool),
    Document(Vec<u8>),
    Binary(Vec<u8>),
    Array(Vec<u8>),
}

fn document(fields: &[(&[u8], Bson<'_>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let (kind, bytes) = match value {
            Bson::Number(number) => (1, number.to_le_bytes().to_vec()),
            Bson::Text(text) => (2, [&(text.len() as u32 + 1).to_le_bytes(), *text, b"\0"].concat()),
            Bson::Document(bytes) => (3, bytes.clone()),
            Bson::Array(bytes) => (4, bytes.clone()),
            Bson::Binary(bytes) => (5, [&(bytes.len() as u32).to_le_bytes(), &[0][..], bytes].concat()),
            Bson::Bool(value) => (8, vec![u8::from(*value)]),
            Bson::Integer(number) => (16, number.to_le_bytes().to_vec()),
            Bson::Long(number) => (18, number.to_le_bytes().to_vec()),
        };
        body.push(kind);
        body.extend(*name);
        body.push(0);
        body.extend(bytes);
    }
    [&(body.len() as u32 + 5).to_le_bytes()[..], &body, &[0]].concat()
}

fn hello() -> Vec<u8> {
    document(&[
        (b"ok", Bson::Number(1.0)),
        (b"helloOk", Bson::Bool(true)),
        (b"isWritablePrimary", Bson::Bool(true)),
        (b"ismaster", Bson::Bool(true)),
        (b"maxBsonObjectSize", Bson::Integer(16 << 20)),
        (b"maxMessageSizeBytes", Bson::Integer(48_000_000)),
        (b"maxWriteBatchSize", Bson::Integer(100_000)),
        (b"logicalSessionTimeoutMinutes", Bson::Integer(30)),
        (b"minWireVersion", Bson::Integer(0)),
        (b"maxWireVersion", Bson::Integer(21)),
        (b"readOnly", Bson::Bool(false)),
    ])
}

/// An answer of one batch, with documents where `field` is `firstBatch`.
fn cursor(field: &[u8], value: Bson<'_>) -> Vec<u8> {
    let inner = document(&[(b"id", Bson::Long(0)), (b"ns", Bson::Text(b"a.b")), (field, value)]);
    document(&[(b"cursor", Bson::Document(inner)), (b"ok", Bson::Number(1.0))])
}

fn batch_of(row: Vec<u8>) -> Vec<u8> {
    cursor(b"firstBatch", Bson::Array(document(&[(b"0", Bson::Document(row))])))
}

fn word(request: &[u8], at: usize) -> i32 {
    request.get(at..at + 4).map_or(0, |bytes| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn message(request: &[u8], operation: i32, body: &[u8]) -> Vec<u8> {
    let head = [body.len() as i32 + 16, 7, word(request, 4), operation];
    [&head.map(i32::to_le_bytes).concat(), body].concat()
}

/// An answer of the kind of `request` with this document; `flags` are OP_MSG's.
fn answer_with(request: &[u8], flags: u32, document: &[u8]) -> Vec<u8> {
    if word(request, 12) == OP_QUERY {
        let head = [&8_u32.to_le_bytes()[..], &[0; 12], &1_u32.to_le_bytes()].concat();
        return message(request, OP_REPLY, &[&head, document].concat());
    }
    message(request, OP_MSG, &[&flags.to_le_bytes(), &[0][..], document].concat())
}

fn answer(request: &[u8], document: &[u8]) -> Vec<u8> {
    answer_with(request, 0, document)
}

fn is_hello(request: &[u8]) -> bool {
    let names = [&b"hello\0"[..], b"isMaster\0", b"ismaster\0"];
    let begin = &request[..request.len().min(64)];
    names.iter().any(|name| begin.windows(name.len()).any(|window| window == *name))
}

fn contains(request: &[u8], part: &[u8]) -> bool {
    request.windows(part.len()).any(|window| window == part)
}

/// Nonce in the first message of a SCRAM login.
fn nonce(request: &[u8]) -> &[u8] {
    let Some(at) = request.windows(3).position(|window| window == b",r=") else { return b"" };
    let nonce = &request[at + 3..];
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    &nonce[..nonce.iter().position(|byte| !is_part(byte)).unwrap_or(nonce.len())]
}

impl Protocol for MongoDb {
    fn answers_requests(&self) -> bool {
        true
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        loop {
            let request = wire.read()?;
            if !is_hello(&request) {
                return Ok(request);
            }
            wire.write(&answer(&request, &hello()))?;
        }
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        let mut announced = answer(request, &document(&[(b"ok", Bson::Number(1.0))]));
        announced[..4].copy_from_slice(&i32::MAX.to_le_bytes());
        announced
    }

    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        // Each says that more will come.
        (Vec::new(), answer_with(request, 2, &hello()))
    }

    fn error(&self, request: &[u8], text: &[u8]) -> Vec<u8> {
        let code = (&b"code"[..], Bson::Integer(1));
        let name = (&b"codeName"[..], Bson::Text(b"InternalError"));
        answer(request, &document(&[(b"ok", Bson::Number(0.0)), (b"errmsg", Bson::Text(text)), code, name]))
    }

    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let ok = document(&[(b"ok", Bson::Number(1.0))]);
        let nested = (0..150).fold(ok.clone(), |inner, _| document(&[(b"a", Bson::Document(inner))]));
        let texts =
            document(&[(b"_id", Bson::Text(b"config")), (b"current_completed_tcn", Bson::Text(b"x"))]);
        let documents = [
            document(&[]),
            document(&[(b"ok", Bson::Text(b"yes"))]),
            document(&[
                (b"ok", Bson::Number(1.0)),
                (b"n", Bson::Integer(-5)),
                (b"nModified", Bson::Text(b"?")),
            ]),
            document(&[(b"ok", Bson::Number(1.0)), (b"cursor", Bson::Integer(5))]),
            cursor(b"firstBatch", Bson::Text(b"none")),
            cursor(b"nextBatch", Bson::Array(document(&[]))),
            batch_of(texts),
            batch_of(nested.clone()),
            nested,
        ];
        let mut messages: Vec<_> = documents.iter().map(|document| answer(request, document)).collect();
        messages.push(message(request, OP_COMPRESSED, &[0; 40]));
        messages.push(message(request, 9_999, &ok));
        messages.push(message(request, OP_REPLY, &[0; 20]));
        messages.push(message(request, OP_MSG, &[0, 0, 0, 0, 1, 4, 0, 0, 0]));
        messages.push(message(b"another request of mine", OP_MSG, &ok));
        messages
    }

    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let row = document(&[(b"_id", Bson::Text(INVALID_UTF8)), (INVALID_UTF8, Bson::Text(INVALID_UTF8))]);
        vec![
            self.error(request, INVALID_UTF8),
            answer(request, &document(&[(INVALID_UTF8, Bson::Number(1.0)), (b"ok", Bson::Number(1.0))])),
            answer(request, &batch_of(row)),
            answer(request, &document(&[(b"ok", Bson::Number(1.0)), (b"setName", Bson::Text(INVALID_UTF8))])),
        ]
    }

    fn small(&self, request: &[u8]) -> Vec<u8> {
        answer(request, &document(&[(b"ok", Bson::Number(1.0))]))
    }

    fn login(&self, request: &[u8]) -> Vec<u8> {
        if is_hello(request) {
            return answer(request, &hello());
        }
        if !contains(request, b"saslStart\0") {
            return self.small(request);
        }
        let payload = match self.0 {
            Login::ShortNonce => b"r=x,s=c2FsdA==,i=4096".to_vec(),
            Login::Iterations => [b"r=", nonce(request), b"x,s=c2FsdA==,i=4294967295"].concat(),
        };
        let fields: [(&[u8], _); 4] = [
            (b"ok", Bson::Number(1.0)),
            (b"conversationId", Bson::Integer(1)),
            (b"done", Bson::Bool(false)),
            (b"payload", Bson::Binary(payload)),
        ];
        answer(request, &document(&fields))
    }
}
