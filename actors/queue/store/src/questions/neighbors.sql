-- Up to 50 listed paths from `$1` on in their order, and up to 50 before. The index of the paths gives them.
SELECT * FROM (SELECT DISTINCT attr_path FROM listed WHERE attr_path >= $1 ORDER BY attr_path LIMIT 50) AS l
UNION ALL
SELECT * FROM (SELECT DISTINCT attr_path FROM listed WHERE attr_path < $1 ORDER BY attr_path DESC LIMIT 50) AS l
