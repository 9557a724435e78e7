# SPDX-License-Identifier: Apache-2.0
"""numpy's arrays in files, by torch alone."""
from __future__ import annotations

import ast
import ctypes
import pathlib

import torch

_KINDS = {torch.float32: "<f4", torch.int64: "<i8", torch.bool: "|b1"}


def save(tensor: torch.Tensor, file: pathlib.Path) -> None:
    tensor = tensor.detach().contiguous()
    header = str({"descr": _KINDS[tensor.dtype], "fortran_order": False, "shape": tuple(tensor.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
                     + ctypes.string_at(tensor.data_ptr(), tensor.nbytes))


def load(file: pathlib.Path) -> torch.Tensor:
    data = file.read_bytes()
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:begin].decode())
    dtype = next(dtype for dtype, kind in _KINDS.items() if kind == header["descr"])
    assert not header["fortran_order"]
    return torch.frombuffer(bytearray(data[begin:]), dtype=dtype).reshape(header["shape"])
