//! `GET /` and `/ui/{file}`: the web console, static files in the binary. They are public. The page gets its
//! data through the other routes, with the user's token.

use std::sync::LazyLock;

use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH},
};
use sha2::{Digest, Sha256};

use crate::{
    api_error::ApiError,
    request::{Reply, Request},
    response::whole,
};
use orchestrator_subsystem::wire::ErrorKind;

/// URL prefix of the page's files.
pub(crate) const FOLDER: &str = "/ui/";

/// Content security policy of the page: no other origins, no inline scripts or styles, no frames.
pub(crate) const SECURITY_POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of the page.
struct Asset {
    name: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal,)*) => {
        &[$(Asset { name: $name, text: include_str!(concat!("../ui/", $name)) },)*]
    };
}

/// All files in `ui/`. A test compares the list with the directory.
const ASSETS: &[Asset] = assets! {
    "actions.js",
    "api.js",
    "base.css",
    "catalog_views.js",
    "causes.js",
    "chart.js",
    "console_panel.js",
    "crashes.js",
    "dom.js",
    "drawer.js",
    "events.js",
    "feed.js",
    "figures.js",
    "format.js",
    "icon.svg",
    "index.html",
    "ingester_views.js",
    "item_page.js",
    "job_lists.js",
    "job_page.js",
    "live.js",
    "main.js",
    "meter.js",
    "overview.js",
    "paged_table.js",
    "panels.js",
    "parts.css",
    "producer_views.js",
    "provenance_views.js",
    "queue_views.js",
    "router.js",
    "sparklines.js",
    "states.js",
    "subsystem.js",
    "subsystems.js",
    "tabs.js",
    "timeline.js",
    "tree.css",
    "tree_page.js",
    "tree_rows.js",
    "view_parts.js",
    "views.css",
    "views.js",
};

/// ETags of the files, in the order of [`ASSETS`].
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| ASSETS.iter().map(|asset| tag(asset.text)).collect());

pub(crate) async fn index(request: Request) -> Reply {
    answer("index.html", &request)
}

pub(crate) async fn file(request: Request) -> Reply {
    answer(&request.parameters[0], &request)
}

/// Requests for this path need no token.
pub(crate) fn is_public(path: &str) -> bool {
    path == "/" || path.strip_prefix(FOLDER).is_some_and(|name| !name.contains('/'))
}

fn answer(name: &str, request: &Request) -> Reply {
    let at = ASSETS.iter().position(|asset| asset.name == name).ok_or_else(|| {
        ApiError::new(ErrorKind::NotFound, "the console has no such file: open `/`".to_owned())
    })?;
    let (asset, tag) = (&ASSETS[at], TAGS[at].as_str());
    let is_known = request.header(IF_NONE_MATCH).is_some_and(|known| is_listed(known, tag));
    let (status, text) = if is_known { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, asset.text) };
    let mut answer = whole(status, content_type(name), text);
    answer.headers_mut().insert(ETAG, HeaderValue::from_static(tag));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(answer)
}

fn is_listed(known: &str, tag: &str) -> bool {
    known.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

fn tag(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn all_files_are_served_and_none_is_too_long() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
        let there: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        assert_eq!(there, served);
        for asset in ASSETS {
            assert!(asset.text.lines().count() < 300, "{} is too long", asset.name);
        }
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes <= 200 * 1024, "{bytes} bytes in total");
    }

    #[test]
    fn the_page_has_no_other_origins_and_inserts_no_markup() {
        // A namespace is not fetched.
        const NAMESPACE: &str = "http://www.w3.org/2000/svg";
        let banned = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "://"];
        for asset in ASSETS {
            let text = asset.text.replace(NAMESPACE, "");
            for word in banned {
                assert!(!text.contains(word), "{} has {word}", asset.name);
            }
        }
    }

    #[test]
    fn a_listed_tag_is_recognised() {
        for known in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(is_listed(known, "\"a\""), "{known}");
        }
        assert!(!is_listed("\"b\"", "\"a\"") && !is_listed("", "\"a\""));
        assert_ne!(tag("a"), tag("b"));
    }
}
