# SPDX-License-Identifier: Apache-2.0
"""In which order a rank runs forward and backward of its micro-batches."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Turn(NamedTuple):
    is_forward: bool
    micro_batch: int


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


def turns(schedule: str, micro_batches: int, stage: int, stages: int) -> Iterator[Turn]:
    """GPipe runs all forwards first; 1F1B as many as there are stages behind (Narayanan et al., SOSP
    2019), eager-1f1b twice as many, then one of each (plan/strategy/pipeline_schedule.h). With one stage
    each forward is followed by its backward."""
    behind = stages - 1 - stage
    ahead = {"gpipe": micro_batches if stages > 1 else 0, "eager-1f1b": 2 * behind}.get(schedule, behind)
    ahead = min(micro_batches, ahead)
    for number in range(micro_batches + ahead):
        if number < micro_batches:
            yield Turn(True, number)
        if number >= ahead:
            yield Turn(False, number - ahead)
