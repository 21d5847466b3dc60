-- First `$2` rows of the path `$1`, newest runs first. Rows are found by path.
SELECT r.fetcher, l.run_started, r.added, l.is_dequeued
FROM listed AS l JOIN runs AS r ON r.fetcher_id = l.fetcher_id AND r.run_started = l.run_started
WHERE l.attr_path = $1 AND NOT r.is_deleted ORDER BY l.run_started DESC, r.fetcher LIMIT $2
