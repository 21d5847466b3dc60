-- Newest rows of each fetcher that list a path, with the times at which their runs were added (CONTRACT QO01).
--
-- Locks nothing. For questions about all rows: `ready_groups` is faster for a few paths.
(
    SELECT l.*, r.added FROM listing AS l JOIN run AS r USING (fetcher_id, run_started)
    WHERE NOT r.is_deleted AND NOT EXISTS (
        SELECT 1 FROM listing AS newer JOIN run AS of USING (fetcher_id, run_started)
        WHERE newer.attr_path = l.attr_path AND newer.fetcher_id = l.fetcher_id AND newer.run_started > l.run_started
            AND NOT of.is_deleted))
