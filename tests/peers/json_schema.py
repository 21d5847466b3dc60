"""Validates the JSON documents on standard input, one on each line, against the JSON Schema in the file argv[1].

Prints one line for each error. The schema itself has to be valid by the schema of draft 2020-12.
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

schema = json.loads(Path(sys.argv[1]).read_text())
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for line in sys.stdin:
    for error in validator.iter_errors(json.loads(line)):
        print(f"{error.json_path}: {error.message}")
