-- Fetchers that move to another instance.
--
-- Locks the row of the former instance (FOR UPDATE), which waits for its open transaction, then that of the fetcher, then that of `property`.

-- Moves a fetcher of files to an instance, and counts the move. Returns the instance that had it; nothing if none had. Waits for the end
-- of that instance's open transaction, so that each of its transactions sees one owner.
CREATE OR REPLACE FUNCTION adopt_fetcher(of_instance text, fetcher_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    former text;
BEGIN
    SELECT f.instance INTO former FROM fetcher AS f WHERE f.name = fetcher_name AND strpos(f.name, '.') = 0;
    PERFORM 1 FROM instance AS i WHERE i.instance = former AND former <> of_instance FOR UPDATE;
    UPDATE fetcher AS f SET instance = of_instance WHERE f.name = fetcher_name AND f.instance = former;
    INSERT INTO property AS p (name, value) VALUES ('moves', '1')
    ON CONFLICT (name) DO UPDATE SET value = (p.value::bigint + 1)::text;
    RETURN former;
END
$$;
