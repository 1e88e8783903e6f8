"""Objects in folders and buckets: get, list, put-if-absent, compare-and-swap, delete.

`open_store` takes a local path or a URL and gives a `Store`; nothing above this package knows which kind it has.
"""

from halocline.storage.base import AlreadyExistsError, ObjectMeta, Store
from halocline.storage.local import LocalStore
from halocline.storage.memory import MemoryStore
from halocline.storage.opening import open_store

__all__ = ["AlreadyExistsError", "LocalStore", "MemoryStore", "ObjectMeta", "Store", "open_store"]
