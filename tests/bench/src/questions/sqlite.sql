-- `$rows` rows: `$paths` paths in the newest run of four fetchers, the others in an older one. Half of the paths were handed out.
PRAGMA synchronous = off;
BEGIN;
INSERT INTO fetchers (fetcher_id, name) VALUES (1, 'f1'), (2, 'f2'), (3, 'f3'), (4, 'f4');
INSERT INTO fetcher_runs (fetcher_id, run_started, is_complete) SELECT fetcher_id, n.column1, 1 FROM fetchers, (VALUES (1), (2)) AS n;
INSERT INTO orchestrator_run SELECT fetcher_id, run_started, $now - 600000 + run_started FROM fetcher_runs;
CREATE TEMP TABLE path AS
    WITH RECURSIVE number (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM number WHERE value < $paths - 1)
    SELECT value AS p, printf('pkgs.p%07d', value) AS attr_path, value % 4 + 1 AS fetcher_id,
        value * 2654435761 % 4294967296 - 2147483648 AS jitter,
        iif(value % 2 = 0, $now - 400000 + value * 400000 / $paths, NULL) AS started
    FROM number;
INSERT INTO log
    SELECT attr_path, started, iif(p % 50 = 0, NULL, started + 30), iif(p % 50 = 0, NULL, p % 20 = 2) FROM path WHERE started IS NOT NULL;
INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, is_dequeued, last_started, order_jitter)
    SELECT fetcher_id, 1, attr_path, 'echo ' || attr_path, p % 4 = 0, started, jitter FROM path WHERE p < $rows - $paths;
INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, is_dequeued, last_started, order_jitter)
    SELECT fetcher_id, 2, attr_path, 'echo ' || attr_path, p % 4 = 0, started, jitter FROM path;
INSERT INTO orchestrator_ready
    SELECT fetcher_id, 2, 0, started IS NOT NULL AND p % 50 = 0, ifnull(started, -9223372036854775807 - 1), jitter, attr_path
    FROM path WHERE p % 4 <> 0 ORDER BY 1, 2, 3, 4, 5, 6, 7;
INSERT INTO orchestrator_attempt
    SELECT started, (1 << 32) + p, attr_path, 'f' || fetcher_id, '1', iif(p % 10 = 0, started - 1000, NULL),
        iif(p % 10 = 0, started - 900, NULL), iif(p % 10 = 0, 1, NULL)
    FROM path WHERE started IS NOT NULL AND p >= $paths - 400000;
INSERT INTO orchestrator_failure
    SELECT p + 1, attr_path, started, started + 30, 1 FROM path WHERE p % 20 = 2 AND p >= $paths - 200000;
COMMIT;
