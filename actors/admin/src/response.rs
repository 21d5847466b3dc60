//! Responses of handlers.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::LocalBoxStream};
use http_body_util::{Either, Full, StreamBody};
use hyper::{
    StatusCode,
    body::Frame,
    header::{CONTENT_TYPE, HeaderValue},
};
use orchestrator_edge::http;
use serde::Serialize;

/// A response. Its body has a known length, or is a stream of chunks.
pub(crate) type Response = hyper::Response<Either<Full<Bytes>, StreamBody<Chunks>>>;
type Chunks = LocalBoxStream<'static, io::Result<Frame<Bytes>>>;

/// Creates a response with a body of known length.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    http::response(status, content_type, body).map(Either::Left)
}

pub(crate) fn text(status: StatusCode, text: String) -> Response {
    whole(status, "text/plain; charset=utf-8", text)
}

pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    // No type of an answer has keys that are not strings, so serialization cannot fail.
    whole(status, "application/json", serde_json::to_vec(answer).unwrap_or_default())
}

/// Creates a response whose body is chunked. An error of `chunks` ends the body without its last chunk.
pub(crate) fn streaming(
    content_type: &'static str,
    chunks: impl Stream<Item = io::Result<Bytes>> + 'static,
) -> Response {
    let frames = chunks.map(|chunk| chunk.map(Frame::data)).boxed_local();
    let mut response = hyper::Response::new(Either::Right(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
