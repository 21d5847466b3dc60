"""Indexes for mongomock: a collection finds its documents by `_id`, in its order, and by unique keys. mongomock walks over all of them."""

import bisect
import itertools

import bson
import mongomock.collection
import mongomock.filtering
import mongomock.store


def order(key):
    """The place of an `_id` in an order, also among ids of other types."""
    return mongomock.filtering.resolve_sort_key("_id", {"_id": key})


class IndexedStore(mongomock.store.CollectionStore):
    """A collection's documents, found by `_id` and by each key of a unique index without a walk."""

    def __init__(self, name):
        super().__init__(name)
        self.ids_by = {}
        self.ordered = []

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
        if key not in self._documents:
            self.ordered = None
        super().__setitem__(key, document)
        self.note(key, document)

    def __delitem__(self, key):
        super().__delitem__(key)
        self.ordered = None
        self.index_again()

    def drop(self):
        super().drop()
        self.ids_by = {}
        self.ordered = []

    def from_id(self, bound):
        """The documents whose `_id` is in the bound, in its order."""
        if self.ordered is None:
            self.ordered = sorted(self._documents, key=order)
        begin = 0
        if isinstance(bound, dict) and "$gt" in bound:
            begin = bisect.bisect_right(self.ordered, order(bound["$gt"]), key=order)
        elif isinstance(bound, dict) and "$gte" in bound:
            begin = bisect.bisect_left(self.ordered, order(bound["$gte"]), key=order)
        keys = self.ordered
        ids = (keys[at] for at in range(begin, len(keys)))
        return (self._documents[key] for key in ids if key in self._documents)

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
    return (document for document in found if FITS(rest, document))


def find(collection, query, sort, fields):
    """The documents of a query. In the order of `_id`, each is read when it is taken, as a cursor does."""
    if list(sort.items()) != [("_id", 1)] or collection._store.candidates(query)[0]:
        return collection._get_dataset(query, sort, fields, dict)
    found = collection._store.from_id(query.get("_id"))
    return (collection._copy_only_fields(document, fields, dict) for document in found if FITS(query, document))


def install():
    """Collections made from now on have indexes."""
    mongomock.collection.Collection._iter_documents = iter_documents
    mongomock.store.CollectionStore = IndexedStore


FITS = mongomock.collection.filter_applies
WALK = mongomock.collection.Collection._iter_documents
