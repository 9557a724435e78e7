# SPDX-License-Identifier: Apache-2.0
"""Regions: which positions of a tensor a part holds.

A region is a tuple with, per dim, a tuple of ranges (begin, end): sorted, disjoint, nearly always one.
A holder stores them row by row, without the holes between them.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Range = tuple[int, int]
Dim = tuple[Range, ...]
Region = tuple[Dim, ...]


def region_of(dims: Sequence[Sequence[Range]]) -> Region:
    return tuple(tuple((int(begin), int(end)) for begin, end in dim) for dim in dims)


def whole(shape: Sequence[int]) -> Region:
    return tuple(((0, extent),) if extent else () for extent in shape)


def count(dim: Dim) -> int:
    return sum(end - begin for begin, end in dim)


def shape_of(region: Region) -> tuple[int, ...]:
    return tuple(count(dim) for dim in region)


def volume(region: Region) -> int:
    return math.prod(shape_of(region))


def _common(a: Dim, b: Dim) -> Dim:
    ranges = []
    for begin_a, end_a in a:
        for begin_b, end_b in b:
            begin, end = max(begin_a, begin_b), min(end_a, end_b)
            if begin < end:
                ranges.append((begin, end))
    return tuple(sorted(ranges))


def intersection(a: Region, b: Region) -> Region | None:
    """None where they have nothing in common."""
    dims = tuple(_common(x, y) for x, y in zip(a, b, strict=True))
    return dims if all(dims) else None


def _positions_within(outer: Dim, inner: Dim) -> slice | torch.Tensor:
    """Where the positions of `inner` lie in what a holder of `outer` stores."""
    places: list[tuple[int, int]] = []
    for begin, end in inner:
        stored = 0
        for begin_outer, end_outer in outer:
            if begin_outer <= begin < end_outer:
                first = stored + begin - begin_outer
                if places and places[-1][1] == first:
                    places[-1] = (places[-1][0], first + end - begin)
                else:
                    places.append((first, first + end - begin))
                break
            stored += end_outer - begin_outer
    if len(places) == 1:
        return slice(*places[0])
    return torch.cat([torch.arange(*place) for place in places])


class Window:
    """What `inner` is of a tensor that holds `outer`, which contains it."""

    def __init__(self, outer: Region, inner: Region) -> None:
        self.shape = shape_of(inner)
        self.volume = volume(inner)
        self._slices: list[slice] = []
        self._picks: list[tuple[int, torch.Tensor]] = []
        for number, (dim_outer, dim_inner) in enumerate(zip(outer, inner, strict=True)):
            place = _positions_within(dim_outer, dim_inner)
            if isinstance(place, slice):
                self._slices.append(place)
            else:
                self._slices.append(slice(None))
                self._picks.append((number, place))
        self.is_all = outer == inner

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view where it is a box, else a copy."""
        if self.is_all:
            return tensor
        part = tensor[tuple(self._slices)]
        for dim, places in self._picks:
            part = part.index_select(dim, places.to(part.device))
        return part

    def write(self, tensor: torch.Tensor, part: torch.Tensor, add: bool) -> None:
        """Writes, or adds, `part` there."""
        into = tensor[tuple(self._slices)]
        if not self._picks:
            if add:
                into.add_(part)
            else:
                into.copy_(part)
            return
        # Several dims may have holes: by the numbers of the elements.
        numbers = torch.arange(into.numel()).reshape(into.shape)
        for dim, places in self._picks:
            numbers = numbers.index_select(dim, places)
        at = numbers.reshape(-1).to(into.device)
        flat = into.reshape(-1).clone()
        flat[at] = flat[at] + part.reshape(-1) if add else part.reshape(-1)
        into.copy_(flat.reshape(into.shape))
