-- Functions of a queue that several instances share, of one version with the program: a newer one replaces them.

-- Class of limits of a job. Functions in SQL are those that the planner puts into the statement that calls them: it plans others at each
-- call.
CREATE OR REPLACE FUNCTION class_of(path text, fetcher_name text) RETURNS TABLE (class smallint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT class FROM limit_rule
         WHERE (attr_like IS NULL OR path LIKE attr_like) AND (fetcher_like IS NULL OR fetcher_name LIKE fetcher_like)
         ORDER BY class LIMIT 1),
        0::smallint)
$$;

-- Groups of these paths that wait: the newest row of each fetcher, if it was not handed out (CONTRACT QO01, QO02).
CREATE OR REPLACE FUNCTION ready_groups(paths text[])
RETURNS TABLE (attr_path text, class smallint, order_jitter integer, fetcher_id bigint, run_started bigint, payload_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT n.attr_path, c.class, n.order_jitter, n.fetcher_id, n.run_started, n.payload_id
    FROM (
        SELECT DISTINCT ON (l.attr_path, l.fetcher_id) l.*, f.name
        FROM listing AS l
            JOIN run AS r ON r.fetcher_id = l.fetcher_id AND r.run_started = l.run_started
            JOIN fetcher AS f ON f.fetcher_id = l.fetcher_id
        WHERE l.attr_path = ANY (paths) AND NOT r.is_deleted
        ORDER BY l.attr_path, l.fetcher_id, l.run_started DESC
    ) AS n, LATERAL class_of(n.attr_path, n.name) AS c
    WHERE NOT n.is_dequeued
$$;

-- The floor of a class: the start of the last hand-out and the jitter from which hand-outs of this session look for rows of `ready`, since
-- they have taken those before. Kept in a setting of the session, which returns to its value if the transaction is rolled back.
CREATE OR REPLACE FUNCTION floor_of(class smallint) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.floor_' || class, true), '')::bigint[], '{-9223372036854775808,-2147483648}')
$$;

-- The number from which hand-outs of this session look for free slots of a class, kept like the other floor.
CREATE OR REPLACE FUNCTION slot_floor_of(class smallint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.slots_' || class, true), '')::bigint, 0)
$$;

-- Lowers the floor of each class to `key`, and with the smallest key those of the slots, too.
CREATE OR REPLACE FUNCTION lower_floors(key bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('orchestrator.floor_' || c.class, key::text, false)
    FROM (SELECT 0::smallint AS class UNION ALL SELECT l.class FROM limit_rule AS l) AS c WHERE key < floor_of(c.class);
    IF key = '{-9223372036854775808,-2147483648}' THEN
        PERFORM set_config('orchestrator.slots_' || l.class, '0', false) FROM limit_rule AS l;
    END IF;
END
$$;

-- Sets the floors of `of_classes` after a hand-out has read rows of them in order: the first row that was left, or the last one if others may
-- follow it, or behind all rows. Rows of other transactions that end without a hand-out are found from the head again.
CREATE OR REPLACE FUNCTION raise_floors(of_classes smallint[], classes smallint[], keys bigint[], jitters integer[], is_last boolean[], is_left boolean[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('orchestrator.floor_' || o.class, coalesce(
        min(ARRAY[t.key, t.jitter]) FILTER (WHERE t.is_left OR t.is_last),
        ARRAY[9223372036854775807, 2147483647])::text, false)
    FROM unnest(of_classes) AS o (class)
        LEFT JOIN unnest(classes, keys, jitters, is_last, is_left) AS t (class, key, jitter, is_last, is_left)
            ON t.class = o.class AND t.key IS NOT NULL
    GROUP BY o.class;
END
$$;

-- Lock of the sessions whose workers wait for rows of other sessions.
CREATE OR REPLACE FUNCTION waiting_lock() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(current_schema() || ' waiting', 0)
$$;

-- Slots of each class that this transaction has freed and not used again.
CREATE OR REPLACE FUNCTION freed_slots() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.freed', true), '')::integer[], '{}')
$$;

-- Called at the end of each transaction: adds the slots that it has freed, and tells sessions that wait the smallest key that it has added to
-- `ready`.
CREATE OR REPLACE FUNCTION before_commit() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added text := nullif(current_setting('orchestrator.added', true), '');
    freed integer[] := freed_slots();
BEGIN
    IF freed <> '{}' THEN
        INSERT INTO slot (class) SELECT c.class FROM generate_subscripts(freed, 1) AS c (class), generate_series(1, freed[c.class]);
    END IF;
    -- Own locks do not conflict, and a session that begins to wait meanwhile looks for rows once more.
    IF added IS NOT NULL AND NOT pg_try_advisory_xact_lock(waiting_lock()) THEN
        PERFORM pg_notify(current_schema(), added);
    END IF;
END
$$;

-- Adds the paths that wait and are not in flight to `ready`, and lowers the floors of this session. The lock keeps a path in flight until
-- this transaction ends, so that its end, which follows, sees the rows of this transaction.
CREATE OR REPLACE FUNCTION make_ready(paths text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lowest record;
BEGIN
    FOR lowest IN
        WITH held AS MATERIALIZED (
            SELECT f.attr_path FROM in_flight AS f WHERE f.attr_path = ANY (paths) AND f.is_held ORDER BY f.attr_path FOR SHARE
        ), added AS (
            INSERT INTO ready AS known (attr_path, class, started_key, order_jitter)
            SELECT DISTINCT g.attr_path, g.class, coalesce(log.started, -9223372036854775808), g.order_jitter
            -- With a limit, the plan that is made while `log` is empty reads one row of it, too, and never all.
            FROM ready_groups(paths) AS g LEFT JOIN LATERAL (SELECT * FROM log AS l WHERE l.attr_path = g.attr_path LIMIT 1) AS log ON true
            WHERE NOT EXISTS (SELECT 1 FROM held WHERE held.attr_path = g.attr_path)
            ORDER BY g.attr_path, g.class
            ON CONFLICT (attr_path, class) DO UPDATE SET started_key = excluded.started_key
                WHERE known.started_key <> excluded.started_key
            RETURNING known.class, known.started_key, known.order_jitter
        )
        SELECT a.class, min(ARRAY[a.started_key, a.order_jitter]) AS key FROM added AS a GROUP BY a.class
    LOOP
        PERFORM set_config('orchestrator.floor_' || lowest.class, least(lowest.key, floor_of(lowest.class))::text, false),
            set_config('orchestrator.added',
                least(lowest.key, nullif(current_setting('orchestrator.added', true), '')::bigint[])::text, true);
    END LOOP;
END
$$;

-- Removes the paths that wait no longer from `ready`, but those that another transaction is handing out. What others added before the
-- lock is seen only by the next statement. It follows `make_ready`, which waits for others in the order of paths: with later rows locked,
-- that would be a deadlock.
CREATE OR REPLACE FUNCTION drop_ready(paths text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    locked ready[];
BEGIN
    locked := ARRAY(SELECT r FROM ready AS r WHERE r.attr_path = ANY (paths) ORDER BY r.attr_path, r.class FOR UPDATE SKIP LOCKED);
    DELETE FROM ready AS r
    WHERE r.attr_path = ANY (paths) AND ((r.attr_path, r.class) IN (SELECT o.attr_path, o.class FROM unnest(locked) AS o)) IS TRUE
        AND NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[r.attr_path]) AS g WHERE g.class = r.class);
END
$$;

-- Begins a transaction of an instance, or fails if another instance has taken its place. A transaction that takes its place waits for the
-- end of this one.
CREATE OR REPLACE FUNCTION enter(name text, of_incarnation bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM instance AS i WHERE i.instance = name AND i.incarnation = of_incarnation FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the instance % is not the one that began', name USING ERRCODE = 'OQ001';
    END IF;
END
$$;

-- Tries to get the advisory lock of an instance for this session.
CREATE OR REPLACE FUNCTION lock_place(name text) RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/' || name, 0))
$$;

-- Takes the place of an instance for a new process and returns its incarnation, unless another process has the place: its lease is not
-- over, and it may have a session.
CREATE OR REPLACE FUNCTION take_place(name text, of_host text, of_socket text, lease interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known instance%ROWTYPE;
    next_incarnation bigint := nextval('incarnation_number');
    has_lock boolean := lock_place(name);
BEGIN
    SELECT i.* INTO known FROM instance AS i WHERE i.instance = name FOR UPDATE;
    IF FOUND AND known.lease_until > clock_timestamp() AND NOT (known.is_locked AND has_lock) THEN
        RAISE EXCEPTION 'instance % is in use on host % with the socket %', name, known.host, known.socket USING ERRCODE = 'OQ002';
    END IF;
    INSERT INTO instance (instance, incarnation, host, socket, lease_until, is_locked)
    VALUES (name, next_incarnation, of_host, of_socket, clock_timestamp() + lease, has_lock)
    ON CONFLICT (instance) DO UPDATE SET incarnation = excluded.incarnation, host = excluded.host, socket = excluded.socket,
        lease_until = excluded.lease_until, is_locked = excluded.is_locked;
    INSERT INTO incarnation (incarnation, instance) VALUES (next_incarnation, name);
    DELETE FROM incarnation AS i WHERE i.instance = name AND i.incarnation <> next_incarnation AND NOT EXISTS (
        SELECT 1 FROM in_flight AS f WHERE f.handout_id >= i.incarnation << 32 AND f.handout_id < (i.incarnation + 1) << 32);
    RETURN next_incarnation;
END
$$;

-- Keeps the place of an instance for another session of its process, after the end of each transaction of the former one.
CREATE OR REPLACE FUNCTION keep_place(name text, of_incarnation bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    has_lock boolean;
BEGIN
    PERFORM 1 FROM instance AS i WHERE i.instance = name FOR UPDATE;
    UPDATE instance AS i SET is_locked = lock_place(name) WHERE i.instance = name AND i.incarnation = of_incarnation
    RETURNING i.is_locked INTO has_lock;
    RETURN coalesce(has_lock, false);
END
$$;

-- Hand-outs of an instance without a recorded delivery.
CREATE OR REPLACE FUNCTION undelivered(of_instance text) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(f.handout_id) FROM incarnation AS i
        JOIN in_flight AS f ON f.handout_id >= i.incarnation << 32 AND f.handout_id < (i.incarnation + 1) << 32
    WHERE i.instance = of_instance AND f.delivered <= 0
$$;

-- Adds a run or updates whether it is complete (CONTRACT QC05, QC08). Returns 'done'; 'pending' if rows of a deleted run must leave
-- first; otherwise the name of the instance that has the fetcher.
CREATE OR REPLACE FUNCTION upsert_run(of_instance text, fetcher_name text, started bigint, complete boolean, at bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known fetcher%ROWTYPE;
BEGIN
    SELECT f.* INTO known FROM fetcher AS f WHERE f.name = fetcher_name;
    IF NOT FOUND THEN
        -- Another instance may add it, too.
        INSERT INTO fetcher (name, instance) VALUES (fetcher_name, of_instance) ON CONFLICT DO NOTHING;
        SELECT f.* INTO known FROM fetcher AS f WHERE f.name = fetcher_name;
    END IF;
    IF known.instance <> of_instance THEN
        RETURN known.instance;
    -- A fetcher without a run does not exist for others, so it gets a new number when it returns.
    ELSIF EXISTS (SELECT 1 FROM run AS r WHERE r.fetcher_id = known.fetcher_id AND r.is_deleted AND (
            r.run_started = started
            OR NOT EXISTS (SELECT 1 FROM run AS o WHERE o.fetcher_id = known.fetcher_id AND NOT o.is_deleted))) THEN
        RETURN 'pending';
    END IF;
    INSERT INTO run (fetcher_id, run_started, is_complete, added) VALUES (known.fetcher_id, started, complete, at)
    ON CONFLICT (fetcher_id, run_started) DO UPDATE SET is_complete = excluded.is_complete
        WHERE run.is_complete <> excluded.is_complete;
    RETURN 'done';
END
$$;

-- Moves a fetcher of files to an instance, and counts the move. Returns the instance that had it; nothing if none had. Waits for the end
-- of that instance's open transaction, so that each of its transactions sees one owner.
CREATE OR REPLACE FUNCTION adopt_fetcher(of_instance text, fetcher_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    former text;
BEGIN
    SELECT f.instance INTO former FROM fetcher AS f WHERE f.name = fetcher_name AND strpos(f.name, '.') = 0;
    PERFORM 1 FROM instance AS i WHERE i.instance = former AND former <> of_instance FOR UPDATE;
    UPDATE fetcher AS f SET instance = of_instance WHERE f.name = fetcher_name AND f.instance = former;
    INSERT INTO property AS p (name, value) VALUES ('moves', '1')
    ON CONFLICT (name) DO UPDATE SET value = (p.value::bigint + 1)::text;
    RETURN former;
END
$$;

-- Frees the slots of hand-outs, whose rows of `in_flight` are locked. The caller removes the rows, or their class.
CREATE OR REPLACE FUNCTION free_slots(ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    freed integer[] := freed_slots();
    used record;
    gone integer;
BEGIN
    FOR used IN
        SELECT f.class, count(*)::integer AS slots, (SELECT l.excess FROM limit_rule AS l WHERE l.class = f.class) AS excess
        FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.class > 0 GROUP BY f.class ORDER BY f.class
    LOOP
        gone := 0;
        -- Most of the time nobody has lowered a limit, and the row is not locked.
        IF used.excess > 0 THEN
            SELECT least(l.excess, used.slots) INTO gone FROM limit_rule AS l WHERE l.class = used.class FOR UPDATE;
            UPDATE limit_rule AS l SET excess = excess - gone WHERE l.class = used.class;
        END IF;
        freed[used.class] := coalesce(freed[used.class], 0) + used.slots - gone;
    END LOOP;
    IF freed <> '{}' THEN
        PERFORM set_config('orchestrator.freed', freed::text, true);
    END IF;
END
$$;

-- Ends holds that are over, oldest first. Jobs with `delivered` = 1 wait again (CONTRACT QR28).
CREATE OR REPLACE FUNCTION end_holds(at bigint, hold bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    ids bigint[];
BEGIN
    SELECT array_agg(e.attr_path), array_agg(e.handout_id) INTO paths, ids FROM (
        SELECT f.attr_path, f.handout_id FROM in_flight AS f
        WHERE CASE WHEN f.is_held THEN f.started END < at - hold
        ORDER BY CASE WHEN f.is_held THEN f.started END LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS e;
    IF paths IS NULL THEN
        RETURN;
    END IF;
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (ids) AND f.delivered = 1
        AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    DELETE FROM bump AS b USING in_flight AS f
    WHERE f.handout_id = ANY (ids) AND f.delivered = 1 AND b.handout_id = f.handout_id;
    PERFORM free_slots(ids);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered = 1;
    UPDATE in_flight AS f SET is_held = false, class = 0 WHERE f.handout_id = ANY (ids);
    PERFORM make_ready(paths);
END
$$;

-- Removes the job of an owner, as its file would.
CREATE OR REPLACE FUNCTION remove_offered(path text, of_fetcher bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM listing WHERE attr_path = path AND fetcher_id = of_fetcher AND run_started = 0 RETURNING payload_id
    )
    DELETE FROM payload USING gone WHERE payload.payload_id = gone.payload_id;
    PERFORM drop_ready(ARRAY[path]);
END
$$;

-- Records the ends of jobs in order (CONTRACT QO06); a row for each path that was ever handed out.
CREATE OR REPLACE FUNCTION end_jobs(paths text[], codes bigint[], at bigint)
RETURNS TABLE (number bigint, seconds bigint, owner text, claim text) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    early bigint[];
    starts bigint[];
    ended record;
BEGIN
    SELECT array_agg(f.handout_id), array_agg(f.handout_id) FILTER (WHERE f.delivered <= 0) INTO ids, early FROM (
        SELECT f.handout_id, f.delivered FROM in_flight AS f WHERE f.attr_path = ANY (paths) ORDER BY f.attr_path FOR UPDATE) AS f;
    -- Not joined with the paths: a plan that is made while `log` has few rows would read all of it.
    WITH ended AS (
        UPDATE log AS l SET finished = at, exit_code = codes[(SELECT max(n) FROM unnest(array_positions(paths, l.attr_path)) AS n)]
        WHERE l.attr_path = ANY (paths) RETURNING l.attr_path, l.started
    )
    SELECT array_agg(e.started ORDER BY t.n) INTO starts
    FROM unnest(paths) WITH ORDINALITY AS t (path, n) LEFT JOIN ended AS e ON e.attr_path = t.path;
    INSERT INTO failure (attr_path, started, finished, exit_code)
    SELECT t.path, t.started, at, t.code FROM unnest(paths, codes, starts) WITH ORDINALITY AS t (path, code, started, n)
    WHERE t.code <> 0 AND t.started IS NOT NULL ORDER BY t.n;
    PERFORM free_slots(ids);
    IF early IS NOT NULL THEN
        -- A repeated DONE of an earlier hand-out, maybe: nobody may have this one.
        UPDATE in_flight AS f SET is_held = false, class = 0, delivered = -1 WHERE f.handout_id = ANY (early);
    END IF;
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered >= 0;
    DELETE FROM bump AS b WHERE b.attr_path = ANY (paths) AND b.handout_id IS NOT NULL;
    RETURN QUERY SELECT t.n, at - t.started, NULL::text, NULL::text
        FROM unnest(starts) WITH ORDINALITY AS t (started, n) WHERE t.started IS NOT NULL;
    FOR ended IN
        UPDATE offer AS o SET state = 2, finished = at, exit_code = codes[array_position(paths, o.attr_path)],
            seconds = at - starts[array_position(paths, o.attr_path)]
        WHERE o.attr_path = ANY (paths) AND o.state = 1
        RETURNING array_position(paths, o.attr_path)::bigint AS n, o.attr_path AS path, o.fetcher_id, o.claim
    LOOP
        RETURN QUERY SELECT ended.n, NULL::bigint, f.name, ended.claim FROM fetcher AS f WHERE f.fetcher_id = ended.fetcher_id;
        PERFORM remove_offered(ended.path, ended.fetcher_id);
    END LOOP;
    PERFORM make_ready(paths);
END
$$;

-- Free slots of each class, at most `wanted`, locked. Those that this transaction has freed, and those of jobs without a limit, have no
-- number.
CREATE OR REPLACE FUNCTION lock_slots(wanted integer) RETURNS TABLE (class smallint, slots bigint[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    freed integer[] := freed_slots();
BEGIN
    RETURN QUERY
        SELECT 0::smallint, array_fill(NULL::bigint, ARRAY[wanted])
        UNION ALL
        SELECT l.class, array_fill(NULL::bigint, ARRAY[own.slots]) || ARRAY(
            SELECT s.number FROM slot AS s WHERE s.class = l.class AND s.number >= slot_floor_of(l.class)
            ORDER BY s.number LIMIT wanted - own.slots FOR UPDATE SKIP LOCKED)
        FROM limit_rule AS l, LATERAL (SELECT least(coalesce(freed[l.class], 0), wanted) AS slots) AS own;
END
$$;

-- Rows of these hand-outs. Read by themselves (OFFSET 0): joined with another table by path, a plan that is made while `in_flight` has one row
-- would read all of it.
CREATE OR REPLACE FUNCTION handed_out(first_id bigint, last_id bigint) RETURNS SETOF in_flight LANGUAGE sql STABLE AS $$
    SELECT * FROM in_flight WHERE handout_id BETWEEN first_id AND last_id OFFSET 0
$$;

-- Removes the slots of jobs that are handed out: `slots` are those of hand-outs from `first_id` on, of which some may not exist.
CREATE OR REPLACE FUNCTION use_slots(slots bigint[], first_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    freed integer[] := freed_slots();
    used record;
BEGIN
    FOR used IN
        SELECT f.class, count(*) FILTER (WHERE o.slot IS NULL)::integer AS own, array_agg(o.slot) AS numbers, max(o.slot) AS last
        FROM handed_out(first_id, first_id + cardinality(slots) - 1) AS f,
            LATERAL (SELECT slots[(f.handout_id - first_id + 1)::integer] AS slot) AS o
        WHERE f.class > 0 GROUP BY f.class
    LOOP
        freed[used.class] := coalesce(freed[used.class], 0) - used.own;
        IF used.last IS NOT NULL THEN
            DELETE FROM slot AS s WHERE s.class = used.class AND s.number = ANY (used.numbers);
            PERFORM set_config('orchestrator.slots_' || used.class, (used.last + 1)::text, false);
        END IF;
    END LOOP;
    PERFORM set_config('orchestrator.freed', freed::text, true);
END
$$;

-- Number of rows of `ready` that a hand-out reads of each class, so that it finds the first `wanted` in the order of all: those among them
-- that get a slot, and the row behind them.
CREATE OR REPLACE FUNCTION rows_to_read(classes smallint[], slots integer[], wanted integer) RETURNS integer[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    most integer[] := array_fill(1, ARRAY[cardinality(classes)]);
    place integer;
BEGIN
    IF cardinality(classes) = 1 THEN
        RETURN ARRAY[wanted];
    END IF;
    FOR place IN
        SELECT t.n
        FROM unnest(classes, slots) WITH ORDINALITY AS t (class, slots, n),
            LATERAL (SELECT floor_of(t.class) AS key) AS floor,
            LATERAL (
                SELECT r.started_key, r.order_jitter, r.attr_path FROM ready AS r
                WHERE r.class = t.class AND (r.started_key, r.order_jitter) >= (floor.key[1], floor.key[2]::integer)
                ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT least(t.slots, wanted)) AS w
        ORDER BY w.started_key, w.order_jitter, w.attr_path LIMIT wanted
    LOOP
        most[place] := most[place] + 1;
    END LOOP;
    RETURN most;
END
$$;

-- First rows of `ready` from the floors in the order of hand-outs, at most `most` of each class, locked; bumped paths first. Without a key if
-- the path is only bumped. With `is_last`, rows of the class may follow that were not read.
CREATE OR REPLACE FUNCTION next_paths(classes smallint[], most integer[])
RETURNS TABLE (attr_path text, class smallint, started_key bigint, order_jitter integer, is_last boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH bump_row AS MATERIALIZED (
            SELECT b.number, b.attr_path FROM bump AS b WHERE b.handout_id IS NULL FOR UPDATE SKIP LOCKED
        ), bumped AS (
            SELECT b.number, g.attr_path, g.class, NULL::bigint AS started_key, g.order_jitter, false AS is_last
            FROM bump_row AS b, LATERAL ready_groups(ARRAY[b.attr_path]) AS g
            WHERE g.class = ANY (classes) AND (SELECT f.is_held FROM in_flight AS f WHERE f.attr_path = b.attr_path) IS NOT TRUE
        ), waiting AS MATERIALIZED (
            SELECT w.*, open.most
            FROM (SELECT o.class, o.most, floor_of(o.class) AS floor FROM unnest(classes, most) AS o (class, most)) AS open, LATERAL (
                SELECT r.* FROM ready AS r
                WHERE r.class = open.class AND (r.started_key, r.order_jitter) >= (open.floor[1], open.floor[2]::integer)
                ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT open.most FOR UPDATE SKIP LOCKED) AS w
        ), counted AS (
            SELECT NULL::bigint, w.attr_path, w.class, w.started_key, w.order_jitter, w.most =
                row_number() OVER (PARTITION BY w.class ORDER BY w.started_key, w.order_jitter, w.attr_path)
            FROM waiting AS w
        )
        SELECT c.attr_path, c.class, max(c.started_key), max(c.order_jitter), bool_or(c.is_last)
        FROM (SELECT * FROM bumped UNION ALL SELECT * FROM counted) AS c
        GROUP BY c.attr_path, c.class
        ORDER BY min(c.number) NULLS LAST, max(c.started_key), max(c.order_jitter), c.attr_path;
END
$$;

-- Drops new hand-outs of a range whose newest row another transaction removed.
CREATE OR REPLACE FUNCTION drop_removed(first_id bigint, last_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    ids bigint[];
BEGIN
    SELECT array_agg(f.attr_path), array_agg(f.handout_id) INTO paths, ids FROM handed_out(first_id, last_id) AS f
    WHERE NOT EXISTS (
        SELECT 1 FROM listing AS l
        WHERE l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = f.runs[1]);
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (ids) AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    PERFORM free_slots(ids);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids);
    PERFORM make_ready(paths);
END
$$;

-- Hands out up to one job for each connection, in order (CONTRACT QO01 to QO05). Hand-outs are numbered from `first_id`, with gaps. The floors
-- are lowered to `added`, if there is one. Ends before a payload with which those of this hand-out and `unsent` bytes would be longer than
-- `bytes_max`, unless it is the only one: a last row without a job tells that.
CREATE OR REPLACE FUNCTION hand_out(connections text[], first_id bigint, at bigint, hold bigint, keeps_attempts boolean, added bigint[],
    unsent bigint, bytes_max bigint)
RETURNS TABLE (handout_id bigint, attr_path text, payload text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    wanted integer := cardinality(connections);
    given integer := 0;
    held bigint := unsent;
    next_id bigint := first_id;
    last_id bigint := (((first_id >> 32) + 1) << 32) - 1;
    taken integer;
    dropped integer;
    place integer;
    is_cut boolean;
    next record;
    valid_paths text[];
    chosen_paths text[];
    chosen_classes smallint[];
    chosen_fetchers bigint[];
    chosen_slots bigint[];
    free_classes smallint[];
    slots bigint[];
    first_slots integer[];
    last_slots integer[];
    most_slots integer[];
    paths text[];
    classes smallint[];
    keys bigint[];
    jitters integer[];
    are_last boolean[];
    most integer[];
BEGIN
    PERFORM lower_floors(added);
    IF is_paused() THEN
        RETURN;
    END IF;
    PERFORM end_holds(at, hold);
    WHILE given < wanted LOOP
        -- Slots of all classes, one class after the other, and for each class its first slot that is not used and its last one.
        free_classes := '{}';
        slots := '{}';
        first_slots := '{}';
        last_slots := '{}';
        most_slots := '{}';
        FOR next IN SELECT * FROM lock_slots(wanted - given) AS o WHERE cardinality(o.slots) > 0 LOOP
            free_classes := free_classes || next.class;
            first_slots := first_slots || cardinality(slots) + 1;
            slots := slots || next.slots;
            last_slots := last_slots || cardinality(slots);
            most_slots := most_slots || cardinality(next.slots);
        END LOOP;
        -- Outdated rows are dropped in growing steps, so that many of them do not hide a job for long.
        most := CASE WHEN paths IS NULL THEN
            rows_to_read(free_classes, most_slots, wanted)
            ELSE array_fill(least(cardinality(paths) * 2, 4096), ARRAY[cardinality(free_classes)]) END;
        SELECT array_agg(n.attr_path), array_agg(n.class), array_agg(n.started_key), array_agg(n.order_jitter), array_agg(n.is_last)
        INTO paths, classes, keys, jitters, are_last
        FROM next_paths(free_classes, most) AS n;
        valid_paths := '{}';
        chosen_paths := '{}';
        chosen_classes := '{}';
        chosen_fetchers := '{}';
        chosen_slots := '{}';
        is_cut := false;
        FOR next IN
            SELECT c.path, c.class, g.fetcher_id, c.is_last
            FROM (
                SELECT t.*, min(t.n) OVER (PARTITION BY t.path) AS first_n
                FROM unnest(paths, classes, are_last) WITH ORDINALITY AS t (path, class, is_last, n)
            ) AS c LEFT JOIN (
                -- With NOT EXISTS, a plan that is made while `in_flight` is empty would read all of it.
                SELECT r.* FROM ready_groups(paths) AS r
                WHERE (SELECT f.is_held FROM in_flight AS f WHERE f.attr_path = r.attr_path) IS NOT TRUE
            ) AS g ON g.attr_path = c.path AND g.class = c.class
            ORDER BY c.first_n, g.fetcher_id, c.n
        LOOP
            place := array_position(free_classes, next.class);
            IF next.fetcher_id IS NOT NULL THEN
                valid_paths := valid_paths || next.path;
                IF NOT is_cut AND first_slots[place] <= last_slots[place] AND cardinality(chosen_paths) < wanted - given
                    AND NOT next.path = ANY (chosen_paths) THEN
                    chosen_slots := chosen_slots || slots[first_slots[place]];
                    first_slots[place] := first_slots[place] + 1;
                    chosen_paths := chosen_paths || next.path;
                    chosen_classes := chosen_classes || next.class;
                    chosen_fetchers := chosen_fetchers || next.fetcher_id;
                END IF;
            END IF;
            -- Rows of this class that were not read come before those of other classes.
            is_cut := is_cut OR next.is_last AND first_slots[place] <= last_slots[place];
        END LOOP;
        PERFORM raise_floors(free_classes, classes, keys, jitters, are_last,
            ARRAY(SELECT t.path = ANY (valid_paths) AND t.path <> ALL (chosen_paths) FROM unnest(paths) WITH ORDINALITY AS t (path, n) ORDER BY t.n));
        EXIT WHEN paths IS NULL;
        -- Not joined with the rows that were read: a plan that is made while `ready` has few rows would read all of it.
        DELETE FROM ready AS r
        WHERE r.attr_path = ANY (paths) AND ((r.attr_path, r.class) IN (
            SELECT c.path, c.class FROM unnest(paths, classes) AS c (path, class)
            WHERE c.path = ANY (chosen_paths) OR c.path <> ALL (valid_paths))) IS TRUE;
        GET DIAGNOSTICS dropped = ROW_COUNT;
        INSERT INTO in_flight AS f (attr_path, handout_id, started, fetcher_id, runs, class, had_log, previous_started,
                                    previous_finished, previous_exit_code, is_held, delivered)
        SELECT c.path, next_id + c.n - 1, at, c.fetcher, rows.runs, c.class,
            log.attr_path IS NOT NULL, log.started, log.finished, log.exit_code, true, 0
        FROM unnest(chosen_paths, chosen_classes, chosen_fetchers) WITH ORDINALITY AS c (path, class, fetcher, n)
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
            previous_exit_code = excluded.previous_exit_code, is_held = true, delivered = 0
            WHERE NOT f.is_held;
        GET DIAGNOSTICS taken = ROW_COUNT;
        -- Every candidate waits for a place, or another transaction changes what is left.
        EXIT WHEN taken + dropped = 0;
        IF taken > 0 AND free_classes <> ARRAY[0::smallint] THEN
            PERFORM use_slots(chosen_slots, next_id);
        END IF;
        given := given + taken;
        next_id := next_id + wanted;
    END LOOP;
    IF given = 0 THEN
        DELETE FROM bump AS b WHERE b.handout_id IS NULL AND NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[b.attr_path]));
        RETURN;
    END IF;
    UPDATE listing AS l SET is_dequeued = true FROM handed_out(first_id, last_id) AS f
    WHERE l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < (SELECT sum(cardinality(f.runs)) FROM handed_out(first_id, last_id) AS f) THEN
        PERFORM drop_removed(first_id, last_id);
    END IF;
    INSERT INTO log (attr_path, started)
    SELECT f.attr_path, at FROM handed_out(first_id, last_id) AS f
    ON CONFLICT (attr_path) DO UPDATE SET started = at, finished = NULL, exit_code = NULL;
    IF keeps_attempts THEN
        INSERT INTO attempt (started, handout_id, attr_path, fetcher, connection, previous_started, previous_finished, previous_exit_code)
        SELECT at, f.handout_id, f.attr_path, n.name, connections[row_number() OVER (ORDER BY f.handout_id)],
            f.previous_started, f.previous_finished, f.previous_exit_code
        FROM handed_out(first_id, last_id) AS f JOIN fetcher AS n USING (fetcher_id);
    END IF;
    DELETE FROM bump AS b USING handed_out(first_id, last_id) AS f
    WHERE b.attr_path = f.attr_path AND b.handout_id IS NOT NULL;
    UPDATE bump AS b SET handout_id = f.handout_id FROM handed_out(first_id, last_id) AS f
    WHERE b.attr_path = f.attr_path;
    -- Bumps of which nothing waits, before the last one that was looked for.
    DELETE FROM bump AS b WHERE b.handout_id IS NULL AND NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[b.attr_path]))
        AND ((SELECT count(*) FROM bump AS u WHERE u.handout_id BETWEEN first_id AND last_id) < wanted
             OR b.number < (SELECT max(u.number) FROM bump AS u WHERE u.handout_id BETWEEN first_id AND last_id));
    UPDATE offer AS o SET state = (o.fetcher_id = f.fetcher_id)::integer FROM handed_out(first_id, last_id) AS f
    WHERE o.attr_path = f.attr_path AND o.state < 2;
    FOR next IN
        SELECT f.handout_id, f.attr_path, p.payload
        FROM handed_out(first_id, last_id) AS f
            JOIN listing AS l ON l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id
                AND l.run_started = f.runs[1]
            JOIN payload AS p ON p.payload_id = l.payload_id
        ORDER BY f.handout_id
    LOOP
        -- The length is known without reading the payload.
        IF held > 0 AND held + octet_length(next.payload) > bytes_max THEN
            PERFORM undo_handouts(ARRAY(SELECT f.handout_id FROM handed_out(next.handout_id, last_id) AS f));
            RETURN QUERY SELECT NULL::bigint, NULL::text, NULL::text;
            RETURN;
        END IF;
        held := held + octet_length(next.payload);
        RETURN QUERY SELECT next.handout_id, next.attr_path, next.payload;
    END LOOP;
END
$$;

-- Undoes hand-outs of an incarnation, newest first; returns how many (CONTRACT QR27). After a DONE only their rows wait again.
CREATE OR REPLACE FUNCTION undo_handouts(ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
    known bigint[];
    open bigint[];
BEGIN
    SELECT array_agg(f.attr_path), array_agg(f.handout_id), array_agg(f.handout_id) FILTER (WHERE f.delivered >= 0) INTO paths, known, open FROM (
        SELECT f.attr_path, f.handout_id, f.delivered FROM in_flight AS f WHERE f.handout_id = ANY (ids) ORDER BY f.attr_path FOR UPDATE) AS f;
    IF paths IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE listing AS l SET is_dequeued = false FROM in_flight AS f
    WHERE f.handout_id = ANY (known) AND l.attr_path = f.attr_path AND l.fetcher_id = f.fetcher_id AND l.run_started = ANY (f.runs);
    DELETE FROM log USING in_flight AS f
    WHERE f.handout_id = ANY (open) AND NOT f.had_log AND log.attr_path = f.attr_path;
    UPDATE log SET started = f.previous_started, finished = f.previous_finished, exit_code = f.previous_exit_code
    FROM in_flight AS f WHERE f.handout_id = ANY (open) AND f.had_log AND log.attr_path = f.attr_path;
    DELETE FROM attempt AS a WHERE a.handout_id = ANY (open);
    UPDATE bump SET handout_id = NULL WHERE handout_id = ANY (known);
    UPDATE offer SET state = 0 WHERE attr_path = ANY (paths) AND state = 1;
    PERFORM free_slots(known);
    DELETE FROM in_flight AS f WHERE f.handout_id = ANY (known);
    PERFORM make_ready(paths);
    RETURN cardinality(known);
END
$$;

-- Records deliveries; returns the hand-outs that were not recorded before. A job that is handed out again after its hold, which is over
-- already, is left to `end_holds`.
CREATE OR REPLACE FUNCTION record_deliveries(ids bigint[], redeliver boolean) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE in_flight AS f SET delivered = CASE WHEN again.is_so THEN 1 ELSE 2 END, is_held = f.is_held OR again.is_so
        FROM fetcher AS n, LATERAL (SELECT redeliver OR strpos(n.name, '.') > 0 AS is_so) AS again
        WHERE f.handout_id = ANY (ids) AND f.delivered = 0 AND n.fetcher_id = f.fetcher_id
        RETURNING f.handout_id;
    RETURN QUERY DELETE FROM in_flight AS f WHERE f.handout_id = ANY (ids) AND f.delivered = -1 RETURNING f.handout_id;
END
$$;

-- Makes all rows of a path available, and ends its hold. Returns the changed rows, and whether it was in flight.
CREATE OR REPLACE FUNCTION requeue(path text, at bigint) RETURNS TABLE (changed bigint, was_in_flight boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    id bigint;
BEGIN
    SELECT f.handout_id INTO id FROM in_flight AS f WHERE f.attr_path = path FOR UPDATE;
    UPDATE listing AS l SET is_dequeued = false FROM run AS r
    WHERE l.attr_path = path AND l.is_dequeued
        AND r.fetcher_id = l.fetcher_id AND r.run_started = l.run_started AND NOT r.is_deleted;
    GET DIAGNOSTICS changed = ROW_COUNT;
    UPDATE log SET finished = at WHERE attr_path = path AND finished IS NULL;
    was_in_flight := FOUND;
    PERFORM free_slots(ARRAY[id]);
    DELETE FROM in_flight AS f WHERE f.attr_path = path;
    DELETE FROM bump AS b WHERE b.attr_path = path AND b.handout_id IS NOT NULL;
    UPDATE offer SET state = 0 WHERE attr_path = path AND state = 1;
    PERFORM make_ready(ARRAY[path]);
    RETURN NEXT;
END
$$;

-- Adds rows of a run, each path once, and replaces the payloads of known ones. Returns false if the run is not known.
CREATE OR REPLACE FUNCTION ingest(of_fetcher bigint, of_run bigint, paths text[], payloads text[], jitters integer[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    added text[];
BEGIN
    PERFORM 1 FROM run AS r WHERE r.fetcher_id = of_fetcher AND r.run_started = of_run AND NOT r.is_deleted FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Each path is looked up by itself (OFFSET 0): without statistics, the planner expects one row of the run and reads them all.
    UPDATE payload AS p SET payload = t.payload
    FROM unnest(paths, payloads) AS t (path, payload), LATERAL (
        SELECT l.payload_id FROM listing AS l
        WHERE l.attr_path = t.path AND l.fetcher_id = of_fetcher AND l.run_started = of_run OFFSET 0) AS l
    WHERE p.payload_id = l.payload_id AND p.payload <> t.payload;
    WITH new AS MATERIALIZED (
        SELECT t.path, t.payload, t.jitter, nextval('payload_payload_id_seq') AS payload_id
        FROM unnest(paths, payloads, jitters) AS t (path, payload, jitter)
        WHERE NOT EXISTS (SELECT 1 FROM listing AS l
                          WHERE l.attr_path = t.path AND l.fetcher_id = of_fetcher AND l.run_started = of_run OFFSET 0)
    ), stored AS (
        INSERT INTO payload (payload_id, payload) SELECT new.payload_id, new.payload FROM new
    ), listed AS (
        INSERT INTO listing (attr_path, fetcher_id, run_started, payload_id, order_jitter)
        SELECT new.path, of_fetcher, of_run, new.payload_id, new.jitter FROM new
        RETURNING attr_path
    )
    SELECT array_agg(listed.attr_path) INTO added FROM listed;
    IF added IS NOT NULL THEN
        PERFORM make_ready(added);
    END IF;
    RETURN true;
END
$$;

-- Removes up to `most` rows of a deleted run, and the run with its last row. Returns the number of removed rows.
CREATE OR REPLACE FUNCTION delete_rows(of_fetcher bigint, of_run bigint, most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
BEGIN
    paths := ARRAY(SELECT l.attr_path FROM listing AS l WHERE l.fetcher_id + 0 = of_fetcher AND l.run_started + 0 = of_run
                   ORDER BY l.attr_path LIMIT most);
    WITH gone AS (
        DELETE FROM listing AS l WHERE l.attr_path = ANY (paths) AND l.fetcher_id = of_fetcher AND l.run_started = of_run
        RETURNING l.attr_path, l.payload_id
    ), emptied AS (
        DELETE FROM payload AS p USING gone WHERE p.payload_id = gone.payload_id
    )
    SELECT array_agg(gone.attr_path) INTO paths FROM gone;
    IF paths IS NOT NULL THEN
        PERFORM make_ready(paths);
        PERFORM drop_ready(paths);
        RETURN cardinality(paths);
    END IF;
    DELETE FROM run AS r WHERE r.fetcher_id = of_fetcher AND r.run_started = of_run;
    DELETE FROM fetcher AS f WHERE f.fetcher_id = of_fetcher AND NOT EXISTS (SELECT 1 FROM run AS r WHERE r.fetcher_id = of_fetcher);
    RETURN 0;
END
$$;

-- Adds a job of another subsystem under a claim (CONTRACT QO12). Returns its end, if it is known.
CREATE OR REPLACE FUNCTION offer_job(of_instance text, owner text, path text, jitter integer, of_payload text, of_claim text, at bigint)
RETURNS TABLE (exit_code bigint, seconds bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    of_fetcher bigint;
    known offer%ROWTYPE;
BEGIN
    SELECT f.fetcher_id INTO of_fetcher FROM fetcher AS f WHERE f.name = owner AND f.instance = of_instance;
    IF NOT FOUND THEN
        INSERT INTO fetcher (name, instance) VALUES (owner, of_instance) RETURNING fetcher_id INTO of_fetcher;
    END IF;
    INSERT INTO run (fetcher_id, run_started, is_complete, added) VALUES (of_fetcher, 0, true, at) ON CONFLICT DO NOTHING;
    SELECT o.* INTO known FROM offer AS o WHERE o.attr_path = path AND o.fetcher_id = of_fetcher AND o.claim = of_claim FOR UPDATE;
    IF FOUND AND known.state = 2 THEN
        RETURN QUERY SELECT known.exit_code, known.seconds;
        RETURN;
    END IF;
    IF FOUND AND EXISTS (SELECT 1 FROM listing AS l WHERE l.attr_path = path AND l.fetcher_id = of_fetcher AND l.run_started = 0) THEN
        RETURN;
    END IF;
    UPDATE listing AS l SET is_dequeued = false WHERE l.attr_path = path AND l.fetcher_id = of_fetcher AND l.run_started = 0;
    PERFORM ingest(of_fetcher, 0, ARRAY[path], ARRAY[of_payload], ARRAY[jitter]);
    PERFORM make_ready(ARRAY[path]);
    INSERT INTO offer (attr_path, fetcher_id, claim) VALUES (path, of_fetcher, of_claim)
    ON CONFLICT (attr_path, fetcher_id) DO UPDATE SET claim = of_claim, state = 0, exit_code = NULL, seconds = NULL, finished = NULL;
END
$$;

-- Removes a job of another subsystem. Returns false if it is not known under its claim.
CREATE OR REPLACE FUNCTION withdraw_job(of_instance text, owner text, path text, of_claim text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    of_fetcher bigint;
BEGIN
    DELETE FROM offer AS o USING fetcher AS f
    WHERE f.name = owner AND f.instance = of_instance AND o.fetcher_id = f.fetcher_id AND o.attr_path = path AND o.claim = of_claim
    RETURNING o.fetcher_id INTO of_fetcher;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM remove_offered(path, of_fetcher);
    RETURN true;
END
$$;

-- Removes the jobs of an instance's other subsystems that wait, and ends that nobody asked for since `before`.
CREATE OR REPLACE FUNCTION withdraw_waiting(of_instance text, before bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    waiting record;
    removed bigint := 0;
BEGIN
    DELETE FROM offer AS o USING fetcher AS f
    WHERE f.instance = of_instance AND o.fetcher_id = f.fetcher_id AND o.state = 2 AND o.finished < before;
    FOR waiting IN
        DELETE FROM offer AS o USING fetcher AS f
        WHERE f.instance = of_instance AND o.fetcher_id = f.fetcher_id AND o.state = 0
        RETURNING o.attr_path, o.fetcher_id
    LOOP
        PERFORM remove_offered(waiting.attr_path, waiting.fetcher_id);
        removed := removed + 1;
    END LOOP;
    RETURN removed;
END
$$;

-- Puts a path before all others for its next hand-out, behind those bumped before. At most `most` paths wait.
CREATE OR REPLACE FUNCTION bump_path(path text, most bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE bump IN SHARE ROW EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[path])) THEN
        RETURN 'nothing waits';
    ELSIF EXISTS (SELECT 1 FROM bump AS b WHERE b.attr_path = path AND b.handout_id IS NULL) THEN
        RETURN 'done';
    ELSIF (SELECT count(*) FROM bump AS b WHERE b.handout_id IS NULL) >= most THEN
        RETURN 'too many';
    END IF;
    DELETE FROM bump AS b WHERE b.attr_path = path;
    INSERT INTO bump (attr_path) VALUES (path);
    RETURN 'done';
END
$$;

-- Replaces the limits, and counts the jobs in flight against them.
CREATE OR REPLACE FUNCTION set_limits(attrs text[], fetchers text[], numbers integer[]) RETURNS void LANGUAGE sql AS $$
    DELETE FROM limit_rule;
    INSERT INTO limit_rule (class, attr_like, fetcher_like, in_flight)
    SELECT t.n, t.attr_like, t.fetcher_like, t.in_flight
    FROM unnest(attrs, fetchers, numbers) WITH ORDINALITY AS t (attr_like, fetcher_like, in_flight, n);
    UPDATE in_flight AS f SET class = c.class
    FROM in_flight AS o JOIN fetcher AS n USING (fetcher_id), LATERAL class_of(o.attr_path, n.name) AS c
    WHERE f.attr_path = o.attr_path AND f.is_held AND f.class <> c.class;
    UPDATE limit_rule AS l SET excess = greatest(used.slots - l.in_flight, 0)
    FROM (SELECT f.class, count(*) AS slots FROM in_flight AS f GROUP BY f.class) AS used
    WHERE used.class = l.class;
    DELETE FROM slot;
    SELECT set_config('orchestrator.freed', '', true);
    INSERT INTO slot (class)
    SELECT l.class FROM limit_rule AS l, LATERAL generate_series(
        1, l.in_flight - (SELECT count(*) FROM in_flight AS f WHERE f.class = l.class));
$$;

-- Computes the classes of the next `most` waiting paths behind `after` again. Returns the last of them.
CREATE OR REPLACE FUNCTION reclass(after text, most integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    paths text[];
BEGIN
    SELECT array_agg(p.attr_path) INTO paths FROM (
        SELECT DISTINCT r.attr_path FROM ready AS r WHERE r.attr_path > after ORDER BY r.attr_path LIMIT most) AS p;
    IF paths IS NOT NULL THEN
        PERFORM make_ready(paths);
        PERFORM drop_ready(paths);
    END IF;
    RETURN paths[cardinality(paths)];
END
$$;

-- Renews the lease of an instance's process, and ends those of others that are over: hand-outs without a recorded delivery are undone, and
-- the instance's process cannot begin another transaction. Returns the instances whose leases ended.
CREATE OR REPLACE FUNCTION renew_lease(name text, of_incarnation bigint, lease interval) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    over record;
BEGIN
    UPDATE instance AS i SET lease_until = clock_timestamp() + lease WHERE i.instance = name AND i.incarnation = of_incarnation;
    FOR over IN
        SELECT i.instance, i.incarnation FROM instance AS i
        WHERE i.instance <> name AND i.incarnation > 0 AND i.lease_until < clock_timestamp()
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM undo_handouts(undelivered(over.instance));
        -- No process has this incarnation.
        UPDATE instance AS i SET incarnation = -i.incarnation WHERE i.instance = over.instance;
        RETURN NEXT over.instance;
    END LOOP;
    PERFORM before_commit();
END
$$;

-- Tells whether hand-outs are paused. The property `paused` has the end of the pause in milliseconds, or nothing.
CREATE OR REPLACE FUNCTION is_paused() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM property AS p WHERE p.name = 'paused'
                   AND (p.value = '' OR p.value::numeric > extract(epoch FROM clock_timestamp()) * 1000));
END
$$;

-- Makes the partitions of attempts for the day of `at` and the next one, and drops the oldest ones of which no row is among the newest
-- `most`. Does nothing while another instance does it.
CREATE OR REPLACE FUNCTION keep_attempts(at bigint, most bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    day bigint := at / 86400 * 86400;
    kept bigint := 0;
    rows bigint;
    part record;
BEGIN
    PERFORM 1 FROM property AS p WHERE p.name = 'version' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH day IN ARRAY ARRAY[day, day + 86400] LOOP
        IF to_regclass(format('attempt_%s', day)) IS NULL THEN
            -- Attempts that came before their partition are moved.
            LOCK TABLE attempt_other IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('CREATE TABLE attempt_%s (LIKE attempt)', day);
            EXECUTE format('WITH moved AS (DELETE FROM attempt_other WHERE started >= %s AND started < %s RETURNING *)
                            INSERT INTO attempt_%s SELECT * FROM moved', day, day + 86400, day);
            EXECUTE format('ALTER TABLE attempt ATTACH PARTITION attempt_%s FOR VALUES FROM (%s) TO (%s)', day, day, day + 86400);
        END IF;
    END LOOP;
    FOR part IN
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempt'::regclass AND c.relname ~ '^attempt_\d+$'
        ORDER BY substr(c.relname, 9)::bigint DESC
    LOOP
        IF kept >= most AND substr(part.relname, 9)::bigint < at / 86400 * 86400 THEN
            EXECUTE format('DROP TABLE %I', part.relname);
        ELSE
            EXECUTE format('SELECT count(*) FROM %I', part.relname) INTO rows;
            kept := kept + rows;
        END IF;
    END LOOP;
END
$$;
