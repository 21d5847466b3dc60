-- Jobs of other subsystems.
--
-- Locks the row of `offer` first, then rows of `listing` and `payload`, and those that `make_ready` or `drop_ready` lock.

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
