-- Choice of jobs among rows of `ready` that are locked.
--
-- Locks nothing. One statement reads the groups of all paths; the loop over them has no statement of its own, so that a row costs little.

-- Chooses up to `wanted` jobs among rows of `ready`, given by paths and classes in the order of hand-outs. Each job needs a slot: those of the
-- class at an index of `free_classes` are in `slots`, from `first_slots` to `last_slots` at that index. Paths are valid if they wait and are not
-- held.
CREATE OR REPLACE FUNCTION choose_jobs(wanted integer, free_classes smallint[], slots bigint[], first_slots integer[], last_slots integer[],
    paths text[], classes smallint[], are_last boolean[],
    OUT valid_paths text[], OUT chosen_paths text[], OUT chosen_classes smallint[], OUT chosen_fetchers bigint[], OUT chosen_slots bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    class_index integer;
    is_cut boolean := false;
    next record;
BEGIN
    valid_paths := '{}';
    chosen_paths := '{}';
    chosen_classes := '{}';
    chosen_fetchers := '{}';
    chosen_slots := '{}';
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
        class_index := array_position(free_classes, next.class);
        IF next.fetcher_id IS NOT NULL THEN
            valid_paths := valid_paths || next.path;
            IF NOT is_cut AND first_slots[class_index] <= last_slots[class_index] AND cardinality(chosen_paths) < wanted
                AND NOT next.path = ANY (chosen_paths) THEN
                chosen_slots := chosen_slots || slots[first_slots[class_index]];
                first_slots[class_index] := first_slots[class_index] + 1;
                chosen_paths := chosen_paths || next.path;
                chosen_classes := chosen_classes || next.class;
                chosen_fetchers := chosen_fetchers || next.fetcher_id;
            END IF;
        END IF;
        -- Rows of this class that were not read come before those of other classes.
        is_cut := is_cut OR next.is_last AND first_slots[class_index] <= last_slots[class_index];
    END LOOP;
END
$$;
