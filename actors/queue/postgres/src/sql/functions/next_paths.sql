-- First rows of `ready` in the order of hand-outs.
--
-- Locks rows of `bump` that wait, and then rows of `ready` in the order of the index `ready_order`, class by class; skips those that others
-- have locked, so that instances hand out side by side. The first scan
-- reads at most as many rows of `ready` as jobs are wanted, and one for each class.

-- Number of rows of `ready` that a hand-out reads of each class, so that it finds the first `wanted` in the order of all: those among them
-- that get a slot, and the row behind them.
CREATE OR REPLACE FUNCTION rows_to_read(classes smallint[], slots integer[], wanted integer) RETURNS integer[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    most integer[] := array_fill(1, ARRAY[cardinality(classes)]);
    class_index integer;
BEGIN
    IF cardinality(classes) = 1 THEN
        RETURN ARRAY[wanted];
    END IF;
    FOR class_index IN
        SELECT t.n
        FROM unnest(classes, slots) WITH ORDINALITY AS t (class, slots, n),
            LATERAL (SELECT scan_start_of(t.class) AS key) AS scan_start,
            LATERAL (
                SELECT r.started_key, r.order_jitter, r.attr_path FROM ready AS r
                WHERE r.class = t.class AND (r.started_key, r.order_jitter) >= (scan_start.key[1], scan_start.key[2]::integer)
                ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT least(t.slots, wanted)) AS w
        ORDER BY w.started_key, w.order_jitter, w.attr_path LIMIT wanted
    LOOP
        most[class_index] := most[class_index] + 1;
    END LOOP;
    RETURN most;
END
$$;

-- First rows of `ready` from the scan starts in the order of hand-outs, at most `most` of each class, locked; bumped paths first. Without a key if
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
            FROM (SELECT o.class, o.most, scan_start_of(o.class) AS scan_start FROM unnest(classes, most) AS o (class, most)) AS open, LATERAL (
                SELECT r.* FROM ready AS r
                WHERE r.class = open.class AND (r.started_key, r.order_jitter) >= (open.scan_start[1], open.scan_start[2]::integer)
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
