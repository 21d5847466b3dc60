#!/usr/bin/env python3
"""State changes of the library deriva with a `row_transform_func` of FOLDER/my_agent.py, until none is left. For tests.

Usage: deriva_once.py URL FOLDER QUERY UPDATE     needs what deriva-requirements.txt beside this file pins
"""
import sys
from urllib.parse import urlsplit

from deriva.core.polling_ermrest_catalog import PollingErmrestCatalog


def run(url, folder, query, update):
    sys.path.insert(0, folder)
    from my_agent import row_transform_func

    parts = urlsplit(url)
    catalog = PollingErmrestCatalog(parts.scheme, parts.netloc, parts.path.rsplit("/", 1)[1])
    while catalog.state_change_once(query, update, row_transform_func, None)[1]:
        pass


if __name__ == "__main__":
    run(*sys.argv[1:])
