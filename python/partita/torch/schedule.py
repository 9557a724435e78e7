# SPDX-License-Identifier: Apache-2.0
"""In which order a rank runs forward and backward of its micro-batches."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Turn(NamedTuple):
    is_forward: bool
    micro_batch: int
    chunk: int = 0


def stages_of(devices_of_ops: Iterable[Sequence[int]], count: int) -> list[int]:
    """The stage of each device: groups that share ops, numbered by the first op that each has. Ops in
    the order of the program; -1: a device without any."""
    group = list(range(count))

    def root(device: int) -> int:
        while group[device] != device:
            group[device] = device = group[group[device]]
        return device

    first: dict[int, int] = {}
    for number, devices in enumerate(devices_of_ops):
        for device in devices:
            first.setdefault(device, number)
            group[root(device)] = root(devices[0])
    begins: dict[int, int] = {}
    for device, number in first.items():
        begins[root(device)] = min(number, begins.get(root(device), number))
    numbers = {each: stage for stage, each in enumerate(sorted(begins, key=begins.get))}
    return [numbers[root(device)] if device in first else -1 for device in range(count)]


def passes_of(ops: Iterable[tuple[Sequence[str], Sequence[str], int]], stages: int) -> list[int]:
    """Of each op, given in the order of the program with its operands, results and stage: the stage, plus
    `stages` for each time that the data has passed all of them before."""
    made: dict[str, int] = {}
    passes = []
    for operands, results, stage in ops:
        earliest = max((made[name] for name in operands if name in made), default=0)
        passes.append(earliest + (stage - earliest) % stages)
        made.update(dict.fromkeys(results, passes[-1]))
    return passes


def turns(schedule: str, micro_batches: int, stage: int, stages: int, chunks: int = 1) -> Iterator[Turn]:
    """GPipe runs all forwards first; 1F1B as many as there are stages behind (Narayanan et al., SOSP
    2019), eager-1f1b twice as many, interleaved with as many more as the chunks but one have (Narayanan et
    al., SC 2021, section 2.2), then one of each (plan/strategy/pipeline_schedule.h). With one stage each
    forward is followed by its backward. Several chunks: micro-batches in groups as large as the pipeline,
    each group through all chunks before the next one starts."""
    count, behind = micro_batches * chunks, stages - 1 - stage
    ahead = {"gpipe": count if stages > 1 else 0, "eager-1f1b": 2 * behind,
             "interleaved": 2 * behind + (chunks - 1) * stages if chunks > 1 else behind}
    ahead = min(count, ahead.get(schedule, behind))

    def turn(is_forward: bool, number: int) -> Turn:
        group, within = divmod(number, stages * chunks)
        chunk, micro_batch = divmod(within, stages)
        return Turn(is_forward, group * stages + micro_batch, chunk if is_forward else chunks - 1 - chunk)

    for number in range(count + ahead):
        if number < count:
            yield turn(True, number)
        if number >= ahead:
            yield turn(False, number - ahead)
