-- Paths that come before all others.
--
-- Locks the table `bump` (SHARE ROW EXCLUSIVE), so that one transaction at a time adds to it. Hand-outs write to `bump`, so they wait for its end.

-- Puts a path before all others for its next hand-out, behind those bumped before. At most `most` paths wait.
CREATE OR REPLACE FUNCTION bump_path(path text, most bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE bump IN SHARE ROW EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT 1 FROM ready_groups(ARRAY[path])) THEN
        RETURN 'nothing waits';
    ELSIF EXISTS (SELECT 1 FROM bump AS b WHERE b.attr_path = path AND b.handout_id IS NULL) THEN
        RETURN 'done';
    ELSIF (SELECT count(*) FROM bump AS b WHERE b.handout_id IS NULL) >= most THEN
        RETURN 'too many';
    END IF;
    DELETE FROM bump AS b WHERE b.attr_path = path;
    INSERT INTO bump (attr_path) VALUES (path);
    RETURN 'done';
END
$$;
