//! Parts of the queries.
//!
//! `$1` is the earliest start of a job whose hold is not over.

use orchestrator_queue_rules::storage::Pattern;

/// Maximum size of the texts in an answer, in bytes. Rows beyond it are left out.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 20;

/// `started_key` of a path that was never handed out.
pub(super) const NEVER: &str = "(-9223372036854775808)::bigint";

/// Newest rows of each fetcher that list a path, with the times at which their runs were added (CONTRACT
/// QO01). For questions about all of them: `ready_groups` is faster for a few paths.
pub(super) const NEWEST: &str = "(
    SELECT l.*, r.added FROM listing AS l JOIN run AS r USING (fetcher_id, run_started)
    WHERE NOT r.is_deleted AND NOT EXISTS (
        SELECT 1 FROM listing AS newer JOIN run AS of USING (fetcher_id, run_started)
        WHERE newer.attr_path = l.attr_path AND newer.fetcher_id = l.fetcher_id AND newer.run_started > l.run_started
            AND NOT of.is_deleted))";

/// Common table expression `places`: the number of jobs of each class that may be handed out. Jobs whose
/// holds are over do not count (CONTRACT QO02).
pub(super) const PLACES: &str = "places AS MATERIALIZED (
    SELECT 0::smallint AS class, 9223372036854775807 AS places
    UNION ALL
    SELECT l.class, greatest(l.in_flight - coalesce(held.jobs, 0), 0)
    FROM limit_rule AS l LEFT JOIN (
        SELECT h.class, count(*) AS jobs FROM in_flight AS h WHERE h.is_held AND h.started >= $1 GROUP BY h.class
    ) AS held USING (class))";

/// Common table expression `bumped`: the first group of each bumped path that is neither held nor limited, by
/// places from 1. Needs [`PLACES`].
pub(super) const BUMPED: &str = "bumped AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY b.number) AS place, g.*
    FROM bump AS b CROSS JOIN LATERAL (
        SELECT g.* FROM ready_groups(ARRAY[b.attr_path]) AS g JOIN places AS p USING (class)
        WHERE p.places > 0 ORDER BY g.fetcher_id LIMIT 1) AS g
    WHERE b.handout_id IS NULL AND NOT EXISTS (
        SELECT 1 FROM in_flight AS h WHERE h.attr_path = b.attr_path AND h.is_held AND h.started >= $1))";

/// Replaces the function `class_of`, which is too slow for many rows.
pub(super) fn class(attr_path: &str, fetcher: &str) -> String {
    format!(
        "coalesce((
            SELECT class FROM limit_rule
            WHERE (attr_like IS NULL OR {attr_path} LIKE attr_like) AND (fetcher_like IS NULL OR {fetcher} LIKE fetcher_like)
            ORDER BY class LIMIT 1), 0::smallint)"
    )
}

/// Returns a query of the rows of an ordered one until their texts, of `size` bytes each, exceed
/// [`ANSWER_BYTES_MAX`].
pub(super) fn within(size: &str, ordered: &str) -> String {
    format!(
        "SELECT * FROM (SELECT o.*, sum({size}) OVER (ROWS UNBOUNDED PRECEDING) AS bytes FROM ({ordered}) AS o) AS o
         WHERE bytes <= {ANSWER_BYTES_MAX}"
    )
}

pub(super) fn like(pattern: Option<&Pattern>) -> Option<String> {
    let mut like = String::new();
    for one in pattern?.as_str().chars() {
        match one {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', one]),
            _ => like.push(one),
        }
    }
    Some(like)
}
