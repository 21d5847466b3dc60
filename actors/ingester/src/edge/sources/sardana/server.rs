//! The HTTP server behind it, on a thread of its own that ends when it is dropped.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer,
    dev::ServerHandle,
    http::{KeepAlive, StatusCode, header},
    rt::System,
    web::{self, Bytes, Data, Payload},
};
use orchestrator_supervise::Metric;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::body::{Refused, Room};
use crate::{
    protocol::sardana::{Post, is_object},
    source::SourceCx,
};

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// A client that has not sent its request line and headers by then is cut off.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// An accepted post.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) post: Post,
    pub(super) frame: Bytes,
    /// Given back once the run has taken it.
    _room: Option<OwnedSemaphorePermit>,
}

/// Where posts go: the run that there was last, and the metric for those that come when it is over.
#[derive(Debug)]
struct Desk {
    run: Mutex<(mpsc::Sender<Posted>, Metric)>,
    room: Room,
}

impl Desk {}

/// The running server.
#[derive(Debug)]
pub(super) struct Server {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
    _ended_by: Stop,
}

/// Dropped, it ends the server, also where nobody waits for its start any more.
#[derive(Debug)]
struct Stop(ServerHandle);

impl Server {
    /// Listens at `address`; posts go to `sender` from the first on.
    pub(super) async fn start(
        address: SocketAddr,
        cx: &SourceCx,
        sender: mpsc::Sender<Posted>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let desk =
            Arc::new(Desk { run: Mutex::new((sender, cx.counts.outside.clone())), room: Room::default() });
        let (started, wait) = oneshot::channel();
        let shared = Data::from(desk.clone());
        let serve = move || {
            System::new().block_on(async move {
                match build(listener, shared) {
                    Ok(server) => {
                        let _ = started.send(Ok(Stop(server.handle())));
                        if let Err(error) = server.await {
                            tracing::error!("the HTTP server for Sardana ended: {error}: restart this child");
                        }
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
        };
        let thread = thread::Builder::new().name("sardana".to_owned()).spawn(serve)?;
        let stop = wait.await.map_err(|_| io::Error::other("the server did not start"))??;
        Ok(Self { desk, thread, _ended_by: stop })
    }

    /// Has it ended by itself, which it said why?
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Posts go to `sender` from now on; when its receiver is gone they are answered and thrown away.
    pub(super) fn switch(&self, cx: &SourceCx, sender: mpsc::Sender<Posted>) {
        *self.desk.run.lock() = (sender, cx.counts.outside.clone());
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // The order is given at once; its end need not be waited for.
        drop(self.0.stop(false));
    }
}

fn build(listener: TcpListener, desk: Data<Desk>) -> io::Result<actix_web::dev::Server> {
    let app = move || {
        App::new()
            .app_data(desk.clone())
            .route("/v1/custom_data", web::post().to(custom))
            .route("/v1/{post}", web::post().to(post))
    };
    let server = HttpServer::new(app)
        .workers(1)
        .worker_max_blocking_threads(1)
        .disable_signals()
        .max_connections(CONNECTIONS_MAX)
        .client_request_timeout(REQUEST_TIMEOUT)
        .keep_alive(KeepAlive::Timeout(Duration::from_secs(30)))
        .shutdown_timeout(0)
        .listen(listener)?;
    Ok(server.run())
}

async fn post(request: HttpRequest, payload: Payload, desk: Data<Desk>) -> HttpResponse {
    let Some(post) = Post::of_path(request.path()) else {
        return HttpResponse::NotFound().finish();
    };
    if !is_json(&request) {
        return refused("send JSON, with content-type: application/json");
    }
    let body = match desk.room.read(&request, payload).await {
        Ok(body) => body,
        Err(why) => return refused_as(why),
    };
    let frame = match post.frame(&body.bytes) {
        Ok(frame) => frame,
        Err(advice) => return refused(advice),
    };
    let (sender, outside) = desk.run.lock().clone();
    // A full queue holds the request: the sender is slowed. Without a run the post is thrown away.
    let send = async {
        let _room = desk.room.queue(frame.len()).await;
        sender.send(Posted { post, frame, _room }).await.is_ok()
    };
    let sent = tokio::select! {
        sent = send => sent,
        () = sender.closed() => false,
    };
    if !sent {
        outside.add(1);
    }
    accepted()
}

async fn custom(request: HttpRequest, payload: Payload, desk: Data<Desk>) -> HttpResponse {
    match desk.room.read(&request, payload).await {
        Err(why) => refused_as(why),
        Ok(body) if is_json(&request) && is_object(&body.bytes) => accepted(),
        Ok(_) => refused("send a JSON object, with content-type: application/json"),
    }
}

/// As the original's framework: JSON by its name, or no name at all.
fn is_json(request: &HttpRequest) -> bool {
    let Some(kind) = request.headers().get(header::CONTENT_TYPE) else {
        return true;
    };
    let kind =
        kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn accepted() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body("null")
}

fn refused(advice: &'static str) -> HttpResponse {
    refused_as((StatusCode::UNPROCESSABLE_ENTITY, advice))
}

/// The connection ends: the rest of a body that is not taken is not read.
fn refused_as((status, advice): Refused) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    if status != StatusCode::UNPROCESSABLE_ENTITY {
        response.force_close();
    }
    response.json(serde_json::json!({ "detail": advice }))
}
