-- Numbers the first `$1` failures that have no number.
--
-- Locks these rows. The caller has locked the row `version` of `property`, so that one transaction at a time gives numbers. The index
-- `failure_unnumbered` gives the first ones.
WITH next AS MATERIALIZED (
    SELECT o.entered, nextval('failure_number') AS number
    FROM (SELECT entered FROM failure WHERE number IS NULL ORDER BY entered LIMIT $1) AS o)
UPDATE failure AS f SET number = n.number FROM next AS n WHERE f.entered = n.entered
