-- Jobs that are next: bumped ones, then the first ones of each class. `$1`, `$2` and `$3` as in `free`.
--
-- Locks nothing. Reads as many rows of each class as jobs are asked for, and those before them that are
-- outdated or have other paths.
WITH {open_slots}, {bumped}, {free}, next AS (
    SELECT bump_order, class, 0 AS started_key, order_jitter, attr_path, fetcher_id, run_started, payload_id FROM bumped
    WHERE path_matches($3, attr_path)
    UNION ALL
    SELECT NULL, class, started_key, order_jitter, attr_path, fetcher_id, run_started, payload_id
    FROM (SELECT f.*, sum(octet_length(f.attr_path)) OVER (
              PARTITION BY f.class ORDER BY f.started_key, f.order_jitter, f.attr_path) AS bytes
          FROM free AS f WHERE f.slots > 0) AS f
    WHERE f.bytes <= {bytes_max})
SELECT n.class, p.slots, n.attr_path, left(payload.payload, {payload_chars}), f.name, n.run_started, log.started
FROM next AS n JOIN open_slots AS p USING (class) JOIN payload USING (payload_id) JOIN fetcher AS f USING (fetcher_id)
    LEFT JOIN log ON log.attr_path = n.attr_path
ORDER BY n.bump_order NULLS LAST, n.started_key, n.order_jitter, n.attr_path, n.fetcher_id
