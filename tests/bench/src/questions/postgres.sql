-- The rows of `sqlite.sql`.
INSERT INTO instance VALUES ('i', nextval('incarnation_number'), 'host', 'socket', now(), false);
INSERT INTO incarnation VALUES (1, 'i');
INSERT INTO fetcher (fetcher_id, name, instance) OVERRIDING SYSTEM VALUE SELECT n, 'f' || n, 'i' FROM generate_series(1, 4) AS n;
INSERT INTO run SELECT f.fetcher_id, n, true, false, $now - 600000 + n FROM fetcher AS f, generate_series(1, 2) AS n;
CREATE TEMP TABLE path AS
    SELECT n AS p, 'pkgs.p' || lpad(n::text, 7, '0') AS attr_path, n % 4 + 1 AS fetcher_id,
        (n * 2654435761 % 4294967296 - 2147483648)::integer AS jitter,
        CASE WHEN n % 2 = 0 THEN $now - 400000 + n * 400000 / $paths END AS started
    FROM generate_series(0::bigint, $paths - 1) AS n;
INSERT INTO log
    SELECT attr_path, started, CASE WHEN p % 50 <> 0 THEN started + 30 END, CASE WHEN p % 50 <> 0 THEN (p % 20 = 2)::integer END
    FROM path WHERE started IS NOT NULL;
INSERT INTO payload (payload_id, payload) SELECT p, 'echo ' || attr_path FROM path;
INSERT INTO listing SELECT attr_path, fetcher_id, 1, p, jitter, p % 4 = 0 FROM path WHERE p < $rows - $paths;
INSERT INTO listing SELECT attr_path, fetcher_id, 2, p, jitter, p % 4 = 0 FROM path;
INSERT INTO ready SELECT attr_path, 0, coalesce(started, -9223372036854775808), jitter FROM path WHERE p % 4 <> 0;
INSERT INTO in_flight
    SELECT attr_path, (1::bigint << 32) + p, started, fetcher_id, ARRAY[2], 0, false, NULL, NULL, NULL, true, 2
    FROM path WHERE started IS NOT NULL AND p % 50 = 0;
INSERT INTO attempt
    SELECT started, (1::bigint << 32) + p, attr_path, 'f' || fetcher_id, '1', CASE WHEN p % 10 = 0 THEN started - 1000 END,
        CASE WHEN p % 10 = 0 THEN started - 900 END, CASE WHEN p % 10 = 0 THEN 1 END
    FROM path WHERE started IS NOT NULL AND p >= $paths - 400000;
INSERT INTO failure (number, attr_path, started, finished, exit_code)
    SELECT p + 1, attr_path, started, started + 30, 1 FROM path WHERE p % 20 = 2 AND p >= $paths - 200000;
ANALYZE;
