-- Pause of hand-outs.
--
-- Locks nothing, and reads one row by its key.

-- Tells whether hand-outs are paused. The property `paused` has the end of the pause in milliseconds, or nothing.
CREATE OR REPLACE FUNCTION is_paused() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM property AS p WHERE p.name = 'paused'
                   AND (p.value = '' OR p.value::numeric > extract(epoch FROM clock_timestamp()) * 1000));
END
$$;
