# SPDX-License-Identifier: Apache-2.0
"""What the package offers without torch."""
from __future__ import annotations

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from strategies import draws, random_plan

import partita

SOURCE = pathlib.Path(os.environ["PARTITA_SOURCE"])


def mlp() -> partita.Model:
    graph = partita.Graph("mlp")
    hidden = graph.input("x", [64, 128])
    for layer in range(3):
        weight = graph.parameter(f"w{layer}", [128, 128])
        hidden = graph.add("MatMul", [hidden, weight], name=f"layer{layer}/MatMul")
        hidden = graph.add("Relu", [hidden], name=f"layer{layer}/Relu")
    graph.output(hidden)
    return partita.Model(graph)


@pytest.fixture(scope="module")
def gpt2() -> partita.Model:
    return partita.Model.load(SOURCE / "examples/models/gpt2-small.onnx", batch=8,
                              bindings={"sequence": 128})


def test_importing_it_imports_no_torch():
    code = "import sys, partita; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


_USES = {
    "onnx": "import onnx; onnx.checker.check_model(onnx.load(MODEL, load_external_data=False))",
    "torch": "import torch; torch.zeros(2).sum()",
    "partita": "import partita; partita.Model.load(MODEL, batch=1)",
}


# Two orders have each pair both ways; all six in scripts/nightly.
_ORDERS = list(itertools.permutations(_USES)) if draws(2) > 2 else [tuple(_USES), tuple(_USES)[::-1]]


@pytest.mark.parametrize("order", _ORDERS, ids=" ".join)
def test_it_lives_beside_onnx_and_torch(order):
    """Each has a protobuf of its own, or none."""
    found = list(pathlib.Path(os.environ["PARTITA_CACHE"]).glob("onnx-python/lib/python*/site-packages"))
    if not found:
        pytest.skip("no Python package onnx: scripts/setup installs it")
    model = SOURCE / "examples/runnable/mlp/model.onnx"
    code = f"MODEL = {str(model)!r}\n" + "\n".join(_USES[name] for name in order * 2)
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(found[0])])
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr


def test_a_plan_says_what_it_is(gpt2):
    machine = partita.Machine.load("dgx-a100")
    result = partita.plan(gpt2, machine, mode="training", optimizer="adam", micro_batches=2,
                          strategy="dp=4,tp=2", evaluations=20)
    plan = result.plan
    assert result.feasible and plan.mode == "training" and plan.micro_batches == 2
    assert plan.value >= result.lower_bound > 0
    description = plan.description(gpt2)
    assert (description.data, description.tensor, description.devices) == (4, 2, 8)
    assert "data x 4" in str(description)
    assert plan.throughput(gpt2).samples_per_second == pytest.approx(8 / plan.value)
    assert plan.verify(gpt2) == []
    assert len(plan.devices) == 8 and all(0 < each.memory < each.capacity for each in plan.devices)
    assert sum(each.bytes_per_device for each in plan.communication(gpt2)) > 0


def test_a_plan_survives_its_file(tmp_path):
    model, machine = mlp(), partita.Machine.load("cpu:4")
    plan = partita.plan(model, machine, evaluations=20).plan
    plan.save(tmp_path / "plan.json")
    assert partita.Plan.load(tmp_path / "plan.json").json() == plan.json()
    assert partita.Plan.parse(plan.json()).value_ps == plan.value_ps


def test_tasks_and_the_mesh_of_a_plan():
    model = partita.Model.load(SOURCE / "examples/runnable/mlp/model.onnx", batch=8)
    plan = partita.plan(model, partita.Machine.load("dgx-a100:1x4"), mode="training",
                        strategy="dp=2,tp=2,pp=1,zero=0").plan
    mesh = plan.mesh(model)
    assert (mesh.axes, mesh.shape) == (["stage", "data", "context", "tensor"], [1, 2, 1, 2])
    assert mesh.devices == [0, 1, 2, 3]
    tasks = plan.tasks(model)
    assert max(task.end for task in tasks) == pytest.approx(plan.value)
    sums = [task for task in tasks if task.kind == "all-reduce" and task.of_gradient]
    assert sums and all(len(task.devices) == 2 and task.bytes > 0 for task in sums)


def test_notebooks_show_the_report():
    model = mlp()
    result = partita.plan(model, partita.Machine.load("cpu:4"), evaluations=20)
    page = result.plan.report(model)
    assert page.startswith("<!DOCTYPE html>") and "layer2/MatMul" in page
    shown = result._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "layer2/MatMul" in shown
    assert "<script" not in shown  # escaped: the page is in a frame of its own
    assert _nothing_found(model)._repr_html_() is None


def _nothing_found(model: partita.Model) -> partita.SearchResult:
    return partita.plan(model, partita.Machine.load("cpu:4"), memory_limit="1KB", evaluations=5)


def test_exports_are_text_or_the_models_file():
    model = partita.Model.load(SOURCE / "examples/runnable/mlp/model.onnx", batch=8)
    plan = partita.plan(model, partita.Machine.load("dgx-a100:1x2"), mode="training",
                        strategy="dp=2,tp=1,pp=1,zero=0").plan
    assert "--micro-batch-size 4" in plan.export("megatron", model)
    assert b"partita" in plan.export("onnx-sharding", model)
    by_hand = partita.plan(mlp(), partita.Machine.load("cpu:2"), evaluations=20).plan
    with pytest.raises(partita.UsageError, match="save it, and load the file"):
        by_hand.export("onnx-sharding", mlp())


@pytest.mark.parametrize("seed", range(10))
def test_what_a_strategy_costs_is_what_the_search_says(seed):
    """price() of a plan's own decisions is that plan; of random ones, a legal plan."""
    model, machine = mlp(), partita.Machine.load("cpu:4")
    found = partita.plan(model, machine, mode="training", micro_batches=1, schedule="none",
                         searcher="mcmc", evaluations=200, seed=seed).plan
    priced = partita.price(model, machine, found.ops, mode="training")
    assert priced.value_ps == found.value_ps
    assert priced.lower_bound is None  # nothing was searched
    assert random_plan(model, machine, seed, mode="training").verify(model) == []


def test_an_illegal_decision_names_its_op():
    model, machine = mlp(), partita.Machine.load("cpu:4")
    ops = partita.plan(model, machine, searcher="single-device").plan.ops
    at = next(number for number, op in enumerate(ops) if op.name == "layer1/MatMul")
    ops[at].degrees, ops[at].devices = [("no", 2)], [0, 1]
    with pytest.raises(partita.InputError, match="layer1/MatMul.*'no'"):
        partita.price(model, machine, ops)
    with pytest.raises(partita.InputError, match="layer1/MatMul.*missing"):
        partita.price(model, machine, ops[:at] + ops[at + 1:])


@pytest.mark.parametrize("seed", range(5))
def test_layouts_cover_every_tensor_once(seed):
    """Of each summand the parts that are no replicas share the elements of a result among them."""
    model, machine = mlp(), partita.Machine.load("cpu:4")
    plan = random_plan(model, machine, seed, mode="training")
    layouts = plan.layouts(model)
    assert [each.op for each in layouts] == [each.name for each in model.ops]
    for each in layouts:
        for layout in each.results:
            assert len(layout.parts) == len(plan.op(each.op).devices)
            elements = 1
            for extent in model.tensor(layout.tensor).shape:
                elements *= extent
            held = {(part.summand, tuple(map(tuple, part.dims))): part.dims for part in layout.parts
                    if part.holds}
            volume = 0
            for dims in held.values():
                part = 1
                for ranges in dims:
                    part *= sum(end - begin for begin, end in ranges)
                volume += part
            assert volume == elements * layout.summands


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda: partita.Machine.load("dgx-a10"), partita.UsageError, "dgx-a100"),
    (lambda: partita.Model.load("nowhere.onnx"), partita.InputError, "nowhere.onnx"),
    (lambda: partita.plan(mlp(), partita.Machine.load("cpu:2"), mod="training"),
     partita.UsageError, "mod"),
    (lambda: partita.plan(mlp(), partita.Machine.load("cpu:2"), micro_batches=100, mode="training"),
     partita.UsageError, "micro-batches"),
    (lambda: partita.Plan.parse("{"), partita.InputError, "plan"),
])
def test_what_is_wrong_is_said(call, error, says):
    with pytest.raises(error, match=says) as raised:
        call()
    assert isinstance(raised.value, partita.Error)


def test_progress_is_told_and_may_end_the_search(gpt2):
    seen = []

    def stop(progress: partita.Progress) -> None:
        seen.append(progress.evaluations)
        if len(seen) == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        partita.plan(gpt2, partita.Machine.load("dgx-a100"), searcher="mcmc", time_limit=60,
                     progress=stop)
    assert seen == sorted(seen)


def test_other_threads_run_while_it_searches(gpt2):
    beats = []
    done = threading.Event()

    def beat() -> None:
        while not done.is_set():
            beats.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=beat)
    thread.start()
    partita.plan(gpt2, partita.Machine.load("dgx-a100"), searcher="mcmc", time_limit=1)
    done.set()
    thread.join()
    assert len(beats) > 20


def test_interrupting_gives_the_best_so_far(gpt2):
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    result = partita.plan(gpt2, partita.Machine.load("dgx-a100"), searcher="mcmc", time_limit=60)
    assert result.status == "budget_exhausted" and result.feasible
    assert time.monotonic() - begin < 30


def test_options_are_the_programs():
    known = partita.options()
    assert {"mode", "micro_batches", "strategy", "time_limit", "searcher"} <= set(known)
    assert "mcmc" in {each.name for each in partita.searchers()}


def _by_flops(work: partita.Work) -> float | None:
    return 1e-6 + work.flops / 1e9 if work.text.startswith(("forward MatMul", "backward")) else None


def test_costs_of_ones_own_price_the_plan(tmp_path):
    model, machine = mlp(), partita.Machine.load("cpu:2")
    asked = []
    report = partita.write_costs(model, machine, lambda work: asked.append(work.text) or _by_flops(work),
                                 tmp_path / "costs.sqlite", mode="training")
    assert len(asked) == len(set(asked)) and report.rows <= len(asked)
    plain = partita.plan(model, machine, searcher="single-device", mode="training").plan
    own = partita.plan(model, machine, searcher="single-device", mode="training",
                       profile=tmp_path / "costs.sqlite").plan
    assert own.value - plain.value == pytest.approx(report.measured_found - report.predicted_found,
                                                    rel=1e-6)
    with pytest.raises(partita.UsageError, match="no work"):
        partita.write_costs(model, machine, lambda work: None, tmp_path / "none.sqlite")
    with pytest.raises(partita.UsageError, match="> 0"):
        partita.write_costs(model, machine, lambda work: 0.0, tmp_path / "none.sqlite")
    with pytest.raises(ZeroDivisionError):
        partita.write_costs(model, machine, lambda work: 1 / 0, tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
