# SPDX-License-Identifier: Apache-2.0
"""Plans torch modules, and runs the plans by stock PyTorch.

    import partita.torch

    planned = partita.torch.plan(module, (tokens, labels), machine="cpu:4")
    print(planned)                       # what the plan is, and what it takes
    parallel = planned.apply(module)     # under torchrun, one rank per device
    loss = parallel(tokens, labels)
    loss.backward()

The module is traced by torch.export with the given arguments; the plan is for their shapes.
"""
from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as _dist
import torch.utils._pytree as pytree
from torch import nn as _nn

import partita
from partita.torch import messages
from partita.torch.capture import Captured, autocasting, capture
from partita.torch.comparison import Measured, as_table, measure
from partita.torch.parallel import ParallelModule

__all__ = ["Captured", "Measured", "ParallelModule", "Planned", "as_table", "capture", "import_trace",
           "load", "plan", "price", "profile"]


class Planned:
    """A module, the machine it was planned for, and the plan."""

    def __init__(self, captured: Captured, model: partita.Model, machine: partita.Machine,
                 plan: partita.Plan, result: partita.SearchResult | None) -> None:
        self.captured = captured
        self.model = model
        self.machine = machine
        self.plan = plan
        self.result = result  # None: the plan was given, not found

    def apply(self, module: _nn.Module) -> ParallelModule:
        """The module by parts, with its values as they are now, which must be the same on all ranks.
        The default process group has one rank per device of the machine, in their order.

        Raises UsageError for another number of ranks, MismatchError for another module, InputError
        for what of the plan torch cannot do.
        """
        if not _dist.is_initialized():
            raise partita.UsageError("there is no process group. Start with torchrun, and call "
                                     "torch.distributed.init_process_group() first.")
        _check_same_plan(self.plan)
        return ParallelModule(self.captured, self.model, self.plan, module)

    def save_onnx(self, module: _nn.Module, file: str | os.PathLike) -> None:
        """The module as it is planned, with its values as they are now (beside it, as FILE.data): with the
        plan saved (`plan.save()`), `partita execute plan.json FILE` runs it without torch's interpreter.
        Weights of linear layers are turned, the loss is left unreduced, dropout draws other numbers.
        """
        self.captured.graph.save_onnx(file, self.captured.values(module))

    def compare_with(self, module: _nn.Module, args: tuple, ways: Any = ("ddp", "fsdp"),
                     steps: int = 8) -> list[Measured]:
        """Measures the plan and what people do by hand, side by side (comparison.measure());
        as_table() prints the rows."""
        return measure(self, module, args, ways, steps)

    def __repr__(self) -> str:
        return f"{self.plan!r}\n{self.plan.description(self.model)}"


def _check_same_plan(plan: partita.Plan) -> None:
    """Ranks with different plans would wait for each other for ever."""
    digest = torch.frombuffer(bytearray(hashlib.sha256(plan.json().encode()).digest()),
                              dtype=torch.uint8)
    digests = [torch.empty_like(digest) for _ in range(_dist.get_world_size())]
    _dist.all_gather(digests, digest)
    for rank, other in enumerate(digests):
        if not torch.equal(other, digests[0]):
            raise partita.MismatchError(
                f"rank {rank} has another plan than rank 0. Let plan() run after "
                "init_process_group(), which makes one plan for all, or load one file everywhere.")


def _of_rank_0(text: str) -> str:
    """What rank 0 says, on all of them. Not by torch's collectives of objects, which need NumPy."""
    data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    size = torch.tensor([len(data)])
    _dist.broadcast(size, 0)
    if _dist.get_rank() != 0:
        data = torch.empty(int(size), dtype=torch.uint8)
    _dist.broadcast(data, 0)
    return bytes(data.tolist()).decode()


def _options(captured: Captured, options: dict[str, Any]) -> dict[str, Any]:
    options = dict(options)
    options.setdefault("mode", "training")
    if options["mode"] == "training" and captured.updates and len(captured.results) == 1:
        # What buffers become is a result, but no loss.
        options.setdefault("loss", f"sum:{captured.results[0].name}")
    frozen = [name for name in captured.parameters if name not in captured.trained]
    if frozen and options["mode"] == "training" and "frozen" not in options:
        options["frozen"] = frozen
    return options


_AUTOCAST = {None: None, "fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def _autocast(precision: str | None) -> torch.dtype | None:
    if precision not in _AUTOCAST:
        raise partita.UsageError(f"precision: '{precision}' is nothing that torch.autocast does. Say bf16, "
                                 "fp16 or fp32; parameters are kept as the module has them.")
    return _AUTOCAST[precision]


def _captured(module: _nn.Module, args: tuple, kwargs: dict[str, Any] | None,
              unbatched: Sequence[str], precision: str | None) -> Captured:
    return capture(module, args, kwargs, unbatched, _autocast(precision))


def _machine(machine: str | partita.Machine) -> partita.Machine:
    return partita.Machine.load(machine) if isinstance(machine, str) else machine


def plan(module: _nn.Module, args: tuple = (), kwargs: dict[str, Any] | None = None, *,
         machine: str | partita.Machine, unbatched: Sequence[str] = (), precision: str | None = None,
         start: partita.Plan | None = None, progress: Any = None, **options: Any) -> Planned:
    """Searches how `module`, called with these arguments, runs best on `machine`.

    args, kwargs: as the module takes them, for the whole batch, which is dim 0 of each tensor but of the
    arguments that `unbatched` names. machine: a partita.Machine, or what Machine.load() takes. precision:
    "bf16" or "fp16" run it as under torch.autocast of that type, which the caller then leaves out. Other
    keywords: as partita.plan(), with mode="training" unless said. Parameters that need no gradient are
    frozen. Where there is a process group already, rank 0 searches and all get its plan.

    Raises InputError that names module, call and remedy for what cannot be planned, UsageError for
    wrong options and where no plan fits.
    """
    captured = _captured(module, args, kwargs, unbatched, precision)
    model = captured.model()
    target = _machine(machine)
    if not _dist.is_initialized() or _dist.get_world_size() == 1:
        result = partita.plan(model, target, start=start, progress=progress,
                              **_options(captured, options))
        return Planned(captured, model, target, result.plan, result)
    result = None
    said = "-"
    if _dist.get_rank() == 0:
        try:
            result = partita.plan(model, target, start=start, progress=progress,
                                  **_options(captured, options))
            said = result.plan.json()
        except BaseException as error:  # the others must not wait for it
            _of_rank_0(f"!{type(error).__name__} {error}")
            raise
    said = _of_rank_0(said)
    if said.startswith("!"):
        kind, _, why = said[1:].partition(" ")
        raise getattr(partita, kind, partita.Error)(f"rank 0: {why}")
    return Planned(captured, model, target, partita.Plan.parse(said), result)


def price(module: _nn.Module, args: tuple, ops: list[partita.OpPlan], *,
          machine: str | partita.Machine, kwargs: dict[str, Any] | None = None,
          unbatched: Sequence[str] = (), precision: str | None = None, **options: Any) -> Planned:
    """The plan that these decisions make (partita.price)."""
    captured = _captured(module, args, kwargs, unbatched, precision)
    model = captured.model()
    target = _machine(machine)
    found = partita.price(model, target, ops, **_options(captured, options))
    return Planned(captured, model, target, found, None)


def import_trace(file: str | os.PathLike, module: _nn.Module, args: tuple = (),
                 kwargs: dict[str, Any] | None = None, *, machine: str | partita.Machine,
                 database: str | os.PathLike, unbatched: Sequence[str] = (),
                 precision: str | None = None, **options: Any) -> partita.ImportReport:
    """The times in a trace of the module's step, recorded by torch.profiler with record_shapes=True,
    for plan(profile=database). machine: one whose devices are what the trace ran on. Other arguments:
    as plan(). Raises what partita.import_times() does.
    """
    captured = _captured(module, args, kwargs, unbatched, precision)
    return partita.import_times(captured.model(), _machine(machine), file, database,
                                **_options(captured, options))


def profile(module: _nn.Module, args: tuple = (), kwargs: dict[str, Any] | None = None, *,
            machine: str | partita.Machine, database: str | os.PathLike, steps: int = 10,
            unbatched: Sequence[str] = (), precision: str | None = None,
            **options: Any) -> partita.ImportReport:
    """Measures the operators of the module's step where it is, as import_trace() takes them: forward
    and, unless mode="inference", backward, after two steps that do not count. A plan for devices of
    other sizes than a rank has here is priced by what is between the measured sizes.

    Where there is a process group of several ranks, a collective call: all run the step at the same time,
    then measure what they take to send each other what plans have them send. Rank 0 writes the database;
    each gets a report of its own operators.

    The module keeps its values but for buffers that its forward updates; gradients are dropped.
    """
    trains, autocast = options.get("mode", "training") == "training", _autocast(precision)

    def step() -> None:
        with torch.set_grad_enabled(trains):
            with autocasting(module, autocast):
                results = pytree.tree_leaves(module(*args, **(kwargs or {})))
            if trains:
                sum(each.sum() for each in results if each.requires_grad).backward()
        module.zero_grad()

    for _ in range(2):
        step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if any(each.is_cuda for each in module.parameters()):
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as measured:
        for _ in range(steps):
            step()
    ranks = _dist.get_world_size() if _dist.is_initialized() else 1
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        measured.export_chrome_trace(file)
        is_first = ranks == 1 or _dist.get_rank() == 0
        into = database if is_first else os.path.join(folder, "profile.sqlite")
        report = import_trace(file, module, args, kwargs, machine=machine, database=into,
                              unbatched=unbatched, precision=precision, **options)
    if ranks > 1:
        times = messages.measure()
        if is_first:
            partita.write_transfers(_machine(machine), times, os.fspath(database))
        _dist.barrier()  # now it is there
    return report


def load(module: _nn.Module, args: tuple, plan: str | os.PathLike | partita.Plan,
         kwargs: dict[str, Any] | None = None, unbatched: Sequence[str] = (),
         precision: str | None = None) -> Planned:
    """A plan that was saved (Plan.save()), or its file, for the module it was made for, called with
    arguments of the same shapes, in the same precision.

    Raises MismatchError that says what differs for another module.
    """
    captured = _captured(module, args, kwargs, unbatched, precision)
    model = captured.model()
    known = plan if isinstance(plan, partita.Plan) else partita.Plan.load(plan)
    faults = known.verify(model)
    if faults:
        raise partita.MismatchError(f"the plan is not one of this module: {faults[0]}")
    return Planned(captured, model, known.machine, known, None)
