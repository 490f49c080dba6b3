"""Tensors, tiles, threads and memory: the only package that knows where arrays live.

devices    where tensors live, and how work is launched there
memory     how much there is, and how large a problem it carries
cores      how many threads work
tiling     large matrices in tiles
tensors    numbers as tensors, and tensors through files
"""

from hgk.arrays.cores import single_blas, threads, threads_for
from hgk.arrays.devices import DEVICES, accelerated, device_of, on_device, recorded, recording, synchronise
from hgk.arrays.memory import (
    FACTORED,
    available_memory,
    counted_memory,
    exact_rows,
    gibibytes,
    in_loads,
    in_place,
    matrices_to_factor,
    require_bytes,
    require_memory,
)
from hgk.arrays.tensors import packed, row_products, tensor, unpacked
from hgk.arrays.tiling import Buffers, blocks, row_blocks, tiles, tiles_of_pairs
