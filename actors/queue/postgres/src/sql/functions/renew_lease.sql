-- Leases of instances.
--
-- Locks the row of its own instance, then the rows of instances whose leases are over, and skips those that others have locked; for each of
-- them the rows that `undo_handouts` locks. `undelivered` finds hand-outs by ranges of their numbers, without a read of all of `in_flight`.

-- Hand-outs of an instance without a recorded delivery.
CREATE OR REPLACE FUNCTION undelivered(of_instance text) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(f.handout_id) FROM incarnation AS i
        JOIN in_flight AS f ON f.handout_id >= i.incarnation << 32 AND f.handout_id < (i.incarnation + 1) << 32
    WHERE i.instance = of_instance AND f.delivered <= $pending
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
