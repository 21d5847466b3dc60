-- First statement of each transaction of an instance.
--
-- Locks the row of the instance (FOR KEY SHARE), before all others. Transactions of one instance do not wait for each other; a process that
-- takes the instance waits for them.

-- Begins a transaction of an instance, or fails if another process has taken it. A transaction that takes the instance waits for the
-- end of this one.
CREATE OR REPLACE FUNCTION enter(name text, of_incarnation bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM instance AS i WHERE i.instance = name AND i.incarnation = of_incarnation FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the instance % is not the one that began', name USING ERRCODE = 'OQ001';
    END IF;
END
$$;
