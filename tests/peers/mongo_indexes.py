"""Indexes for mongomock: a collection finds its documents by `_id` and by unique keys, where mongomock walks over all of them."""

import itertools

import bson
import mongomock.collection
import mongomock.store


class IndexedStore(mongomock.store.CollectionStore):
    """A collection's documents, found by `_id` and by each key of a unique index without a walk."""

    def __init__(self, name):
        super().__init__(name)
        self.ids_by = {}

    def create_index(self, index_name, index_dict):
        super().create_index(index_name, index_dict)
        if index_dict.get("unique") and len(index_dict["key"]) == 1:
            self.ids_by[index_dict["key"][0][0]] = {}
            self.index_again()

    def index_again(self):
        for field in self.ids_by:
            self.ids_by[field] = {}
        for key, document in self._documents.items():
            self.note(key, document)

    def note(self, key, document):
        for field, ids in self.ids_by.items():
            ids.setdefault(document.get(field), {})[key] = True

    def __setitem__(self, key, document):
        super().__setitem__(key, document)
        self.note(key, document)

    def __delitem__(self, key):
        super().__delitem__(key)
        self.index_again()

    def drop(self):
        super().drop()
        self.ids_by = {}

    def candidates(self, query):
        """A field of the query that an index has, and the documents that it finds; no field if there is none."""
        for field in ["_id", *self.ids_by]:
            wanted = query.get(field)
            if isinstance(wanted, dict):
                wanted = wanted["$in"] if list(wanted) == ["$in"] else None
            elif wanted is not None:
                wanted = [wanted]
            if wanted is None or not all(isinstance(value, (bytes, str, int, bson.ObjectId)) for value in wanted):
                continue
            ids = dict.fromkeys(wanted)
            if field != "_id":
                ids = itertools.chain.from_iterable(self.ids_by[field].get(value, ()) for value in ids)
            return field, [self._documents[key] for key in ids if key in self._documents]
        return None, []


def iter_documents(collection, query):
    field, found = collection._store.candidates(query)
    if field is None:
        return WALK(collection, query)
    # An `$in` would be gone through again for each document.
    rest = {key: value for key, value in query.items() if key != field}
    return (document for document in found if mongomock.collection.filter_applies(rest, document))


def install():
    """Collections made from now on have indexes."""
    mongomock.collection.Collection._iter_documents = iter_documents
    mongomock.store.CollectionStore = IndexedStore


WALK = mongomock.collection.Collection._iter_documents
