-- Paths that wait no longer.
--
-- Locks rows of `ready` in the order of paths and classes, and skips those that others have locked. Called after `make_ready`.

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
