-- Scan starts: the positions in the order of `ready`, and among the slots, from which the hand-outs of a session read.
--
-- Locks nothing and reads no table but `limit_rule`. Rows that were taken stay in an index until a vacuum removes them; hand-outs that
-- begin behind them do not read them again.

-- The scan start of a class: the start of the last hand-out and the jitter from which hand-outs of this session read `ready`, since
-- they have taken those before. Kept in a setting of the session, which returns to its value if the transaction is rolled back.
CREATE OR REPLACE FUNCTION scan_start_of(class smallint) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.scan_start_' || class, true), '')::bigint[], '{-9223372036854775808,-2147483648}')
$$;

-- The number from which hand-outs of this session look for free slots of a class, kept like the other scan start.
CREATE OR REPLACE FUNCTION slot_scan_start_of(class smallint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.slots_' || class, true), '')::bigint, 0)
$$;

-- Lowers the scan start of each class to `key`, and with the smallest key those of the slots, too.
CREATE OR REPLACE FUNCTION lower_scan_starts(key bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('orchestrator.scan_start_' || c.class, key::text, false)
    FROM (SELECT 0::smallint AS class UNION ALL SELECT l.class FROM limit_rule AS l) AS c WHERE key < scan_start_of(c.class);
    IF key = '{-9223372036854775808,-2147483648}' THEN
        PERFORM set_config('orchestrator.slots_' || l.class, '0', false) FROM limit_rule AS l;
    END IF;
END
$$;

-- Sets the scan starts of `of_classes` after a hand-out has read rows of them in order: the first row that was left, or the last one if others may
-- follow it, or behind all rows. Rows of other transactions that end without a hand-out are found by the next full scan.
CREATE OR REPLACE FUNCTION raise_scan_starts(of_classes smallint[], classes smallint[], keys bigint[], jitters integer[], is_last boolean[], is_left boolean[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('orchestrator.scan_start_' || o.class, coalesce(
        min(ARRAY[t.key, t.jitter]) FILTER (WHERE t.is_left OR t.is_last),
        ARRAY[9223372036854775807, 2147483647])::text, false)
    FROM unnest(of_classes) AS o (class)
        LEFT JOIN unnest(classes, keys, jitters, is_last, is_left) AS t (class, key, jitter, is_last, is_left)
            ON t.class = o.class AND t.key IS NOT NULL
    GROUP BY o.class;
END
$$;
