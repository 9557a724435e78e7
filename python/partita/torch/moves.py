# SPDX-License-Identifier: Apache-2.0
"""Moves: a tensor from one layout into another, as this rank takes part in it.

A layout says what each device holds (partita.TensorLayout). The value of an element is the sum over
the distinct summands of the parts that hold it; parts with equal positions and summand are replicas.
Every rank makes the same moves in the same order, so that their messages meet.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist

from partita import _core
from partita.torch import regions
from partita.torch.regions import Region, Window


class Part(NamedTuple):
    device: int
    region: Region
    summand: int


@dataclass(frozen=True)
class Layout:
    """What each device holds of a tensor."""

    parts: tuple[Part, ...]
    summands: int = 1
    combine: str = ""

    @staticmethod
    def of(layout: _core.TensorLayout) -> Layout:
        return Layout(
            tuple(Part(part.device, regions.region_of(part.dims), part.summand)
                  for part in layout.parts if part.holds), layout.summands, layout.combine)

    def turned(self) -> Layout:
        """Of the matrix turned over."""
        return Layout(tuple(part._replace(region=part.region[::-1]) for part in self.parts),
                      self.summands, self.combine)

    @staticmethod
    def everywhere(shape: tuple[int, ...], devices: int) -> Layout:
        """All of it on each device."""
        return Layout(tuple(Part(device, regions.whole(shape), 0) for device in range(devices)))

    def on(self, device: int) -> Part | None:
        for part in self.parts:
            if part.device == device:
                return part
        return None


class Groups:
    """Process groups by their ranks. All ranks ask for the same ones in the same order."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}

    def get(self, ranks: tuple[int, ...]) -> dist.ProcessGroup:
        if ranks not in self._groups:
            self._groups[ranks] = dist.new_group(list(ranks))
        return self._groups[ranks]


class _Piece(NamedTuple):
    """Of a move from one part into another."""

    source: Part
    target: Part
    region: Region


def _pieces(source: Layout, target: Layout) -> list[_Piece]:
    """What goes from where to where, in one order on all ranks."""
    pieces: list[_Piece] = []
    summands: dict[int, dict[Region, list[Part]]] = {}
    for part in source.parts:
        summands.setdefault(part.summand, {}).setdefault(part.region, []).append(part)
    for into in target.parts:
        # Of a target in summands the first has it all, and the others hold zeros.
        if into.summand != 0:
            continue
        for _, holders in sorted(summands.items()):
            for region, replicas in holders.items():
                common = regions.intersection(region, into.region)
                if common is None:
                    continue
                here = [part for part in replicas if part.device == into.device]
                # Replicas share the work.
                pieces.append(_Piece(here[0] if here else replicas[into.device % len(replicas)],
                                     into, common))
    return pieces


def _all_reduce_groups(source: Layout, target: Layout) -> list[tuple[int, ...]] | None:
    """Groups of devices that add up what each holds, where that is the whole move."""
    if source.summands == 1 or target.summands != 1 or source.combine != "sum":
        return None
    if [(part.device, part.region) for part in source.parts] != [
            (part.device, part.region) for part in target.parts]:
        return None
    by_region: dict[Region, list[Part]] = {}
    for part in source.parts:
        by_region.setdefault(part.region, []).append(part)
    for parts in by_region.values():
        if sorted(part.summand for part in parts) != list(range(source.summands)):
            return None
    return [tuple(sorted(part.device for part in parts)) for parts in by_region.values()]


class Move:
    """What rank `rank` does to turn `source` into `target`."""

    def __init__(self, source: Layout, target: Layout, rank: int, dtype: torch.dtype,
                 groups: Groups) -> None:
        if source.combine not in ("", "sum"):
            raise _core.InputError(
                f"parts that combine by {source.combine} cannot be moved by torch.distributed here. "
                "Plan without splits of that reduction (dims=\"S,O,A,P\").")
        self._rank = rank
        self._dtype = dtype
        mine_from, mine_to = source.on(rank), target.on(rank)
        self.is_source = mine_from is not None
        self.is_target = mine_to is not None
        self.is_identity = source == target
        self._group: dist.ProcessGroup | None = None
        self._target_shape = regions.shape_of(mine_to.region) if mine_to else ()
        reduced = None if self.is_identity else _all_reduce_groups(source, target)
        if reduced is not None:
            for ranks in reduced:
                group = groups.get(ranks)
                if rank in ranks:
                    self._group = group
            self.is_idle = self._group is None
            return
        pieces = [] if self.is_identity else _pieces(source, target)
        self._local: list[tuple[Window, Window]] = []
        self._sends: dict[int, list[Window]] = {}
        self._receives: dict[int, list[Window]] = {}
        filled = 0
        for piece in pieces:
            outgoing, incoming = piece.source.device == rank, piece.target.device == rank
            read = Window(piece.source.region, piece.region) if outgoing else None
            write = Window(piece.target.region, piece.region) if incoming else None
            if incoming:
                filled += regions.volume(piece.region)
            if read and write:
                self._local.append((read, write))
            elif read:
                self._sends.setdefault(piece.target.device, []).append(read)
            elif write:
                self._receives.setdefault(piece.source.device, []).append(write)
        # Where pieces neither overlap nor leave holes they are written, else added to zeros.
        self._adds = self.is_target and filled != regions.volume(mine_to.region)
        if source.summands > 1:
            self._adds = True
        self.is_idle = not self.is_identity and not (self.is_source or self.is_target)
        # One box that lies here already.
        self._is_view = (len(self._local) == 1 and not self._receives and not self._adds)

    def run(self, tensor: torch.Tensor | None, pending: list[dist.Work]) -> torch.Tensor | None:
        """`tensor`: what this rank holds of the source. What it holds of the target; sends that may
        still go on are added to `pending`."""
        if self.is_identity:
            return tensor
        if self._group is not None:
            summed = tensor.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(summed, group=self._group)
            return summed
        if self.is_idle:
            return None
        receiving = []
        for peer, windows in self._receives.items():
            size = sum(_elements(window) for window in windows)
            buffer = torch.empty(size, dtype=self._dtype)
            receiving.append((dist.irecv(buffer, peer), buffer, windows))
        for peer, windows in self._sends.items():
            buffer = torch.cat([window.read(tensor).reshape(-1) for window in windows])
            pending.append(_Send(dist.isend(buffer, peer), buffer))
        if not self.is_target:
            return None
        target = self.begun(tensor)
        for work, buffer, windows in receiving:
            work.wait()
            at = 0
            for window in windows:
                size = _elements(window)
                window.write(target, buffer[at:at + size].reshape(window.shape), self._adds)
                at += size
        return target

    def begun(self, tensor: torch.Tensor | None) -> torch.Tensor:
        """The target with what lies here already."""
        if self._is_view:
            return self._local[0][0].read(tensor)
        make = torch.zeros if self._adds else torch.empty
        target = make(self._target_shape, dtype=self._dtype)
        for read, write in self._local:
            write.write(target, read.read(tensor), self._adds)
        return target


class Moves:
    """Many moves at once: one message for each peer, one all-reduce for each group."""

    def __init__(self, moves: list[Move]) -> None:
        self.moves = moves
        self.is_idle = all(move.is_idle for move in moves)

    def run(self, tensors: list[torch.Tensor | None],
            pending: list[dist.Work]) -> list[torch.Tensor | None]:
        """As Move.run(), one for each move."""
        targets: list[torch.Tensor | None] = [None] * len(self.moves)
        self._all_reduce(tensors, targets)
        rest = [number for number, move in enumerate(self.moves)
                if move._group is None and not move.is_identity and not move.is_idle]
        for number, move in enumerate(self.moves):
            if move.is_identity:
                targets[number] = tensors[number]
        for dtype in dict.fromkeys(self.moves[number]._dtype for number in rest):
            alike = [number for number in rest if self.moves[number]._dtype == dtype]
            self._exchange(alike, dtype, tensors, targets, pending)
        return targets

    def _all_reduce(self, tensors: list[torch.Tensor | None],
                    targets: list[torch.Tensor | None]) -> None:
        buckets: dict[tuple, list[int]] = {}
        for number, move in enumerate(self.moves):
            if move._group is not None:
                buckets.setdefault((move._group, move._dtype), []).append(number)
        for (group, dtype), numbers in buckets.items():
            flat = torch.empty(sum(tensors[number].numel() for number in numbers), dtype=dtype)
            pieces = flat.split([tensors[number].numel() for number in numbers])
            for number, piece in zip(numbers, pieces, strict=True):
                targets[number] = piece.view(tensors[number].shape).copy_(tensors[number])
            dist.all_reduce(flat, group=group)

    def _exchange(self, numbers: list[int], dtype: torch.dtype, tensors: list[torch.Tensor | None],
                  targets: list[torch.Tensor | None], pending: list[dist.Work]) -> None:
        moves = self.moves
        incoming: dict[int, list[tuple[int, Window]]] = {}
        outgoing: dict[int, list[torch.Tensor]] = {}
        for number in numbers:
            for peer, windows in moves[number]._receives.items():
                incoming.setdefault(peer, []).extend((number, window) for window in windows)
            for peer, windows in moves[number]._sends.items():
                outgoing.setdefault(peer, []).extend(
                    window.read(tensors[number]).reshape(-1) for window in windows)
        receiving = []
        for peer, wanted in sorted(incoming.items()):
            buffer = torch.empty(sum(_elements(window) for _, window in wanted), dtype=dtype)
            receiving.append((dist.irecv(buffer, peer), buffer, wanted))
        for peer, parts in sorted(outgoing.items()):
            buffer = torch.cat(parts)
            pending.append(_Send(dist.isend(buffer, peer), buffer))
        for number in numbers:
            if moves[number].is_target:
                targets[number] = moves[number].begun(tensors[number])
        for work, buffer, wanted in receiving:
            work.wait()
            at = 0
            for number, window in wanted:
                size = _elements(window)
                window.write(targets[number], buffer[at:at + size].reshape(window.shape),
                             moves[number]._adds)
                at += size


class _Send(NamedTuple):
    """A send that goes on, and what keeps its memory."""

    work: dist.Work
    buffer: torch.Tensor

    def wait(self) -> None:
        self.work.wait()


def _elements(window: Window) -> int:
    size = 1
    for extent in window.shape:
        size *= extent
    return size
