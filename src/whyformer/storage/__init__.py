"""Where runs are kept: a folder on this machine, or any fsspec URL such as s3:// or gs://."""

from whyformer.storage.atomic_write import write_atomically
from whyformer.storage.ledger import Ledger
from whyformer.storage.run_folder import RunFolder, StoreError, is_url, open_folder

__all__ = ["Ledger", "RunFolder", "StoreError", "is_url", "open_folder", "write_atomically"]
