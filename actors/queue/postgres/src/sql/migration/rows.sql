-- Rows with their payloads, whose sizes end a batch.
--
-- Locks nothing. The index `listing_of_run` gives the rows in their order.
SELECT fetcher_id, run_started, attr_path, payload, order_jitter::bigint, is_dequeued::integer::bigint
FROM (
    SELECT l.*, p.payload, sum(octet_length(p.payload)) OVER (ORDER BY l.fetcher_id, l.run_started, l.attr_path)
        - octet_length(p.payload) AS before
    FROM (SELECT * FROM listing{behind} ORDER BY {keys} LIMIT {rows_max}) AS l
        JOIN run AS r USING (fetcher_id, run_started)
        JOIN payload AS p USING (payload_id)
) AS b
WHERE before < {bytes_max} ORDER BY fetcher_id, run_started, attr_path
