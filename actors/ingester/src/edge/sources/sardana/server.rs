//! HTTP server for Sardana, on a thread that ends when the server is dropped. A connection serves one
//! request, so that pipelined ones take no memory.

use std::{
    future::ready,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use actix_http::{HttpService, error::DispatchError};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::{
    App, HttpRequest, HttpResponse,
    dev::{AppConfig, ServerHandle},
    http::{KeepAlive, StatusCode, header},
    rt::System,
    web::{self, Bytes, Data, Payload},
};
use orchestrator_edge::OneRequest;
use orchestrator_ingester_protocols::sardana::{Post, is_object};
use orchestrator_supervise::Metric;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
};

use super::body::{BodyLimits, Rejection};
use crate::source::SourceCx;

/// Most connections.
const CONNECTIONS_MAX: usize = 256;
/// Time-out for a request's headers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to read the rest of a request that was answered early.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

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
    _stop: Stop,
}

/// Stops the server when dropped, also while it starts.
#[derive(Debug)]
struct Stop(ServerHandle);

impl Server {
    /// Listens at `address` and sends posts to `sender` from the first one on. Posts that it does not
    /// take are counted by `outside`.
    pub(super) async fn start(
        address: SocketAddr,
        outside: Metric,
        sender: mpsc::Sender<AcceptedPost>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let router =
            Arc::new(PostRouter { run: Mutex::new((sender, outside)), limits: BodyLimits::default() });
        let (started, wait) = oneshot::channel();
        let shared = Data::from(router.clone());
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

impl Drop for Stop {
    fn drop(&mut self) {
        // The stop is requested at once; its completion need not be awaited.
        drop(self.0.stop(false));
    }
}

fn build(listener: TcpListener, router: Data<PostRouter>) -> io::Result<actix_web::dev::Server> {
    let server = actix_web::dev::Server::build()
        .workers(1)
        .worker_max_blocking_threads(1)
        .disable_signals()
        .max_concurrent_connections(CONNECTIONS_MAX)
        .shutdown_timeout(0)
        .listen("sardana", listener, move || service(router.clone()))?;
    Ok(server.run())
}

fn service(
    router: Data<PostRouter>,
) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = DispatchError, InitError = ()> {
    let app = App::new()
        .app_data(router)
        .route("/v1/custom_data", web::post().to(custom_data))
        .route("/v1/{post}", web::post().to(post));
    let http = HttpService::build()
        .client_request_timeout(REQUEST_TIMEOUT)
        .client_disconnect_timeout(DISCONNECT_TIMEOUT)
        .keep_alive(KeepAlive::Disabled)
        .h1(map_config(app.into_factory(), |()| AppConfig::default()));
    fn_service(|connection: TcpStream| ready(Ok((OneRequest::new(connection), None)))).and_then(http)
}

async fn post(request: HttpRequest, payload: Payload, router: Data<PostRouter>) -> HttpResponse {
    let Some(post) = Post::of_path(request.path()) else {
        return HttpResponse::NotFound().finish();
    };
    if !is_json(&request) {
        return refused("send JSON, with content-type: application/json");
    }
    let body = match router.limits.read(&request, payload).await {
        Ok(body) => body,
        Err(why) => return refused_as(why),
    };
    let frame = match post.frame(&body.bytes) {
        Ok(frame) => frame,
        Err(advice) => return refused(advice),
    };
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
    accepted()
}

async fn custom_data(request: HttpRequest, payload: Payload, router: Data<PostRouter>) -> HttpResponse {
    match router.limits.read(&request, payload).await {
        Err(why) => refused_as(why),
        Ok(body) if is_json(&request) && is_object(&body.bytes) => accepted(),
        Ok(_) => refused("send a JSON object, with content-type: application/json"),
    }
}

/// Accepts JSON content types and a missing one, as the original's framework does.
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

/// Closes the connection, so that the rest of a refused body is not read.
fn refused_as((status, advice): Rejection) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    if status != StatusCode::UNPROCESSABLE_ENTITY {
        response.force_close();
    }
    response.json(serde_json::json!({ "detail": advice }))
}
