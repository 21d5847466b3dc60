-- Jobs from `ready` to `in_flight`.
--
-- Locks free slots, then rows of `bump` that wait, then rows of `ready`, all of which it skips if others have locked them; then rows of
-- `in_flight`, which it adds or whose hold is over. Fast because it repeats only if rows of `ready` were outdated or taken: most hand-outs read
-- and change each table with one statement for all of their jobs.

-- Adds chosen jobs to `in_flight`, numbered from `first_id` on, unless another transaction has handed out or removed them. Returns how many.
CREATE OR REPLACE FUNCTION put_in_flight(first_id bigint, at bigint, paths text[], classes smallint[], fetchers bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    taken integer;
BEGIN
    INSERT INTO in_flight AS f (attr_path, handout_id, started, fetcher_id, runs, class, had_log, previous_started,
                                previous_finished, previous_exit_code, is_held, delivered)
    SELECT c.path, first_id + c.n - 1, at, c.fetcher, rows.runs, c.class,
        log.attr_path IS NOT NULL, log.started, log.finished, log.exit_code, true, $pending
    FROM unnest(paths, classes, fetchers) WITH ORDINALITY AS c (path, class, fetcher, n)
        CROSS JOIN LATERAL (
            SELECT array_agg(l.run_started ORDER BY l.run_started DESC) AS runs
            FROM listing AS l JOIN run AS r USING (fetcher_id, run_started)
            WHERE l.attr_path = c.path AND l.fetcher_id = c.fetcher AND NOT l.is_dequeued AND NOT r.is_deleted
        ) AS rows
        -- The limit as in `make_ready`.
        LEFT JOIN LATERAL (SELECT * FROM log AS l WHERE l.attr_path = c.path LIMIT 1) AS log ON true
    WHERE rows.runs IS NOT NULL
    ON CONFLICT (attr_path) DO UPDATE SET handout_id = excluded.handout_id, started = excluded.started,
        fetcher_id = excluded.fetcher_id, runs = excluded.runs, class = excluded.class, had_log = excluded.had_log,
        previous_started = excluded.previous_started, previous_finished = excluded.previous_finished,
        previous_exit_code = excluded.previous_exit_code, is_held = true, delivered = $pending
        WHERE NOT f.is_held;
    GET DIAGNOSTICS taken = ROW_COUNT;
    RETURN taken;
END
$$;

-- Takes up to `wanted` jobs, numbered from `first_id` on with gaps. Returns how many.
CREATE OR REPLACE FUNCTION take_jobs(wanted integer, first_id bigint, at bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    given integer := 0;
    next_id bigint := first_id;
    taken integer;
    dropped integer;
    free record;
    paths text[];
    classes smallint[];
    keys bigint[];
    jitters integer[];
    are_last boolean[];
    most integer[];
    chosen record;
BEGIN
    WHILE given < wanted LOOP
        free := lock_slots(wanted - given);
        -- Outdated rows are dropped in growing steps, so that many of them do not hide a job for long.
        most := CASE WHEN paths IS NULL THEN
            rows_to_read(free.free_classes, free.most_slots, wanted)
            ELSE array_fill(least(cardinality(paths) * 2, 4096), ARRAY[cardinality(free.free_classes)]) END;
        SELECT array_agg(n.attr_path), array_agg(n.class), array_agg(n.started_key), array_agg(n.order_jitter), array_agg(n.is_last)
        INTO paths, classes, keys, jitters, are_last
        FROM next_paths(free.free_classes, most) AS n;
        chosen := choose_jobs(wanted - given, free.free_classes, free.slots, free.first_slots, free.last_slots, paths, classes, are_last);
        PERFORM raise_scan_starts(free.free_classes, classes, keys, jitters, are_last, ARRAY(
            SELECT t.path = ANY (chosen.valid_paths) AND t.path <> ALL (chosen.chosen_paths)
            FROM unnest(paths) WITH ORDINALITY AS t (path, n) ORDER BY t.n));
        EXIT WHEN paths IS NULL;
        -- Not joined with the rows that were read: a plan that is made while `ready` has few rows would read all of it.
        DELETE FROM ready AS r
        WHERE r.attr_path = ANY (paths) AND ((r.attr_path, r.class) IN (
            SELECT c.path, c.class FROM unnest(paths, classes) AS c (path, class)
            WHERE c.path = ANY (chosen.chosen_paths) OR c.path <> ALL (chosen.valid_paths))) IS TRUE;
        GET DIAGNOSTICS dropped = ROW_COUNT;
        taken := put_in_flight(next_id, at, chosen.chosen_paths, chosen.chosen_classes, chosen.chosen_fetchers);
        -- Every candidate waits for a slot, or another transaction changes what is left.
        EXIT WHEN taken + dropped = 0;
        IF taken > 0 AND free.free_classes <> ARRAY[0::smallint] THEN
            PERFORM use_slots(chosen.chosen_slots, next_id);
        END IF;
        given := given + taken;
        next_id := next_id + wanted;
    END LOOP;
    RETURN given;
END
$$;
