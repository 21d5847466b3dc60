"""The last events of a debug worker. Usage: debugged.py PORT NUMBER. Prints them as JSON."""

import json
import pickle
import sys
from urllib.request import urlopen

from dumped import of_dranspose, record

with urlopen(f"http://127.0.0.1:{sys.argv[1]}/api/v1/last_events?number={sys.argv[2]}") as answer:
    print(json.dumps([record(*of_dranspose(event)) for event in pickle.load(answer)]))
