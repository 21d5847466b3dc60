-- Adds rows with their payloads.
WITH new AS MATERIALIZED (
    SELECT t.*, nextval(pg_get_serial_sequence('payload', 'payload_id')) AS payload_id FROM {from}
), stored AS (
    INSERT INTO payload (payload_id, payload) SELECT payload_id, payload FROM new
)
INSERT INTO listing (attr_path, fetcher_id, run_started, payload_id, order_jitter, is_dequeued)
SELECT attr_path, fetcher_id, run_started, payload_id, order_jitter::integer, is_dequeued <> 0 FROM new
