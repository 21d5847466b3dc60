//! HTTP server for Sardana, on a thread that ends when the server is dropped. A connection serves one
//! request, so that pipelined ones take no memory.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};
use orchestrator_edge::http;
use orchestrator_ingester_protocols::sardana::{Post, is_object};
use orchestrator_observe::Metric;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    runtime,
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
};

use super::body::{BodyLimits, Rejection};
use crate::source::SourceCx;

/// Most connections.
const CONNECTIONS_MAX: usize = 256;
/// Path of posts whose content is dropped.
const CUSTOM_DATA: &str = "/v1/custom_data";
/// Type of all answers.
const JSON: &str = "application/json";

/// An accepted post.
#[derive(Debug)]
pub(super) struct AcceptedPost {
    pub(super) post: Post,
    pub(super) frame: Bytes,
    /// Released once the run has taken the post.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Receiver of posts: the last run, and the counter of posts after its end.
#[derive(Debug)]
struct PostRouter {
    run: Mutex<(mpsc::Sender<AcceptedPost>, Metric)>,
    limits: BodyLimits,
}

/// The running server.
#[derive(Debug)]
pub(super) struct Server {
    router: Arc<PostRouter>,
    thread: JoinHandle<()>,
    /// Stops the server when dropped.
    _stop: oneshot::Sender<Infallible>,
}

impl Server {
    /// Listens at `address` and sends posts to `sender` from the first one on. Posts that it does not
    /// take are counted by `outside`.
    pub(super) async fn start(
        address: SocketAddr,
        outside: Metric,
        sender: mpsc::Sender<AcceptedPost>,
    ) -> io::Result<Self> {
        let router =
            Arc::new(PostRouter { run: Mutex::new((sender, outside)), limits: BodyLimits::default() });
        let (started, wait) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let shared = router.clone();
        let run = move || match listen(address) {
            Ok((runtime, listener)) => {
                let _ = started.send(Ok(()));
                runtime.block_on(serve(&listener, shared, stopped));
            }
            Err(error) => drop(started.send(Err(error))),
        };
        let thread = thread::Builder::new().name("sardana".to_owned()).spawn(run)?;
        wait.await.map_err(|_| io::Error::other("the server did not start"))??;
        Ok(Self { router, thread, _stop: stop })
    }

    /// Bytes of all bodies, and of the posts that wait for the run.
    pub(super) fn buffered(&self) -> usize {
        self.router.limits.held()
    }

    /// True if the server ended by itself; the log has the reason.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Sends further posts to `sender`. After its receiver is dropped, posts are answered and
    /// dropped.
    pub(super) fn set_run(&self, cx: &SourceCx, sender: mpsc::Sender<AcceptedPost>) {
        *self.router.run.lock() = (sender, cx.counts.outside.clone());
    }
}

fn listen(address: SocketAddr) -> io::Result<(runtime::Runtime, TcpListener)> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(address))?;
    Ok((runtime, listener))
}

/// Serves `listener` until the sender of `stopped` is dropped.
async fn serve(listener: &TcpListener, router: Arc<PostRouter>, stopped: oneshot::Receiver<Infallible>) {
    let accept = async || Ok(listener.accept().await?.0);
    let answer = move |request| answer(request, router.clone());
    tokio::select! {
        never = http::serve(CONNECTIONS_MAX, accept, answer) => match never {},
        _ = stopped => {}
    }
}

type Reply = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, router: Arc<PostRouter>) -> Reply {
    let (head, body) = request.into_parts();
    let (path, post) = (head.uri.path(), Post::of_path(head.uri.path()));
    if post.is_none() && path != CUSTOM_DATA {
        return empty(StatusCode::NOT_FOUND);
    }
    if head.method != Method::POST {
        let mut refused = empty(StatusCode::METHOD_NOT_ALLOWED);
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    let is_json = is_json(&head.headers);
    let answered = match post {
        Some(post) => accept(post, is_json, body, &router).await,
        None => custom_data(is_json, body, &router).await,
    };
    match answered {
        Ok(()) => http::response(StatusCode::OK, JSON, "null"),
        Err((status, advice)) => {
            http::response(status, JSON, serde_json::json!({ "detail": advice }).to_string())
        }
    }
}

fn empty(status: StatusCode) -> Reply {
    let mut reply = Reply::default();
    *reply.status_mut() = status;
    reply
}

async fn accept(post: Post, is_json: bool, body: Incoming, router: &PostRouter) -> Result<(), Rejection> {
    if !is_json {
        return Err(refused("send JSON, with content-type: application/json"));
    }
    let body = router.limits.read(body).await?;
    let frame = post.frame(&body.bytes).map_err(refused)?;
    let (sender, outside) = router.run.lock().clone();
    // A full queue delays the answer, which slows the sender. Without a run the post is dropped.
    let send = async {
        let _permit = router.limits.queue(frame.len()).await;
        sender.send(AcceptedPost { post, frame, _permit }).await.is_ok()
    };
    let sent = tokio::select! {
        sent = send => sent,
        () = sender.closed() => false,
    };
    if !sent {
        outside.add(1);
    }
    Ok(())
}

async fn custom_data(is_json: bool, body: Incoming, router: &PostRouter) -> Result<(), Rejection> {
    let body = router.limits.read(body).await?;
    let is_valid = is_json && is_object(&body.bytes);
    let advice = "send a JSON object, with content-type: application/json";
    if is_valid { Ok(()) } else { Err(refused(advice)) }
}

/// Accepts JSON content types and a missing one, as the original's framework does.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let kind =
        kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == JSON || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn refused(advice: &'static str) -> Rejection {
    (StatusCode::UNPROCESSABLE_ENTITY, advice)
}
