"""What the fuzzer feeds: readers, attributions, images, archives, models, command lines, HTTP."""

from __future__ import annotations

from tests.fuzz import (
    archives,
    attributions,
    command_lines,
    data_files,
    http_requests,
    model_folders,
    pictures,
)
from tests.fuzz.surface import Surface

SURFACES: dict[str, Surface] = {
    "attribution_bytes": Surface(attributions.make_bytes, attributions.read, 10),
    "attribution_facts": Surface(attributions.make_facts, attributions.read, 8),
    "attribution_similar": Surface(attributions.make_similar, attributions.read, 8),
    "dataset_file": Surface(data_files.make, data_files.read, 16),
    "dataset_similar": Surface(data_files.make_similar, data_files.read, 6),
    "parquet_file": Surface(data_files.make_parquet, data_files.read_parquet, 8),
    "mnist": Surface(archives.make_mnist, archives.read_mnist, 6),
    "tar": Surface(archives.make_tar, archives.read_tar, 6),
    "npz": Surface(archives.make_npz, archives.read_npz, 6),
    "image": Surface(pictures.make, pictures.read, 20),
    "index": Surface(model_folders.make_index, model_folders.read_index, 10),
    "model_folder": Surface(model_folders.make_folder, model_folders.read_folder, 1),
    "command_line": Surface(command_lines.make, command_lines.read, 1),
    "request_body": Surface(http_requests.make_body, http_requests.read_body, 10),
    "http_bytes": Surface(http_requests.make_bytes, http_requests.read_bytes, 10),
    "http_scope": Surface(http_requests.make_scope, http_requests.read_scope, 10),
}
