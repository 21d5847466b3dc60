-- First `$2` failures with numbers above `$1`. Reads only these, by their numbers, and the attempts of the seconds in which they were handed out.
SELECT number, attr_path, exit_code, started, finished, (
    SELECT a.fetcher FROM attempt AS a WHERE a.started = f.started AND a.attr_path = f.attr_path
    ORDER BY a.handout_id DESC LIMIT 1)
FROM failure AS f WHERE number > $1 ORDER BY number LIMIT $2
