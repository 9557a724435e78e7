# SPDX-License-Identifier: Apache-2.0
"""Random legal strategies of a model."""
from __future__ import annotations

import os
import random
import re

import partita


def draws(usual: int) -> int:
    """How many random cases to draw: tests/support/draws.h."""
    return max(1, usual * int(os.environ.get("PARTITA_TEST_DRAWS", "100")) // 100)


def _random_config(model: partita.Model, op: partita.OpPlan, devices: int,
                   generator: random.Random) -> partita.OpPlan:
    degrees: list[tuple[str, int]] = []
    parts = 1
    factors = [factor for factor in model.factors(op.name) if factor.splittable]
    for _ in range(generator.choice([0, 1, 1, 2])):
        degree = generator.choice([2, 2, devices])
        names = [factor.name for factor in factors
                 if factor.extent >= degree and factor.name not in dict(degrees)]
        if generator.random() < 0.15:
            names = ["*"]
        if parts * degree <= devices and names:
            degrees.append((generator.choice(names), degree))
            parts *= degree
    return partita.OpPlan(op.name, op.type, degrees, generator.sample(range(devices), parts),
                          recompute=op.recompute)


def random_plan(model: partita.Model, machine: partita.Machine, seed: int,
                **options: object) -> partita.Plan:
    """Each op is split and placed by chance; what is illegal stays whole."""
    generator = random.Random(seed)
    devices = machine.device_count
    start = partita.plan(model, machine, searcher="single-device", **options).plan.ops
    ops = [_random_config(model, op, devices, generator) for op in start]
    number = {op.name: index for index, op in enumerate(ops)}
    for _ in range(10 * len(ops)):
        try:
            return partita.price(model, machine, ops, **options)
        except partita.InputError as error:
            named = [name for name in re.findall(r"'([^']+)'", str(error)) if name in number]
            if not named:
                raise
            for name in named:
                at = number[name]
                ops[at] = partita.OpPlan(name, ops[at].type, [], [generator.randrange(devices)],
                                         recompute=ops[at].recompute)
    raise AssertionError("no legal strategy")
