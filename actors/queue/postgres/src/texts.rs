//! Texts that PostgreSQL can store.

use orchestrator_text::sanitize;

/// Maximum length of an attribute path, in bytes: a row of an index has at most 2,704.
pub(super) const ATTR_PATH_BYTES_MAX: usize = 2_000;

pub(super) fn is_storable(attr_path: &str, payload: &str) -> bool {
    attr_path.len() <= ATTR_PATH_BYTES_MAX && !attr_path.contains('\0') && !payload.contains('\0')
}

/// Logs that a line with an attribute path, or with a payload, that cannot be stored is skipped.
pub(super) fn warn_skipped(attr_path: &str) {
    let start: String = attr_path.chars().take(100).collect();
    tracing::warn!(
        attr_path = sanitize(&start),
        bytes = attr_path.len(),
        "skipped a line: PostgreSQL stores no U+0000, and attribute paths of up to {ATTR_PATH_BYTES_MAX} bytes"
    );
}
