#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ops whole and in parts with the reference evaluator of the onnx package, and compares.

Reads one line per op as semantics_test writes them (case.h says what is in it), after a first line
that lists the operators that must be checked. A part gets the regions of the operands that it names
and nothing else; its results are written, or combined, into the regions that it names. Every element
of every result must be written, by exactly one part unless parts combine, and equal the whole op's.

Also checks what the rule says of linear operands (RULES.md 7): with x = a + b, the results of a and b
add up to that of x, where operands that are applied once are left out of one of the two.

Prints per operator how many splits were checked. Exit code 0: all equal, and none left out.

Usage: check_parts.py CASES.jsonl
"""
import collections
import json
import multiprocessing
import pathlib
import sys
import warnings
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

from evaluation import OWN_EVALUATION, dtype_of, evaluate

# What the evaluator cannot run, or not alike twice. The value says why.
NOT_CHECKED = {
    "Bernoulli": "random",
    "Constant": "never computed: a constant is a source of the graph",
    "Multinomial": "random",
    "RandomNormal": "random",
    "RandomNormalLike": "random",
    "RandomUniform": "random",
    "RandomUniformLike": "random",
}

# How far two evaluations of the same sum may be apart, relative to the result's largest element.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-12,
              "complex64": 2e-5, "complex128": 1e-12}
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply,
           "log_sum_exp": np.logaddexp}


# One part.

def positions(ranges):
    return np.concatenate([np.arange(b, e) for b, e in ranges] or [np.arange(0)])


def indices(region):
    return np.ix_(*[positions(ranges) for ranges in region])


def take(x, region):
    return np.ascontiguousarray(x[indices(region)]) if region else x


def part_operands(part, values):
    operands = []
    for i, operand in enumerate(part["operands"]):
        if operand is None:
            operands.append(None)
        elif "integers" in operand:
            operands.append(np.array(operand["integers"], dtype_of(operand["dtype"]))
                            .reshape(operand["shape"]))
        else:
            operands.append(take(values[i], operand["region"]))
    return operands


def run_part(part, values, result_dtype):
    """The part's results as they are written or combined."""
    operands = part_operands(part, values)
    mask = part.get("mask")
    if mask:
        index = operands[mask["operand"]]
        index = np.where(index < 0, index + mask["extent"], index)
        begin, end = mask["rows"]
        inside = (index >= begin) & (index < end)
        operands[mask["operand"]] = np.where(inside, index - begin, 0).astype(index.dtype)
    found = []
    for result, y in zip(part["results"], evaluate(part, operands, result_dtype)):
        if result is None:
            found.append(None)
            continue
        if "crop" in result:
            y = y[tuple(slice(b, e) for b, e in result["crop"])]
        if result["weight"] != 1.0:
            y = (y * result["weight"]).astype(y.dtype)
        if mask:
            shape = inside.shape + (1,) * (y.ndim - inside.ndim - mask["result_dim"])
            y = np.where(inside.reshape(shape), y, np.zeros((), y.dtype))
        found.append(y)
    return found


# Comparison.

def difference(found, expected):
    """"" or how two results differ."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if found.size == 0:
        return ""
    tolerance = TOLERANCES.get(str(found.dtype))
    if tolerance is None:
        equal = found == expected
        if found.dtype.kind not in "biuOSU":  # an 8-bit float
            equal |= np.isnan(found.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        return "" if np.all(equal) else f"{np.count_nonzero(~equal)} of {found.size} elements"
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    same = np.where(finite, True, (found == expected) | (np.isnan(found) & np.isnan(expected)))
    scale = np.max(np.abs(expected[finite]), initial=1.0)
    with np.errstate(invalid="ignore"):
        close = np.where(finite, np.abs(found - expected) <= tolerance * scale, same)
    if np.all(close):
        return ""
    worst = np.max(np.where(finite & ~close, np.abs(found - expected), 0))
    return f"{np.count_nonzero(~close)} of {close.size} elements, by up to {worst:.3g}"


def assembled(parts, values, whole):
    """The whole results from those of the parts, or a complaint."""
    results = [None if y is None else np.zeros_like(y) for y in whole]
    times = [None if y is None else np.zeros(y.shape, np.int64) for y in whole]
    for number, part in enumerate(parts):
        dtype = None if whole[0] is None else whole[0].dtype
        for i, (said, y) in enumerate(zip(part["results"], run_part(part, values, dtype))):
            if whole[i] is None:
                continue
            at = indices(said["region"]) if said["region"] else ()
            if y.shape != np.shape(results[i][at]):
                return None, (f"part {number}, result {i}: shape {y.shape}, expected "
                              f"{np.shape(results[i][at])}")
            if said["combine"] == "none":
                results[i][at] = y
                if np.any(times[i][at] != 0):
                    return None, f"result {i}: written twice"
            else:
                first = times[i][at] == 0
                combined = COMBINE[said["combine"]](results[i][at], y)
                results[i][at] = np.where(first, y, combined).astype(results[i].dtype)
            times[i][at] += 1
    for i, count in enumerate(times):
        if count is not None and np.any(count == 0):
            return None, f"result {i}: {np.count_nonzero(count == 0)} elements are not written"
    return results, ""


def complaint_about_split(split, values, whole):
    results, complaint = assembled(split["parts"], values, whole)
    if complaint:
        return complaint
    for i, (found, expected) in enumerate(zip(results, whole)):
        if expected is None:
            continue
        complaint = difference(found, expected)
        if complaint:
            return f"result {i}: {complaint}"
    return ""


# Linear operands.

def halves_of(x, random):
    """x = a + b."""
    a = random.uniform(-1, 1, x.shape).astype(x.dtype)
    return a, (x - a).astype(x.dtype)


def complaint_about_linearity(case, values, whole):
    linear = [i for i in case["linear"]
              if values[i] is not None and values[i].dtype in (np.float32, np.float64)]
    if not linear or whole[0] is None or len([y for y in whole if y is not None]) > 1:
        return "", 0
    if not all(np.all(np.isfinite(values[i])) for i in linear):
        return "", 0
    random = np.random.default_rng(7)
    groups = [linear] if case["additive"] else [[i] for i in linear]
    for group in groups:
        first, second = list(values), list(values)
        for i in group:
            first[i], second[i] = halves_of(values[i], random)
        if case["additive"] and len(group) != len(case["linear"]):
            continue
        for i in case["once"]:
            if i < len(second):
                second[i] = None
        a = evaluate(case["whole"], first, whole[0].dtype)[0]
        b = evaluate(case["whole"], second, whole[0].dtype)[0]
        # Of a Cast the operand's precision counts, too.
        coarser = min(values[group[0]].dtype, whole[0].dtype, key=lambda d: d.itemsize)
        complaint = difference((a + b).astype(coarser), whole[0].astype(coarser))
        if complaint:
            return f"not linear in operands {group}: {complaint}", 0
    return "", len(groups)


# One case.

POSITIVE = {"Log", "Sqrt", "Pow", "Reciprocal", "Acosh", "Div", "ReduceLogSum", "Mod",
            "BlockAttentionResult"}
SMALL = {"Acos", "Asin", "Atanh"}


def made_up(case, i):
    """A value for operand i of a case without data. Every element differs from its neighbours."""
    operand, kind = case["operands"][i], case["type"]
    random = np.random.default_rng(zlib.crc32(f"{case['name']} {i}".encode()))
    shape = operand["shape"]
    if "integers" in operand:
        return np.array(operand["integers"], dtype_of(operand["dtype"])).reshape(shape)
    if operand["dtype"] == "string":
        return random.choice(np.array(["a", "bc", "def", "gh1"], object), shape)
    dtype = dtype_of(operand["dtype"])
    if operand["dtype"] == "boolean":
        return random.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return random.integers(*integer_limits(case, i), shape).astype(dtype)
    x = random.uniform(-2, 2, shape)
    if kind in POSITIVE:
        x = 1.1 + np.abs(x)
    elif kind in SMALL:
        x = x / 2.1
    elif kind == "Dropout":
        x = np.full(shape, 0.0)
    elif kind == "BatchNormalization" and i == 4:
        x = 0.5 + np.abs(x)
    elif kind == "RoiAlign" and i == 1 or kind == "MaxRoiPool" and i == 1:
        x = np.sort(np.abs(x) * 3, axis=-1)
        if kind == "MaxRoiPool":  # image, x1, y1, x2, y2
            x[:, 0] = random.integers(0, case["operands"][0]["shape"][0], len(x))
    elif "scale" in kind.lower() or kind.endswith("Linear") and i > 0:
        x = 0.1 + np.abs(x)
    elif kind in ("QLinearConv", "QLinearMatMul"):
        x = 0.1 + np.abs(x)
    elif kind in ("Resize", "Upsample") and i > 0:
        x = np.array([to / max(1, of) for of, to in zip(case["operands"][0]["shape"],
                                                        case["whole"]["results"][0]["shape"])])
    elif kind == "IsNaN" or kind == "IsInf":
        x = np.where(x > 1, np.nan if kind == "IsNaN" else np.inf, x)
    return np.asarray(x).astype(dtype)


def integer_limits(case, i):
    """[low, high) of an operand of integers."""
    kind, shape = case["type"], case["operands"][0]["shape"]
    axis = case["whole"]["attributes"].get("axis", ["int", 0])[1]
    batch = case["whole"]["attributes"].get("batch_dims", ["int", 0])[1]
    if kind in ("Gather", "GatherElements") and i == 1:
        return -shape[axis], shape[axis]
    if kind == "GatherND" and i == 1:
        selected = case["operands"][1]["shape"][-1]
        least = min(shape[batch:batch + selected])
        return -least, least
    if kind in ("ScatterElements", "Scatter") and i == 1:
        return 0, shape[axis]
    if kind == "ScatterND" and i == 1:
        return 0, shape[0]
    if kind in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        return 0, shape[1]
    if kind == "ReverseSequence":
        return 1, shape[case["whole"]["attributes"].get("time_axis", ["int", 0])[1]] + 1
    if kind == "OneHot":
        return -2, 3
    if kind in ("RoiAlign", "MaxRoiPool"):
        return 0, shape[0]
    if kind == "RotaryEmbedding":
        return 0, case["operands"][1]["shape"][0]
    if kind in ("LSTM", "GRU", "RNN"):
        steps = shape[1 if case["whole"]["attributes"].get("layout", ["int", 0])[1] else 0]
        return steps, steps + 1
    if kind == "TensorScatter":
        return 0, 2
    if kind == "Attention" and i == 6:
        return 1, case["operands"][1]["shape"][2] + 1
    if kind == "BitShift":
        return 0, 8
    return (0 if case["operands"][i]["dtype"].startswith("u") else -5), 6


def stored(file):
    tensor = onnx.TensorProto()
    with open(file, "rb") as stream:
        tensor.ParseFromString(stream.read())
    return numpy_helper.to_array(tensor)


def complaints_about_own(case, whole):
    """An evaluation of our own must agree with the stored results."""
    if not case["files"][0]:
        return []
    complaints = []
    for i, y in enumerate([y for y in whole if y is not None]):
        file = pathlib.Path(case["files"][0]).with_name(f"output_{i}.pb")
        complaint = difference(y, stored(file))
        if complaint:
            complaints.append(f"whole: result {i} as stored: {complaint}")
    return complaints


def values_of(case):
    values = []
    for i, operand in enumerate(case["operands"]):
        if operand is None:
            values.append(None)
        elif case["files"][i]:
            values.append(stored(case["files"][i]))
        else:
            values.append(made_up(case, i))
    return values


def is_random(dropout):
    """Whether a Dropout drops anything."""
    ratio, trains = [x is not None and bool(np.any(x)) for x in (dropout + [None, None])[1:3]]
    return trains and (ratio or dropout[1] is None)


def check(line):
    """(operator, name, what each split found, reason why it was not checked, linear groups)"""
    warnings.simplefilter("ignore")
    case = json.loads(line)
    kind = case["type"]
    outcome = {"type": kind, "name": case["name"], "splits": 0, "factors": set(), "faults": [],
               "reason": "", "linear": 0, "splittable": set(case["splittable"])}
    if not case["splits"]:
        return outcome
    if kind in NOT_CHECKED:
        outcome["reason"] = NOT_CHECKED[kind]
        return outcome
    try:
        values = values_of(case)
        if kind == "Dropout" and is_random(values):
            outcome["reason"] = "random"
            return outcome
        said = case["whole"]["results"][0]
        dtype = None if said is None else dtype_of(said["dtype"])
        whole = evaluate(case["whole"], values, dtype)
    except Exception as error:  # whatever the evaluator throws, it has no answer
        outcome["faults"].append(f"whole: {type(error).__name__}: {error}".split("\n")[0][:200])
        return outcome
    if kind in OWN_EVALUATION:
        outcome["faults"] += complaints_about_own(case, whole)
    for said, y in zip(case["whole"]["results"], whole):
        if said is not None and list(y.shape) != said["shape"]:
            outcome["faults"].append(f"whole: shape {y.shape}, the graph says {said['shape']}")
    for split in case["splits"]:
        try:
            complaint = complaint_about_split(split, values, whole)
        except Exception as error:
            complaint = f"{type(error).__name__}: {error}".split("\n")[0][:300]
        if complaint:
            outcome["faults"].append(f"{split['text']}: {complaint}")
        else:
            outcome["splits"] += 1
            outcome["factors"].update(split["factors"])
    try:
        complaint, outcome["linear"] = complaint_about_linearity(case, values, whole)
    except Exception as error:
        complaint = f"linearity: {type(error).__name__}: {error}".split("\n")[0][:300]
    if complaint:
        outcome["faults"].append(complaint)
    return outcome


def main(path):
    with open(path) as stream:
        wanted = json.loads(stream.readline())
        lines = stream.readlines()
    with multiprocessing.Pool(2) as pool:
        outcomes = list(pool.imap_unordered(check, lines, chunksize=4))
    outcomes.sort(key=lambda o: (o["type"], o["name"]))

    splits, linear = collections.Counter(), collections.Counter()
    reasons = collections.defaultdict(dict)
    faults = 0
    for outcome in outcomes:
        splits[outcome["type"]] += outcome["splits"]
        linear[outcome["type"]] += outcome["linear"]
        if outcome["reason"]:
            reasons[outcome["type"]][outcome["name"]] = outcome["reason"]
        for fault in outcome["faults"]:
            faults += 1
            print(f"DIFFERENT: {outcome['type']} ({outcome['name']}), {fault}")

    checked = {kind: count for kind, count in sorted(splits.items()) if count}
    print(f"{sum(checked.values())} splits of {len(checked)} operators are checked, and "
          f"{sum(linear.values())} sums of linear operands:")
    print("  " + ", ".join(f"{kind} {count}" for kind, count in checked.items()))
    for kind, cases in sorted(reasons.items()):
        for name, reason in cases.items():
            print(f"not run: {kind} ({name}): {reason}")
    factors, exercised = collections.defaultdict(set), collections.defaultdict(set)
    for outcome in outcomes:
        factors[outcome["type"]] |= outcome["splittable"]
        exercised[outcome["type"]] |= outcome["factors"]
    for kind in checked:
        rest = factors[kind] - exercised[kind]
        if rest:
            print(f"never split: {kind}, {' '.join(sorted(rest))}")
    missing = [kind for kind in wanted if not splits[kind] and kind not in NOT_CHECKED]
    for kind in missing:
        print(f"NEVER CHECKED: {kind} has splittable factors")
    return 1 if faults or missing else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
