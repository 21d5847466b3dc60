//! `GET /` and `/ui/{file}`: the console, static files that are part of the binary. They are public; all that the page shows
//! and does goes through the routes of `router.rs`, with the token of whoever looks at it.

use std::sync::LazyLock;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
    web::Path,
};
use sha2::{Digest, Sha256};

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::ErrorKind;

/// Directory of the page's files in URLs.
pub(crate) const FOLDER: &str = "/ui/";

/// Policy of the page: nothing from elsewhere, no inline script or style, no frame around it.
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

/// All files in `ui/`; a test compares the two.
const ASSETS: &[Asset] = assets! {
    "actions.js",
    "api.js",
    "base.css",
    "chart.js",
    "console_panel.js",
    "dom.js",
    "drawer.js",
    "feed.js",
    "format.js",
    "icon.svg",
    "index.html",
    "live.js",
    "main.js",
    "overview.js",
    "panels.js",
    "parts.css",
    "pictures.js",
    "router.js",
    "states.js",
    "subsystem.js",
    "subsystems.js",
    "timeline.js",
    "tree.css",
    "tree_page.js",
    "tree_rows.js",
    "troubles.js",
};

/// Digests of the files, in the order of [`ASSETS`]. The files of a running program never change.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| ASSETS.iter().map(|asset| tag(asset.text)).collect());

/// Serves the page itself.
pub(crate) async fn index(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    answer("index.html", &request)
}

/// Serves one of its files.
pub(crate) async fn file(name: Path<String>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    answer(&name, &request)
}

/// Tells whether a request for this path needs no token.
pub(crate) fn is_public(path: &str) -> bool {
    path == "/" || path.strip_prefix(FOLDER).is_some_and(|name| !name.contains('/'))
}

fn answer(name: &str, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    let at = ASSETS.iter().position(|asset| asset.name == name).ok_or_else(|| {
        ApiError::new(ErrorKind::NotFound, "the console has no such file: open `/`".to_owned())
    })?;
    let (asset, tag) = (&ASSETS[at], TAGS[at].as_str());
    let known = request.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| is_listed(known, tag));
    let mut answer = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, "no-cache"));
    answer.insert_header((CONTENT_TYPE, content_type(name)));
    Ok(if is_known { answer.finish() } else { answer.body(asset.text) })
}

fn is_listed(known: &str, tag: &str) -> bool {
    known.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
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
    fn all_files_are_served_and_none_is_long() {
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
        assert!(bytes <= 200 * 1024, "{bytes} bytes in all");
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_markup() {
        // A namespace is a name, not an address that is fetched.
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
