-- First `$2` failures with numbers above `$1`.
--
-- Locks nothing. The index `failure_by_number` gives them in order.
SELECT number, attr_path, exit_code, started, finished, (
    SELECT a.fetcher FROM attempt AS a WHERE a.started = f.started AND a.attr_path = f.attr_path
    ORDER BY a.handout_id DESC LIMIT 1)
FROM failure AS f WHERE number > $1 ORDER BY number LIMIT $2
