# SPDX-License-Identifier: Apache-2.0
"""Modules run by parts compute what they compute on one process."""
from __future__ import annotations

import copy
import functools
import os
import pathlib
import re
import subprocess
import sys

import modules
import npy
import pytest
import ranks
import torch
from strategies import draws, random_plan

import partita
import partita.torch
from partita.torch.schedule import passes_of, stages_of, turns

torch.set_num_threads(1)
TOLERANCE = 1e-4
STEPS = 3


class Case:
    """A module, captured once for all worlds and plans."""

    def __init__(self, name: str, autocast: torch.dtype | None = None) -> None:
        self.name = name
        self.module, self.args = modules.make(name)
        self.captured = partita.torch.capture(self.module, self.args, autocast=autocast)
        self.model = self.captured.model()

    def planned(self, machine: partita.Machine, plan: partita.Plan) -> partita.torch.Planned:
        return partita.torch.Planned(self.captured, self.model, machine, plan, None)

    def options(self) -> dict[str, object]:
        return partita.torch._options(self.captured, {})


@functools.cache
def case_of(name: str, autocast: torch.dtype | None = None) -> Case:
    return Case(name, autocast)


def _train(module: torch.nn.Module, args: tuple) -> list[float]:
    parameters = list(module.parameters()) or [torch.zeros(1)]  # a rank may keep none
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = module(*args)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _distance(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """Largest difference, relative to each tensor's largest value and a share of the largest of all."""
    assert found.keys() == wanted.keys()
    scale = max(each.abs().max().item() for each in wanted.values() if each.is_floating_point())
    return max(((found[name] - each).abs().max() / (each.abs().max() + 0.01 * scale)).item()
               for name, each in wanted.items() if each.numel())


def _compare(case: Case, machine: partita.Machine, plans: dict[str, partita.Plan]) -> list[str]:
    """On a rank: what differs, a sentence each."""
    plain = copy.deepcopy(case.module)
    if case.name == "dropout":  # its numbers are ours: compared with all of it on one rank
        whole = partita.plan(case.model, machine, searcher="single-device", **case.options()).plan
        plain = case.planned(machine, whole).apply(case.module)
    first = plain(*case.args)
    first.backward()
    gradients = plain.gradients() if isinstance(plain, partita.torch.ParallelModule) else {
        name: each.grad for name, each in plain.named_parameters() if each.requires_grad}
    losses = _train(plain, case.args)
    state = plain.full_state_dict() if isinstance(plain, partita.torch.ParallelModule) else (
        plain.state_dict())
    faults = []
    for name, plan in plans.items():
        parallel = case.planned(machine, plan).apply(case.module)
        parallel(*case.args).backward()
        distances = {"gradients": _distance(parallel.gradients(), gradients)}
        found = _train(parallel, case.args)
        distances["losses"] = max(abs(a / b - 1) for a, b in zip(found, losses, strict=True))
        loaded = copy.deepcopy(case.module)
        loaded.load_state_dict(parallel.full_state_dict())
        distances["parameters"] = _distance(dict(loaded.state_dict()), dict(state))
        faults += [f"{name}: {what} differ by {distance:.1e}"
                   for what, distance in distances.items() if not distance <= TOLERANCE]
    return faults


def _check(case: Case, world: int, plans: dict[str, partita.Plan]) -> None:
    machine = partita.Machine.load(f"cpu:{world}")
    for faults in ranks.run(world, _compare, case, machine, plans):
        assert faults == []


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("name", modules.CASES)
def test_random_strategies_compute_what_the_module_does(name, world):
    case = case_of(name)
    machine = partita.Machine.load(f"cpu:{world}")
    count = draws(3 if world == 2 else 2)
    seeds = range(1000 * world, 1000 * world + count)
    _check(case, world, {f"seed {seed}": random_plan(case.model, machine, seed, **case.options())
                         for seed in seeds})


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("name", modules.CASES)
def test_plans_that_are_found_do_too(name, world):
    case = case_of(name)
    machine = partita.Machine.load(f"cpu:{world}")
    searchers = ("expert", "data-parallel", "mcmc")
    if draws(2) == 2:  # each where it differs most from the others; all of them in scripts/nightly
        searchers = ("expert", "mcmc") if world == 2 else ("data-parallel", "mcmc")
    _check(case, world, {
        searcher: partita.plan(case.model, machine, searcher=searcher, evaluations=60,
                               **case.options()).plan for searcher in searchers})


@pytest.mark.parametrize("strategy", [
    "dp=2,tp=2", "dp=2,pp=2,zero=1", "pp=4", "dp=4,zero=3", "tp=2,pp=2", "tp=4,sp"])
def test_forms_of_parallelism_do_too(strategy):
    case = case_of("gpt")
    machine = partita.Machine.load("cpu:4")
    plans = {}
    for micro_batches in (1, 2):
        for schedule in ("none", "gpipe", "1f1b") if micro_batches > 1 else ("none",):
            plans[f"{strategy}, {micro_batches} in {schedule}"] = partita.plan(
                case.model, machine, strategy=strategy, micro_batches=micro_batches,
                schedule=schedule, evaluations=20, **case.options()).plan
    _check(case, 4, plans)


@pytest.mark.parametrize(("schedule", "stage", "order"), [
    ("gpipe", 0, "F0 F1 F2 B0 B1 B2"), ("1f1b", 0, "F0 F1 B0 F2 B1 B2"), ("1f1b", 1, "F0 B0 F1 B1 F2 B2"),
    ("eager-1f1b", 0, "F0 F1 F2 B0 B1 B2")])
def test_schedules_are_those_of_the_papers(schedule, stage, order):
    found = " ".join(f"{'F' if turn.is_forward else 'B'}{turn.micro_batch}"
                     for turn in turns(schedule, 3, stage, 2))
    assert found == order


# Of two chunks, the second in small letters (Narayanan et al., SC 2021, figure 4).
@pytest.mark.parametrize(("stage", "order"), [
    (0, "F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3"),
    (1, "F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3")])
def test_chunks_take_turns_as_in_the_paper(stage, order):
    letters = ["FB", "fb"]
    found = " ".join(f"{letters[turn.chunk][not turn.is_forward]}{turn.micro_batch}"
                     for turn in turns("interleaved", 4, stage, 2, chunks=2))
    assert found == order


def test_passes_count_how_often_data_comes_by_a_stage():
    ops = [((), ("x",), 0), (("x",), ("y",), 1), (("y",), ("z",), 0), (("z", "x"), ("w",), 1), ((), ("v",), 1)]
    assert passes_of(ops, 2) == [0, 1, 2, 3, 1]


def test_stages_share_ops():
    assert stages_of([[2, 3], [3], [2], [0, 1], [1]], 5) == [1, 1, 0, 0, -1]


def _step(case: Case, machine: partita.Machine, plan: partita.Plan) -> tuple[float, float]:
    module = copy.deepcopy(case.module)
    loss = module(*case.args)
    loss.backward()
    parallel = case.planned(machine, plan).apply(case.module)
    found = parallel.step(*case.args)
    wanted = {name: each.grad for name, each in module.named_parameters()}
    return abs(found.item() / loss.item() - 1), _distance(parallel.gradients(), wanted)


def _chunked_step(case: Case, machine: partita.Machine, plan: partita.Plan) -> tuple[float, float, int]:
    parallel = case.planned(machine, plan).apply(case.module)
    loss = parallel(*case.args)  # all micro-batches forward, then all of them backward
    loss.backward()
    gradients = parallel.gradients()
    parallel.zero_grad()
    again = parallel.step(*case.args)
    assert _distance(parallel.gradients(), gradients) < TOLERANCE and abs(again / loss - 1) < TOLERANCE
    return *_step(case, machine, plan), len(parallel._chunks)


@pytest.mark.parametrize(("world", "strategy", "micro_batches", "chunks", "more"), [
    (2, "pp=2,vpp=2", 4, 2, {}), (4, "pp=2,vpp=2,tp=2", 4, 2, {"recompute": "full"}),
    (4, "pp=4,vpp=2", 8, 2, {}), (4, "pp=2,vpp=4,dp=2,zero=1", 2, 4, {})])
def test_chunks_of_several_micro_batches_are_under_way(world, strategy, micro_batches, chunks, more):
    case = case_of("deep")
    machine = partita.Machine.load(f"cpu:{world}")
    plan = partita.plan(case.model, machine, strategy=strategy, micro_batches=micro_batches,
                        evaluations=20, **more, **case.options()).plan
    assert plan.schedule == "interleaved"
    for loss, gradients, found in ranks.run(world, _chunked_step, case, machine, plan):
        assert loss < TOLERANCE and gradients < TOLERANCE and found == chunks


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "eager-1f1b"])
@pytest.mark.parametrize(("strategy", "micro_batches"), [
    ("dp=2,pp=2", 4), ("pp=4", 8), ("pp=2,tp=2", 4), ("dp=2,tp=2", 4), ("dp=4,zero=2", 2)])
def test_a_step_of_micro_batches_is_one_of_the_batch(strategy, micro_batches, schedule):
    case = case_of("gpt")
    machine = partita.Machine.load("cpu:4")
    plan = partita.plan(case.model, machine, strategy=strategy, micro_batches=micro_batches,
                        schedule=schedule, evaluations=20, **case.options()).plan
    for loss, gradients in ranks.run(4, _step, case, machine, plan):
        assert loss < TOLERANCE and gradients < TOLERANCE


@pytest.mark.parametrize("name", ["gpt", "llama", "convnet", "dropout"])
def test_what_recomputes_computes_the_same_by_random_strategies(name):
    case, machine = case_of(name), partita.Machine.load("cpu:2")
    plans = {}
    for seed in range(draws(3)):
        plan = random_plan(case.model, machine, seed, recompute="full", **case.options())
        assert plan.recomputed(case.model)
        plans[f"seed {seed}"] = plan
    _check(case, 2, plans)


@pytest.mark.parametrize(("strategy", "micro_batches", "schedule"), [
    ("dp=2,tp=2", 2, "none"), ("tp=4,sp", 1, "none"), ("dp=2,pp=2,zero=1", 4, "1f1b"),
    ("tp=2,pp=2", 4, "1f1b"), ("pp=2,dp=2", 4, "gpipe")])
def test_forms_of_parallelism_recompute(strategy, micro_batches, schedule):
    case = case_of("gpt")
    machine = partita.Machine.load("cpu:4")
    plan = partita.plan(case.model, machine, strategy=strategy, micro_batches=micro_batches,
                        schedule=schedule, recompute="full", evaluations=20, **case.options()).plan
    assert [each.block for each in plan.recomputed(case.model)] == ["blocks/0", "blocks/1"]
    for loss, gradients in ranks.run(4, _step, case, machine, plan):
        assert loss < TOLERANCE and gradients < TOLERANCE


def _mixed(case: Case, machine: partita.Machine, plans: dict[str, partita.Plan]) -> dict[str, tuple]:
    """Of each plan: how far loss and gradients are from those under autocast, and types of the latter."""
    module = copy.deepcopy(case.module)
    with torch.autocast("cpu", case.captured.autocast):
        loss = module(*case.args)
    loss.backward()
    wanted = {name: each.grad for name, each in module.named_parameters() if each.requires_grad}
    scale = max(each.norm() for each in wanted.values())
    found = {}
    for name, plan in plans.items():
        parallel = case.planned(machine, plan).apply(case.module)
        distance = abs(parallel.step(*case.args).item() / loss.item() - 1)
        gradients = parallel.gradients()
        far = max(((gradients[key] - each).norm() / (each.norm() + 0.05 * scale)).item()
                  for key, each in wanted.items())
        kinds = {each.dtype for each in [*parallel.parameters(), *gradients.values()]}
        found[name] = distance, far, kinds
    return found


def _check_mixed(case: Case, world: int, plans: dict[str, partita.Plan]) -> None:
    for found in ranks.run(world, _mixed, case, partita.Machine.load(f"cpu:{world}"), plans):
        for name, (loss, gradients, kinds) in found.items():
            # bfloat16 has 8 bits; what is rounded otherwise crosses a ReLU here and there.
            assert loss < 5e-3 and gradients < 0.06, (name, loss, gradients)
            assert kinds == {torch.float32}


@pytest.mark.parametrize("name", ["gpt", "llama", "convnet", "encoder", "lstm", "dlrm"])
def test_autocast_is_planned_and_computes_the_same(name):
    case, machine = case_of(name, torch.bfloat16), partita.Machine.load("cpu:2")
    products = [op for op in case.model.ops if op.type in ("MatMul", "Gemm", "Conv", "Attention")]
    assert {case.model.tensor(op.results[0]).dtype for op in products} == {"bfloat16"}
    assert case.captured.narrow and case.captured.narrow < set(case.captured.parameters)
    _check_mixed(case, 2, {f"seed {seed}": random_plan(case.model, machine, seed, **case.options())
                           for seed in range(draws(2))})


def test_precision_that_autocast_does_not_know_is_refused():
    case = case_of("mlp")
    with pytest.raises(partita.UsageError, match="'fp8'.*bf16"):
        partita.torch.plan(case.module, case.args, machine="cpu:1", precision="fp8")
    module = copy.deepcopy(case.module).to("meta")
    args = tuple(each.to("meta") for each in case.args)
    with pytest.raises(partita.UsageError, match="'meta'"):
        partita.torch.plan(module, args, machine="cpu:1", precision="bf16")
    assert partita.torch.plan(module, args, machine="cpu:1", evaluations=3).plan.value > 0


def test_forms_of_parallelism_do_autocast():
    case, machine = case_of("gpt", torch.bfloat16), partita.Machine.load("cpu:4")
    plans = {}
    for strategy, schedule, more in [("dp=4,zero=3", "none", {}), ("dp=2,tp=2", "none", {"recompute": "full"}),
                                     ("dp=2,pp=2,zero=1", "1f1b", {"recompute": "full"})]:
        plans[strategy] = partita.plan(
            case.model, machine, strategy=strategy, micro_batches=4 if schedule != "none" else 2,
            schedule=schedule, evaluations=20, **more, **case.options()).plan
    _check_mixed(case, 4, plans)


@pytest.mark.parametrize("choice", ["selective", "auto"])
def test_other_choices_recompute(choice):
    case, machine = case_of("products"), partita.Machine.load("cpu:2")
    options = dict(recompute=choice, strategy="dp=2", micro_batches=1, evaluations=20, **case.options())
    if choice == "auto":  # the search recomputes what does not fit otherwise
        whole = partita.plan(case.model, machine, **{**options, "recompute": "none"}).plan
        peak = max(each.memory for each in whole.devices)
        options["memory_limit"] = str(int(0.97 * peak))
    plan = partita.plan(case.model, machine, **options).plan
    assert plan.recomputed(case.model)
    for loss, gradients in ranks.run(2, _step, case, machine, plan):
        assert loss < TOLERANCE and gradients < TOLERANCE


def _kept(case: Case, machine: partita.Machine, plan: partita.Plan) -> int:
    """Bytes that a forward keeps for its backward."""
    parallel = case.planned(machine, plan).apply(case.module)
    storages = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        parallel(*case.args)
    return sum(each.untyped_storage().nbytes() for each in storages.values())


def test_what_is_recomputed_is_not_kept():
    case, machine = case_of("gpt"), partita.Machine.load("cpu:1")
    kept = {}
    for choice in ("none", "full"):
        plan = partita.plan(case.model, machine, recompute=choice, evaluations=5, **case.options()).plan
        kept[choice], = ranks.run(1, _kept, case, machine, plan)
    assert kept["full"] < 0.7 * kept["none"], kept


def _moved(ops: list[partita.OpPlan], name: str, devices: list[int]) -> list[partita.OpPlan]:
    at = next(number for number, op in enumerate(ops) if op.name == name)
    ops[at] = partita.OpPlan(name, ops[at].type, [], devices)
    return ops


@pytest.mark.parametrize("keeper", [0, 1])
def test_a_weight_that_two_stages_read_may_lie_on_either(keeper):
    """From the later one it goes against the stream, with every micro-batch."""
    case = case_of("gpt")
    machine = partita.Machine.load("cpu:2")
    policy = {"micro_batches": 4, "schedule": "1f1b", **case.options()}
    found = partita.plan(case.model, machine, strategy="pp=2", evaluations=20, **policy).plan
    plan = partita.price(case.model, machine, _moved(found.ops, "wte.weight", [keeper]), **policy)
    for loss, gradients in ranks.run(2, _step, case, machine, plan):
        assert loss < TOLERANCE and gradients < TOLERANCE


def _clip(case: Case, machine: partita.Machine, plan: partita.Plan) -> tuple[float, list[str]]:
    parallel = case.planned(machine, plan).apply(case.module)
    parallel(*case.args).backward()
    kinds = sorted({type(each).__name__ for each in parallel.parameters()})
    norm = torch.nn.utils.clip_grad_norm_(parallel.parameters(), 1e9)
    module = copy.deepcopy(case.module)
    module(*case.args).backward()
    wanted = torch.nn.utils.clip_grad_norm_(module.parameters(), 1e9)
    return norm.full_tensor().item() / wanted.item(), kinds


def test_parameters_are_dtensors_that_clip_as_usual():
    case = case_of("mlp")
    machine = partita.Machine.load("cpu:2")
    plan = partita.plan(case.model, machine, strategy="dp=2,zero=0", evaluations=20,
                        **case.options()).plan
    for ratio, kinds in ranks.run(2, _clip, case, machine, plan):
        assert ratio == pytest.approx(1, rel=1e-5)
        assert kinds == ["DTensor"]


def _refusals(case: Case, other: Case, plans: dict[str, partita.Plan]) -> dict[str, str]:
    """What is said of each wrong use."""
    said = {}

    def attempt(name: str, call) -> None:
        try:
            call()
            said[name] = "nothing"
        except partita.Error as error:
            said[name] = f"{type(error).__name__}: {error}"

    two, four = partita.Machine.load("cpu:2"), partita.Machine.load("cpu:4")
    attempt("world", lambda: case.planned(four, plans["four"]).apply(case.module))
    attempt("module", lambda: case.planned(two, plans["two"]).apply(other.module))
    rank = torch.distributed.get_rank()
    attempt("plan", lambda: case.planned(two, plans["two" if rank else "else"]).apply(case.module))
    parallel = case.planned(two, plans["two"]).apply(case.module)
    attempt("shape", lambda: parallel(torch.randn(4, 32), torch.randn(4, 10)))
    attempt("arguments", lambda: parallel(torch.randn(8, 32)))
    return said


def test_what_does_not_fit_is_refused_by_name():
    case, other = case_of("mlp"), case_of("gpt")
    plans = {name: partita.plan(case.model, partita.Machine.load(machine), searcher="data-parallel",
                                optimizer=optimizer, **case.options()).plan
             for name, machine, optimizer in [("two", "cpu:2", "sgd"), ("else", "cpu:2", "adam"),
                                              ("four", "cpu:4", "sgd")]}
    for said in ranks.run(2, _refusals, case, other, plans):
        assert "4 devices" in said["world"] and "2 ranks" in said["world"]
        assert said["module"].startswith("MismatchError") and "first.weight" in said["module"]
        assert said["plan"].startswith("MismatchError") and "rank 1" in said["plan"]
        assert "[8, 32]" in said["shape"] and "[4, 32]" in said["shape"]
        assert said["arguments"].startswith("UsageError")


def test_what_cannot_be_planned_is_refused_by_name():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x)

    with pytest.raises(partita.InputError, match=r"linalg_inv.*aten\.linalg_inv"):
        partita.torch.capture(Odd(), (torch.eye(4).expand(2, 4, 4),))


def test_without_a_process_group_it_says_what_to_do():
    case = case_of("mlp")
    machine = partita.Machine.load("cpu:2")
    plan = partita.plan(case.model, machine, evaluations=5, **case.options()).plan
    with pytest.raises(partita.UsageError, match="torchrun"):
        case.planned(machine, plan).apply(case.module)


def _profiled(case: Case, database: pathlib.Path) -> None:
    machine, module = partita.Machine.load("cpu:1"), copy.deepcopy(case.module)
    report = partita.torch.profile(module, case.args, machine=machine, database=database, steps=3)
    assert report.rows >= report.found > 0
    matrix = [each.work for each in report.missing
              if re.search(r" (MatMul|Gemm|Conv|Linear|Attention)\.", each.work)]
    assert not matrix, matrix
    values = dict(module.named_parameters())
    assert all(torch.equal(value, values[key]) for key, value in case.module.named_parameters())
    options = dict(searcher="single-device", **case.options())
    before = partita.plan(case.model, machine, **options).plan.value
    after = partita.plan(case.model, machine, profile=database, **options).plan.value
    # What has no time may be priced by its neighbours, of which there are few.
    assert after - before == pytest.approx(report.measured_found - report.predicted_found, rel=0.05)


# In a process of its own: no other may be forked of one that ran a backward.
@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt", "llama"])
def test_what_the_profiler_measures_prices_the_plan(name, tmp_path):
    ranks.run(1, _profiled, case_of(name), tmp_path / "profile.sqlite")


def _messages(case: Case, database: pathlib.Path) -> tuple[int, set[str], list[str]]:
    report = partita.torch.profile(case.module, case.args, machine="cpu:1", database=database, steps=2)
    assert report.found > 0
    plan = partita.plan(case.model, partita.Machine.load("cpu:2"), strategy="dp=2,zero=0", evaluations=5,
                        profile=database, **case.options()).plan
    return (len(partita.torch.messages.measure(repetitions=1)),
            {each.algorithm for each in plan.collectives}, plan.verify(case.model, database))


def test_what_ranks_send_prices_the_plan(tmp_path):
    for measured, algorithms, faults in ranks.run(2, _messages, case_of("mlp"), tmp_path / "p.sqlite"):
        assert measured == 5 * 9  # sizes, and kinds of two ranks
        assert algorithms == {"library"} and faults == []
    with pytest.raises(partita.UsageError, match="'all-to-none'.*all-to-all"):
        partita.write_transfers(partita.Machine.load("cpu:2"), [
            partita.TransferTime("all-to-none", 2, 4, 1e-3)], tmp_path / "p.sqlite")


def _traced(case: Case, file: pathlib.Path) -> None:
    with torch.profiler.profile(record_shapes=True) as measured:
        case.module(*case.args)
    measured.export_chrome_trace(str(file))


def test_a_trace_of_another_module_is_refused(tmp_path):
    gpt = case_of("gpt")
    ranks.run(1, _traced, case_of("mlp"), tmp_path / "trace.json")
    given = dict(machine="cpu:1", database=tmp_path / "profile.sqlite")
    with pytest.raises(partita.MismatchError, match="no time of what this model does"):
        partita.torch.import_trace(tmp_path / "trace.json", gpt.module, gpt.args, **given)
    with pytest.raises(partita.InputError, match="none.json"):
        partita.torch.import_trace(tmp_path / "none.json", gpt.module, gpt.args, **given)
    assert not (tmp_path / "profile.sqlite").exists()


@pytest.mark.parametrize(("arguments", "says"), [
    ("2 gpt.py steps=2 strategy=pp=2 micro_batches=4 schedule=1f1b", "2 stages.*step 1: loss.*fsdp .* ms"),
    ("2 fine_tuning.py", "2 parameters trained, body as before"),
])
def test_examples_run(arguments, says):
    count, script, *options = arguments.split()
    script = pathlib.Path(os.environ["PARTITA_SOURCE"]) / "examples/python" / script
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}",
         f"--master-port={ranks.free_port()}", str(script), *options],
        check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert re.search(says, result.stdout, re.DOTALL), result.stdout


def _losses(case: Case, machine: partita.Machine, plan: partita.Plan) -> float:
    return case.planned(machine, plan).apply(case.module)(*case.args).item()


# What `partita execute` makes of the same plan and the same weights.
@pytest.mark.parametrize("name", ["mlp", "gpt", "llama", "t5", "vit", "moe"])
def test_execute_computes_the_same(name, tmp_path):
    case, machine = case_of(name), partita.Machine.load("cpu:2")
    plan = random_plan(case.model, machine, 5, **case.options())
    plan.save(tmp_path / "plan.json")
    case.planned(machine, plan).save_onnx(case.module, tmp_path / "model.onnx")
    (tmp_path / "inputs").mkdir()
    for (argument, _, _), value in zip(case.captured.inputs, case.args, strict=True):
        npy.save(value, tmp_path / "inputs" / f"{argument}.npy")
    result = subprocess.run(
        [os.environ["PARTITA_PROGRAM"], "execute", "plan.json", "model.onnx", "--inputs", "inputs", "--outputs", "outputs",
         "--iterations", "1", "--warmup", "0"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    files = list((tmp_path / "outputs").iterdir())
    losses = npy.load(next(file for file in files if file.suffix == ".npy"))
    loss = losses.sum().item() * (case.captured.loss_scale or 1)
    for found in ranks.run(2, _losses, case, machine, plan):
        assert found == pytest.approx(loss, rel=1e-5)


def _masked(planned: partita.torch.Planned, module: torch.nn.Module, args: tuple) -> float:
    plain = copy.deepcopy(module)
    plain(*args).backward()
    parallel = planned.apply(module)
    parallel.step(*args)
    assert [row.name for row in planned.compare_with(module, args, ("ddp",), steps=1)] == ["plan", "ddp"]
    return _distance(parallel.gradients(), {
        name: each.grad for name, each in plain.named_parameters()})


def test_an_argument_may_have_no_batch():
    torch.manual_seed(3)
    module, machine = modules.Masked(), partita.Machine.load("cpu:2")
    args = (torch.randn(8, 16), torch.rand(24) < 0.5, torch.randn(8, 16))
    planned = partita.torch.plan(module, args, machine=machine, unbatched=["mask"], micro_batches=4,
                                 strategy="dp=2")
    assert max(ranks.run(2, _masked, planned, module, args)) < TOLERANCE
    with pytest.raises(partita.UsageError, match="'msk'.*mask"):
        partita.torch.capture(module, args, unbatched=["msk"])


class TwoResults(torch.nn.Module):
    """One of the samples, one of the weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x), self.layer.weight.sum(0)


class Evaluated(torch.nn.Module):
    """Does otherwise in evaluation; no loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                                        torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.5))

    def forward(self, x):
        return self.body(x).mean((2, 3))


def _evaluate(planned: partita.torch.Planned, module: torch.nn.Module,
              x: torch.Tensor) -> tuple[float, bool, str]:
    parallel = planned.apply(module)
    result = parallel(x)
    try:
        parallel.step(x)
        said = "nothing"
    except partita.UsageError as error:
        said = str(error)
    return (result - module(x)).abs().max().item(), result.requires_grad, said


@pytest.mark.parametrize("options", [
    {"searcher": "data-parallel"}, {"micro_batches": 2}, {"searcher": "mcmc", "evaluations": 50}])
def test_a_plan_of_inference_computes_results_alone(options):
    module, x = Evaluated().eval(), torch.randn(4, 3, 8, 8)
    planned = partita.torch.plan(module, (x,), machine="cpu:2", mode="inference", **options)
    for distance, has_gradient, said in ranks.run(2, _evaluate, planned, module, x):
        assert distance < 1e-5 and not has_gradient and "inference" in said


def _fail_in_step(planned: partita.torch.Planned, module: torch.nn.Module, args: tuple) -> str:
    try:
        planned.apply(module).step(*args)
    except Exception as error:  # whatever torch's kernel raises
        return " ".join([str(error), *getattr(error, "__notes__", [])])
    return "nothing"


def test_what_fails_in_a_kernel_names_the_op():
    case = case_of("gpt")
    planned = partita.torch.plan(case.module, case.args, machine="cpu:1")
    tokens = torch.full_like(case.args[0], 1000)
    said, = ranks.run(1, _fail_in_step, planned, case.module, (tokens, case.args[1]))
    assert "wte/embedding" in said


def test_a_step_without_a_loss_is_refused():
    module, x = TwoResults(), torch.randn(4, 8)
    planned = partita.torch.plan(module, (x,), machine="cpu:1")
    said, = ranks.run(1, _fail_in_step, planned, module, (x,))
    assert "loss=" in said


def _apply(planned: partita.torch.Planned, module: torch.nn.Module) -> str:
    try:
        planned.apply(module)
    except partita.UsageError as error:
        return str(error)
    return "nothing"


def test_what_of_a_plan_would_be_left_out_is_refused():
    case = case_of("gpt")
    planned = partita.torch.plan(case.module, case.args, machine="cpu:1", evaluations=5, clip_norm=1.0)
    said, = ranks.run(1, _apply, planned, case.module)
    assert "clip_grad_norm_" in said


def _two_results(module: torch.nn.Module, x: torch.Tensor,
                 plans: dict[int, partita.torch.Planned]) -> tuple[float, str]:
    one, two = plans[1].apply(module)(x)
    distance = max((one - module(x)[0]).abs().max(), (two - module(x)[1]).abs().max()).item()
    try:
        plans[2].apply(module)(x)
        return distance, "nothing"
    except partita.UsageError as error:
        return distance, str(error)


def test_results_without_samples_are_not_joined():
    module, x = TwoResults(), torch.randn(4, 8)
    plans = {count: partita.torch.plan(module, (x,), machine="cpu:2", micro_batches=count,
                                       strategy="dp=2") for count in (1, 2)}
    for distance, said in ranks.run(2, _two_results, module, x, plans):
        assert distance < 1e-5 and "has no samples" in said


def test_a_parameter_is_no_result():
    class Returns(TwoResults):
        def forward(self, x):
            return self.layer(x), self.layer.bias

    with pytest.raises(partita.InputError, match="is a parameter"):
        partita.torch.capture(Returns(), (torch.randn(4, 8),))


class Odds(torch.nn.Module):
    """A parameter that nothing reads, a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = torch.nn.Linear(8, 4), torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.layer(x * self.scale), y)


def _odds(case: Case, odds: partita.torch.Planned, module: Odds, file: str) -> dict[str, str]:
    parallel = odds.apply(module)
    said = {"state": " ".join(parallel.full_state_dict()), "own": " ".join(parallel.state_dict())}
    loaded = partita.torch.load(case.module, case.args, file)
    said["loaded"] = str(loaded.plan.value_ps)
    try:
        loaded.apply(case.module).eval()
    except partita.UsageError as error:
        said["eval"] = str(error)
    return said


def test_odds_and_ends(tmp_path):
    machine = partita.Machine.load("cpu:2")
    case, module = case_of("dropout"), Odds()
    plan = partita.plan(case.model, machine, searcher="data-parallel", evaluations=5,
                        **case.options()).plan
    plan.save(tmp_path / "plan.json")
    odds = partita.torch.plan(module, (torch.randn(4, 8), torch.tensor([0, 1, 2, 3])),
                              machine=machine, searcher="single-device")
    with pytest.raises(partita.MismatchError, match="not one of this module"):
        partita.torch.load(module, (torch.randn(4, 8), torch.tensor([0, 1, 2, 3])), plan)
    for said in ranks.run(2, _odds, case, odds, module, str(tmp_path / "plan.json")):
        assert set(said["state"].split()) == set(module.state_dict())
        assert "scale" not in said["own"]
        assert said["loaded"] == str(plan.value_ps)
        assert "module.eval()" in said["eval"]


def test_labels_that_a_mean_leaves_out_are_refused():
    """Else a part would divide by a number that it does not know."""
    captured = partita.torch.capture(Odds(), (torch.randn(4, 8), torch.tensor([0, 1, 2, 3])))
    loss = next(op for op in captured.ops if op.node.startswith("cross_entropy"))
    assert loss.run(None, torch.zeros(4, 4), torch.tensor([0, 1, 2, 3])).shape == (4,)
    with pytest.raises(partita.InputError, match="-100"):
        loss.run(None, torch.zeros(4, 4), torch.tensor([0, 1, -100, 3]))


def _plan_together(case: Case) -> str:
    return partita.torch.plan(case.module, case.args, machine="cpu:2", searcher="mcmc",
                              time_limit=0.3).plan.json()


def test_ranks_get_one_plan():
    first, second = ranks.run(2, _plan_together, case_of("mlp"))
    assert first == second


def test_tied_weights_are_one_and_names_are_the_modules():
    case = case_of("gpt")
    assert set(case.captured.parameters) == {name for name, _ in case.module.named_parameters()}
    assert case.captured.aliases == {"wte.weight": ["head.weight"]}
    names = {op.name for op in case.model.ops}
    assert "blocks/0/qkv/linear" in names and "blocks.1.fc.weight" in names


def test_random_numbers_are_those_of_the_element():
    numbers = partita.torch.capture(*modules.make("dropout")).numbers
    whole = numbers.uniform(1, (((0, 64),), ((0, 500),)), (64, 500))
    part = numbers.uniform(1, (((10, 20), (30, 40)), ((100, 300),)), (64, 500))
    assert torch.equal(part, torch.cat([whole[10:20], whole[30:40]])[:, 100:300])
    assert 0 <= whole.min() and whole.max() < 1
    assert whole.mean().item() == pytest.approx(0.5, abs=0.01)
    assert not torch.equal(whole, numbers.uniform(2, (((0, 64),), ((0, 500),)), (64, 500)))
