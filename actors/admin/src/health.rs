//! `GET /livez` and `/readyz`. Liveness asks only whether restarting the process could help: the supervision loop does
//! not tick. Readiness asks whether everything is at work.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpMessage, HttpRequest, HttpResponse,
    http::{StatusCode, header::ContentType},
    web::Data,
};

use crate::{access::Access, readiness, role::Caller};

/// A root that has been silent for so long is dead.
const SILENCE_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn livez(access: Data<Access>) -> HttpResponse {
    let silence = access.tree.vitals("").map(|root| root.arbiter_silence()).unwrap_or_default();
    if silence < SILENCE_MAX {
        return answer(true, "ok\n".to_owned());
    }
    let ms = silence.as_millis();
    answer(
        false,
        format!(
            "culprit: {}: the supervision loop has not run for {ms} ms\n",
            access.tree.snapshot().root.path
        ),
    )
}

pub(crate) async fn readyz(access: Data<Access>, request: HttpRequest) -> HttpResponse {
    let snapshot = access.tree.snapshot();
    let verdicts = readiness::judge(&snapshot.root, &access.own_path);
    let ready = verdicts.iter().all(|verdict| verdict.culprit.is_none());
    let verbose = is_verbose(request.query_string());
    // Reasons repeat what peers say, addresses among it: they are for those who may see the tree.
    let reasons = request.extensions().contains::<Arc<Caller>>();
    let shown = verdicts.iter().filter(|verdict| verbose || verdict.culprit.is_some());
    let mut text: String = shown.map(|verdict| verdict.line(reasons)).collect();
    if ready {
        text.insert_str(0, "ok\n");
    }
    answer(ready, text)
}

/// Does the query ask for a line about every child?
pub(crate) fn is_verbose(query: &str) -> bool {
    query.split('&').any(|key| key == "verbose" || key.starts_with("verbose="))
}

fn answer(good: bool, text: String) -> HttpResponse {
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    HttpResponse::build(status).content_type(ContentType::plaintext()).body(text)
}
