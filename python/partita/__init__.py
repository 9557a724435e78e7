# SPDX-License-Identifier: Apache-2.0
"""Partita: decides how one neural network runs on many devices.

    import partita

    model = partita.Model.load("gpt2.onnx", batch=8)
    machine = partita.Machine.load("dgx-a100")
    result = partita.plan(model, machine, mode="training", micro_batches=8)
    print(result.plan.description(model))

Times are seconds, sizes bytes, devices numbers. What is wrong with what you give raises an Error:
UsageError (an option), InputError (a model, machine or plan), MismatchError (two that do not belong
together). Nothing here imports torch; what plans and runs torch modules is partita.torch.
"""
from partita._core import (
    DeviceError,
    Error,
    Graph,
    ImportReport,
    InputError,
    Machine,
    MismatchError,
    Model,
    OpLayouts,
    OpPlan,
    Plan,
    Progress,
    SearchResult,
    TensorLayout,
    TensorPart,
    TransferTime,
    UsageError,
    Work,
    searchers,
    write_transfers,
)
from partita.search import import_times, options, plan, price, write_costs

__all__ = [
    "DeviceError",
    "Error",
    "Graph",
    "ImportReport",
    "InputError",
    "Machine",
    "MismatchError",
    "Model",
    "OpLayouts",
    "OpPlan",
    "Plan",
    "Progress",
    "SearchResult",
    "TensorLayout",
    "TensorPart",
    "TransferTime",
    "UsageError",
    "Work",
    "import_times",
    "options",
    "plan",
    "price",
    "searchers",
    "write_costs",
    "write_transfers",
]
