-- Slots: the rows of `slot` that jobs with a limit need.
--
-- `lock_slots` locks the first rows of `slot` of each class in the order of their numbers, and skips those that others have locked, so that
-- it waits for nobody. `free_slots` locks rows of `limit_rule` of limits that were lowered, in the order of classes; its callers have locked
-- the rows of `in_flight`. Slots that a transaction frees and uses again are a number in a setting and are never written.

-- Slots of each class that this transaction has freed and not used again.
CREATE OR REPLACE FUNCTION freed_slots() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('orchestrator.freed', true), '')::integer[], '{}')
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

-- Free slots of all classes, at most `wanted` of each, locked, one class after the other; and for each class that has one, the indices of its
-- first and last one, and their number. Those that this transaction has freed, and those of jobs without a limit, have no number.
CREATE OR REPLACE FUNCTION lock_slots(wanted integer,
    OUT free_classes smallint[], OUT slots bigint[], OUT first_slots integer[], OUT last_slots integer[], OUT most_slots integer[])
LANGUAGE plpgsql AS $$
DECLARE
    freed integer[] := freed_slots();
    next record;
BEGIN
    free_classes := ARRAY[0::smallint];
    slots := array_fill(NULL::bigint, ARRAY[wanted]);
    first_slots := ARRAY[1];
    last_slots := ARRAY[wanted];
    most_slots := ARRAY[wanted];
    FOR next IN
        SELECT l.class, array_fill(NULL::bigint, ARRAY[own.slots]) || ARRAY(
            SELECT s.number FROM slot AS s WHERE s.class = l.class AND s.number >= slot_scan_start_of(l.class)
            ORDER BY s.number LIMIT wanted - own.slots FOR UPDATE SKIP LOCKED) AS slots
        FROM limit_rule AS l, LATERAL (SELECT least(coalesce(freed[l.class], 0), wanted) AS slots) AS own
    LOOP
        CONTINUE WHEN cardinality(next.slots) = 0;
        free_classes := free_classes || next.class;
        first_slots := first_slots || cardinality(slots) + 1;
        slots := slots || next.slots;
        last_slots := last_slots || cardinality(slots);
        most_slots := most_slots || cardinality(next.slots);
    END LOOP;
END
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
