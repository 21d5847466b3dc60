-- All groups: those that can be handed out in their order, then blocked ones, then those handed out, latest first. `$1` is the earliest start of
-- a job whose hold is not over; `$2` is the number of groups.
--
-- Locks nothing. Reads all rows; computes classes only while a limit is reached. The first group that does not fit is read, too.
{newest}, {open_slots}, {bumped}, stated AS (
    SELECT g.attr_path, g.fetcher_id, g.payload_id, g.order_jitter, g.is_dequeued, f.index, log.started, log.finished,
        log.exit_code, CASE
            WHEN g.is_dequeued AND log.started < $1 AND log.finished IS NULL THEN {unanswered}
            WHEN g.is_dequeued AND log.started IS NOT NULL AND log.finished IS NULL THEN {running}
            WHEN g.is_dequeued THEN {ended}
            WHEN h.attr_path IS NOT NULL THEN {held}
            WHEN NOT EXISTS (SELECT 1 FROM open_slots WHERE slots = 0) THEN {waiting}
            WHEN {class} IN (SELECT p.class FROM open_slots AS p WHERE p.slots > 0) THEN {waiting}
            ELSE {limited}
        END AS state
    FROM newest AS g
        JOIN (SELECT fetcher_id, name, dense_rank() OVER (ORDER BY name) - 1 AS index FROM fetcher) AS f USING (fetcher_id)
        LEFT JOIN log ON log.attr_path = g.attr_path
        LEFT JOIN in_flight AS h ON h.attr_path = g.attr_path AND h.is_held AND h.started >= $1
), ordered AS (
    SELECT g.*, left(p.payload, {payload_chars}) AS payload
    FROM stated AS g JOIN payload AS p USING (payload_id)
        LEFT JOIN bumped AS b ON b.attr_path = g.attr_path AND b.fetcher_id = g.fetcher_id
    ORDER BY g.is_dequeued, g.state <> {waiting}, b.bump_order NULLS LAST,
        CASE WHEN g.is_dequeued THEN -g.started ELSE coalesce(g.started, {never}) END, g.order_jitter, g.attr_path,
        g.fetcher_id
    LIMIT $2
), sized AS (
    SELECT o.*, row_number() OVER w AS n, sum(octet_length(attr_path) + octet_length(payload)) OVER w AS bytes
    FROM ordered AS o WINDOW w AS (ROWS UNBOUNDED PRECEDING)
)
SELECT s.attr_path, s.index, s.payload, s.state, s.started, s.finished, s.exit_code,
    greatest(a.kept, (s.started IS NOT NULL)::integer), s.bytes
FROM sized AS s LEFT JOIN (SELECT attr_path, count(*) AS kept FROM attempt GROUP BY attr_path) AS a USING (attr_path)
WHERE s.bytes - octet_length(s.attr_path) - octet_length(s.payload) <= {bytes_max}
ORDER BY s.n
