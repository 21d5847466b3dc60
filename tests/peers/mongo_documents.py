#!/usr/bin/env python3
"""Puts documents into a MongoDB and takes them out, with the client of Python: extended JSON, an array of documents.

Usage: mongo_documents.py URI DATABASE COLLECTION insert < ARRAY
       mongo_documents.py URI DATABASE COLLECTION find
"""

import sys

import pymongo
from bson import json_util

uri, database, name, verb = sys.argv[1:]
collection = pymongo.MongoClient(uri)[database][name]
if verb == "insert":
    collection.insert_many(json_util.loads(sys.stdin.read()))
else:
    documents = list(collection.find().sort("_id"))
    print(json_util.dumps(documents, json_options=json_util.RELAXED_JSON_OPTIONS))
