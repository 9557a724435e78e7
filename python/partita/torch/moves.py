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


class Piece(NamedTuple):
    """Pieces of a layout with equal region and summand are replicas."""

    device: int
    region: Region
    summand: int


@dataclass(frozen=True)
class Layout:
    """What each device holds of a tensor."""

    pieces: tuple[Piece, ...]
    summands: int = 1
    combine: str = ""

    @staticmethod
    def of(layout: _core.TensorLayout) -> Layout:
        return Layout(
            tuple(Piece(part.device, regions.region_of(part.dims), part.summand)
                  for part in layout.parts if part.holds), layout.summands, layout.combine)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor, of which some piece has the last position of each dim."""
        dims = zip(*(piece.region for piece in self.pieces), strict=True)
        return tuple(max((ranges[-1][1] for ranges in dim if ranges), default=0) for dim in dims)

    def turned(self) -> Layout:
        """Of the matrix turned over."""
        return Layout(tuple(piece._replace(region=piece.region[::-1]) for piece in self.pieces),
                      self.summands, self.combine)

    def everywhere(self, devices: int) -> Layout:
        """All of the tensor on each device."""
        return Layout(tuple(Piece(device, regions.whole(self.shape), 0)
                            for device in range(devices)))

    def on(self, device: int) -> Piece | None:
        for piece in self.pieces:
            if piece.device == device:
                return piece
        return None


class Groups:
    """Process groups by their ranks. All ranks ask for the same ones in the same order."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}

    def get(self, ranks: tuple[int, ...]) -> dist.ProcessGroup:
        if ranks not in self._groups:
            self._groups[ranks] = dist.new_group(list(ranks))
        return self._groups[ranks]


class _Transfer(NamedTuple):
    """What goes from one piece to another."""

    source: Piece
    target: Piece
    region: Region


def _transfers(source: Layout, target: Layout) -> list[_Transfer]:
    """What goes from where to where, in one order on all ranks."""
    transfers: list[_Transfer] = []
    summands: dict[int, dict[Region, list[Piece]]] = {}
    for piece in source.pieces:
        summands.setdefault(piece.summand, {}).setdefault(piece.region, []).append(piece)
    for into in target.pieces:
        # Of a target in summands the first has it all, and the others hold zeros.
        if into.summand != 0:
            continue
        for _, holders in sorted(summands.items()):
            for region, replicas in holders.items():
                common = regions.intersection(region, into.region)
                if common is None:
                    continue
                here = [piece for piece in replicas if piece.device == into.device]
                # Replicas share the work.
                transfers.append(_Transfer(here[0] if here else replicas[into.device % len(replicas)],
                                           into, common))
    return transfers


def _all_reduce_groups(source: Layout, target: Layout) -> list[tuple[int, ...]]:
    """Groups of devices that add up what each holds, where that is the whole move; else none."""
    if source.summands == 1 or target.summands != 1:
        return []
    if [(piece.device, piece.region) for piece in source.pieces] != [
            (piece.device, piece.region) for piece in target.pieces]:
        return []
    by_region: dict[Region, list[Piece]] = {}
    for piece in source.pieces:
        by_region.setdefault(piece.region, []).append(piece)
    for pieces in by_region.values():
        if sorted(piece.summand for piece in pieces) != list(range(source.summands)):
            return []
    return [tuple(sorted(piece.device for piece in pieces)) for pieces in by_region.values()]


class Move:
    """What rank `rank` does to turn `source` into `target`; Moves does it."""

    def __init__(self, name: str, source: Layout, target: Layout, rank: int, dtype: torch.dtype,
                 groups: Groups) -> None:
        if source.combine not in ("", "sum"):
            raise _core.InputError(
                f"'{name}': parts that combine by {source.combine} cannot be moved by torch.distributed "
                "here. Plan without splits of reductions (dims=\"S,O,A,P\").")
        self.dtype = dtype
        mine_from, mine_to = source.on(rank), target.on(rank)
        self.is_target = mine_to is not None
        self.is_identity = source == target
        self.group: dist.ProcessGroup | None = None
        self.local: list[tuple[Window, Window]] = []
        self.sends: dict[int, list[Window]] = {}
        self.receives: dict[int, list[Window]] = {}
        self._target_shape = regions.shape_of(mine_to.region) if mine_to else ()
        self.is_idle = mine_from is None and mine_to is None
        if self.is_identity:
            return
        reduced = _all_reduce_groups(source, target)
        for ranks in reduced:
            group = groups.get(ranks)
            if rank in ranks:
                self.group = group
        if reduced:
            return
        filled = self._plan(_transfers(source, target), rank)
        # Where pieces neither overlap nor leave holes they are written, else added to zeros.
        self.adds = source.summands > 1 or (
            mine_to is not None and filled != regions.volume(mine_to.region))

    def _plan(self, transfers: list[_Transfer], rank: int) -> int:
        """Elements that come to this rank."""
        filled = 0
        for transfer in transfers:
            outgoing, incoming = transfer.source.device == rank, transfer.target.device == rank
            read = Window(transfer.source.region, transfer.region) if outgoing else None
            write = Window(transfer.target.region, transfer.region) if incoming else None
            if incoming:
                filled += regions.volume(transfer.region)
            if read and write:
                self.local.append((read, write))
            elif read:
                self.sends.setdefault(transfer.target.device, []).append(read)
            elif write:
                self.receives.setdefault(transfer.source.device, []).append(write)
        return filled

    def begun(self, tensor: torch.Tensor | None) -> torch.Tensor:
        """The target with what lies here already."""
        if len(self.local) == 1 and not self.receives and not self.adds:
            return self.local[0][0].read(tensor)
        make = torch.zeros if self.adds else torch.empty
        target = make(self._target_shape, dtype=self.dtype)
        for read, write in self.local:
            write.write(target, read.read(tensor), self.adds)
        return target


class Moves:
    """Moves at one time: one message for each peer, one all-reduce for each group."""

    def __init__(self, moves: list[Move]) -> None:
        self.moves = moves
        self.is_idle = all(move.is_idle for move in moves)

    def run(self, tensors: list[torch.Tensor | None], pending: list[Send],
            tag: int = 0) -> list[torch.Tensor | None]:
        """`tensors`: what this rank holds of each source. What it holds of each target; sends that may
        still go on are added to `pending`. tag: of the messages, which meet those of the same one."""
        targets: list[torch.Tensor | None] = [None] * len(self.moves)
        reduced: dict[tuple, list[int]] = {}
        exchanged: dict[torch.dtype, list[int]] = {}
        for number, move in enumerate(self.moves):
            if move.is_identity:
                targets[number] = tensors[number]
            elif move.group is not None:
                reduced.setdefault((move.group, move.dtype), []).append(number)
            elif not move.is_idle:
                exchanged.setdefault(move.dtype, []).append(number)
        for (group, dtype), numbers in reduced.items():
            self._all_reduce(numbers, group, dtype, tensors, targets)
        for dtype, numbers in exchanged.items():
            self._exchange(numbers, dtype, tensors, targets, pending, tag)
        return targets

    @staticmethod
    def _all_reduce(numbers: list[int], group: dist.ProcessGroup, dtype: torch.dtype,
                    tensors: list[torch.Tensor | None],
                    targets: list[torch.Tensor | None]) -> None:
        sizes = [tensors[number].numel() for number in numbers]
        flat = torch.empty(sum(sizes), dtype=dtype)
        for number, piece in zip(numbers, flat.split(sizes), strict=True):
            targets[number] = piece.view(tensors[number].shape).copy_(tensors[number])
        dist.all_reduce(flat, group=group)

    def _exchange(self, numbers: list[int], dtype: torch.dtype, tensors: list[torch.Tensor | None],
                  targets: list[torch.Tensor | None], pending: list[Send], tag: int) -> None:
        incoming: dict[int, list[tuple[int, Window]]] = {}
        outgoing: dict[int, list[torch.Tensor]] = {}
        for number in numbers:
            for peer, windows in self.moves[number].receives.items():
                incoming.setdefault(peer, []).extend((number, window) for window in windows)
            for peer, windows in self.moves[number].sends.items():
                outgoing.setdefault(peer, []).extend(
                    window.read(tensors[number]).reshape(-1) for window in windows)
        receiving = []
        for peer, wanted in sorted(incoming.items()):
            buffer = torch.empty(sum(window.volume for _, window in wanted), dtype=dtype)
            receiving.append((dist.irecv(buffer, peer, tag=tag), buffer, wanted))
        for peer, parts in sorted(outgoing.items()):
            buffer = torch.cat(parts)
            pending.append(Send(dist.isend(buffer, peer, tag=tag), buffer))
        for number in numbers:
            if self.moves[number].is_target:
                targets[number] = self.moves[number].begun(tensors[number])
        for work, buffer, wanted in receiving:
            work.wait()
            pieces = buffer.split([window.volume for _, window in wanted])
            for (number, window), piece in zip(wanted, pieces, strict=True):
                window.write(targets[number], piece.view(window.shape), self.moves[number].adds)


class Send(NamedTuple):
    """A send that goes on, and what keeps its memory."""

    work: dist.Work
    buffer: torch.Tensor
