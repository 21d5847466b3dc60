-- Owner of an instance: one process at a time.
--
-- Locks the row of the instance (FOR UPDATE), which waits for the open transaction of the process that had it. Nobody waits for the
-- advisory lock of the instance. `take_instance` locks the rows of its
-- program and functions last.

-- Tries to get the advisory lock of an instance for this session.
CREATE OR REPLACE FUNCTION lock_instance(name text) RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_try_advisory_lock(hashtextextended('$schema/' || name, 0))
$$;

-- Takes an instance for a new process and returns its incarnation, unless another process has it: its lease is not
-- over, and it may have a session.
CREATE OR REPLACE FUNCTION take_instance(name text, of_host text, of_socket text, lease interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known instance%ROWTYPE;
    next_incarnation bigint := nextval('incarnation_number');
    has_lock boolean := lock_instance(name);
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
    INSERT INTO program (instance, incarnation, functions) VALUES (name, next_incarnation, current_schema())
    ON CONFLICT (instance) DO UPDATE SET incarnation = excluded.incarnation, functions = excluded.functions;
    UPDATE function_schema AS f SET used = clock_timestamp() WHERE f.name = current_schema();
    DELETE FROM incarnation AS i WHERE i.instance = name AND i.incarnation <> next_incarnation AND NOT EXISTS (
        SELECT 1 FROM in_flight AS f WHERE f.handout_id >= i.incarnation << 32 AND f.handout_id < (i.incarnation + 1) << 32);
    RETURN next_incarnation;
END
$$;

-- Keeps an instance for another session of its process, after the end of each transaction of the former one.
CREATE OR REPLACE FUNCTION keep_instance(name text, of_incarnation bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    has_lock boolean;
BEGIN
    PERFORM 1 FROM instance AS i WHERE i.instance = name FOR UPDATE;
    UPDATE instance AS i SET is_locked = lock_instance(name) WHERE i.instance = name AND i.incarnation = of_incarnation
    RETURNING i.is_locked INTO has_lock;
    RETURN coalesce(has_lock, false);
END
$$;
