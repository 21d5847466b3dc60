//! JSON types and URLs of the admin endpoint, shared with the CLI. The tree is sent as the kernel's
//! [`TreeSnapshot`]. Readers must ignore unknown fields.

pub use crate::actor_command::CommandArgs;
pub use orchestrator_observe::{
    BlockerSnapshot, CrashReport, Event, EventKind, ExitSnapshot, InProgressSnapshot, LabelSnapshot,
    LinkSnapshot, MailboxSnapshot, MessageSnapshot, MetricKind, MetricSnapshot, NodeSnapshot, NoteSnapshot,
    SampledMetric, Samples, TreeSnapshot, WaitSnapshot, WorkSnapshot,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::percent;

/// Largest body of a request, in bytes.
pub const BODY_LIMIT: usize = 64 * 1024;
/// Longest `reason` of a command, in bytes.
pub const REASON_LIMIT: usize = 512;

/// Response to a command: 200 once the child has its new state, 202 if the command stops the endpoint itself
/// before that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CommandAnswer")]
pub struct CommandResponse {
    /// Full path of the child.
    pub path: String,
    /// The command, such as `restart`.
    pub verb: String,
    /// State before the command.
    pub before: String,
    /// State after the command.
    pub after: String,
    /// Effect that is still to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Response of `GET /v1/crashes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Crashes {
    /// The reports, newest first.
    pub crashes: Vec<CrashReport>,
    /// Number of older reports that are left out: by `limit`, or because they do not fit into 4 MiB.
    pub left_out: usize,
}

/// Response of `GET /v1/why`: for each subsystem the causes that hold up work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// Wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// The children of the root, or the child that was asked about.
    pub subsystems: Vec<SubsystemCauses>,
}

/// Causes of one branch of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubsystemCauses {
    /// Path of the branch.
    pub path: String,
    /// The most effective cause first; empty when nothing holds it up.
    pub causes: Vec<Cause>,
    /// Last finished work of the branch; null if its children count none.
    #[serde(default)]
    pub last_work: Option<WorkSnapshot>,
    /// Start of the time without work, milliseconds since 1970; null while the branch works, or while work
    /// waits.
    #[serde(default)]
    pub idle_since_ms: Option<u64>,
    /// Both in words, for example `last job 0.2 s ago`; empty if the children count no work.
    #[serde(default)]
    pub activity: String,
}

/// One cause that holds up work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Id of the cause, which stays the same in later versions and is the label `cause` of the metric
    /// `orchestrator_blocked`: `given_up`, `paused`, `stopped`, `crash_loop`, `unanswered`, `link_down`,
    /// `stuck`, `starting`, `not_ready`, `mailbox_full`, `waits_for_subsystem`, or what a subsystem reports.
    pub kind: String,
    /// Path of the child.
    pub path: String,
    /// The cause in one sentence.
    pub text: String,
    /// Start, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Facts that support it.
    pub evidence: Vec<String>,
    /// Command or action that helps.
    pub help: String,
    /// Paths of the other children that wait because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affects: Vec<String>,
    /// True for a cause that healthy days have, too, such as an empty input: no view shows its children as
    /// blocked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routine: bool,
}

impl Cause {
    /// Creates a cause at the child at `path`, without evidence and without a start.
    pub fn new(kind: &str, path: &str, text: String, help: String) -> Self {
        Self {
            kind: kind.to_owned(),
            path: path.to_owned(),
            text,
            since_ms: None,
            evidence: Vec::new(),
            help,
            affects: Vec::new(),
            routine: false,
        }
    }
}

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// Machine-readable kind of the error.
    pub error: ErrorKind,
    /// Human-readable reason, and what to do.
    pub message: String,
}

/// Kind of an error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The body or an argument is invalid.
    BadRequest,
    /// The token is missing or unknown.
    Unauthorized,
    /// The role does not allow the request, or `Host` or `Origin` is of another site.
    Forbidden,
    /// No such child, console or verb.
    NotFound,
    /// No such route.
    UnknownRoute,
    /// The route exists, for another method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    SlowBody,
    /// The command is not possible in the present state.
    Refused,
    /// The body is larger than 64 KiB.
    TooLarge,
    /// All connection slots of events or exports are taken, or the audit log cannot be written.
    Unavailable,
    /// The child did not respond, or did not reach the new state, in time.
    TimedOut,
    /// A kind from a newer version.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

impl ErrorKind {
    /// As in JSON and in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::BadRequest => "bad_request",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::NotFound => "not_found",
            ErrorKind::UnknownRoute => "unknown_route",
            ErrorKind::MethodNotAllowed => "method_not_allowed",
            ErrorKind::SlowBody => "slow_body",
            ErrorKind::Refused => "refused",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::TimedOut => "timed_out",
            ErrorKind::Unknown => "unknown",
        }
    }

    /// Returns the HTTP status code.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::BadRequest => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound | ErrorKind::UnknownRoute => 404,
            ErrorKind::MethodNotAllowed => 405,
            ErrorKind::SlowBody => 408,
            ErrorKind::Refused => 409,
            ErrorKind::TooLarge => 413,
            ErrorKind::Unavailable => 503,
            ErrorKind::TimedOut => 504,
            ErrorKind::Unknown => 500,
        }
    }
}

/// `/v1/tree` or `/v1/tree/{path}`.
pub fn tree_url(path: Option<&str>) -> String {
    url_of("/v1/tree", path)
}

fn url_of(route: &str, path: Option<&str>) -> String {
    path.map_or_else(|| route.to_owned(), |path| format!("{route}/{}", encode(path)))
}

/// `/v1/crashes` or `/v1/crashes/{path}`.
pub fn crashes_url(path: Option<&str>) -> String {
    url_of("/v1/crashes", path)
}

/// `/v1/actors/{path}/{verb}`.
pub fn actor_url(path: &str, verb: &str) -> String {
    format!("/v1/actors/{}/{}", encode(path), encode(verb))
}

/// `/v1/consoles/{path}/{verb}`.
pub fn console_url(path: &str, verb: &str) -> String {
    format!("/v1/consoles/{}/{}", encode(path), encode(verb))
}

/// `/v1/why` or `/v1/why/{path}`.
pub fn why_url(path: Option<&str>) -> String {
    url_of("/v1/why", path)
}

/// `/v1/why?item={name}`.
pub fn item_url(name: &str) -> String {
    format!("/v1/why?item={}", percent::encode(name))
}

/// `/v1/{path}/{name}?args`, the route of an export.
pub fn export_url(path: &str, name: &str, args: &[(String, String)]) -> String {
    let mut url = format!("/v1/{}/{}", encode(path), encode(name));
    for (i, (name, value)) in args.iter().enumerate() {
        let mark = if i == 0 { '?' } else { '&' };
        url.push_str(&format!("{mark}{}={}", encode(name), encode(value)));
    }
    url
}

/// Percent-encodes all bytes but unreserved characters and slashes. Leading and trailing slashes are dropped.
fn encode(path: &str) -> String {
    path.trim_matches('/').split('/').map(percent::encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use orchestrator_observe::Event;
    use orchestrator_supervise::{
        ChildSpec, Factory, Strategy, SupervisorSpec,
        testing::{TestTree, eventually},
    };

    use super::*;

    #[test]
    fn urls_keep_slashes_and_encode_the_rest() {
        assert_eq!(tree_url(None), "/v1/tree");
        assert_eq!(tree_url(Some("/queue/a b?#é/")), "/v1/tree/queue/a%20b%3F%23%C3%A9");
        assert_eq!(actor_url("queue/fetcher_watcher", "pause"), "/v1/actors/queue/fetcher_watcher/pause");
        let args = [("id", "a&b"), ("id", "c")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(export_url("provenance", "relations", &args), "/v1/provenance/relations?id=a%26b&id=c");
        assert_eq!(export_url("provenance", "locations", &[]), "/v1/provenance/locations");
        assert_eq!(console_url("queue/queue_console", "ls"), "/v1/consoles/queue/queue_console/ls");
        assert_eq!(why_url(Some("queue/a b")), "/v1/why/queue/a%20b");
        assert_eq!(item_url("catalog/a b/&#1"), "/v1/why?item=catalog%2Fa%20b%2F%26%231");
    }

    #[test]
    fn an_unknown_error_kind_is_read_as_unknown() {
        let body: ErrorBody = serde_json::from_str(r#"{"error":"teapot","message":"x","new":1}"#).unwrap();
        assert_eq!(body.error, ErrorKind::Unknown);
    }

    #[test]
    fn snapshots_and_events_of_a_tree_survive_json() {
        let task = Factory::task(|cx| async move {
            cx.vitals.link("redis", "localhost:6379").up();
            cx.vitals.note("a note");
            cx.vitals.set_blocker("empty", "no input", "send some");
            cx.stop.cancelled().await;
            Ok(())
        });
        let tree = SupervisorSpec::new(Strategy::OneForOne).child(ChildSpec::worker("a", task).label("A"));
        TestTree::run(tree, async |tree| {
            eventually("its blocker", || tree.node("a").is_some_and(|node| node.blocker.is_some())).await;
            let snapshot = tree.snapshot();
            let text = serde_json::to_string(&snapshot).expect("JSON");
            assert_eq!(serde_json::from_str::<TreeSnapshot>(&text).ok(), Some(snapshot));
            // The JSON of an older instance has no timings.
            let mut old = serde_json::to_value(tree.node("a")).expect("JSON");
            old.as_object_mut().and_then(|node| node.remove("timings")).expect("timings");
            assert_eq!(serde_json::from_value(old).ok(), tree.node("a"));
            for event in tree.events(0) {
                let text = serde_json::to_string(&event).expect("JSON");
                assert_eq!(serde_json::from_str::<Event>(&text).ok(), Some(event));
            }
        });
    }
}
