-- Class of limits of a row. In place of the function `class_of`, which is too slow for many rows.
coalesce((
    SELECT class FROM limit_rule
    WHERE (attr_like IS NULL OR {attr_path} LIKE attr_like) AND (fetcher_like IS NULL OR {fetcher} LIKE fetcher_like)
    ORDER BY class LIMIT 1), 0::smallint)
