#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the conformance node tests of the installed `onnx` package, one folder per case:

    NAME/model.onnx
    NAME/case.json                        what the stored values look like, see below
    NAME/test_data_set_K/input_J.pb       TensorProto, SequenceProto or OptionalProto
    NAME/test_data_set_K/output_J.pb

case.json describes the outputs of data set 0, so that a test of shape inference needs no values:

    {"tensors_only": false,               whether all inputs and outputs are tensors
     "outputs": [{"name": "y", "kind": "tensor", "shape": [2, 3]},
                 {"name": "s", "kind": "sequence", "shapes": [[2, 3], [4]]}]}

An optional has the kind of what it holds, or "none". Of 1,884 cases (onnx 1.23.2), 1,858 have
tensors only.

Usage: onnx_node_tests.py OUT_DIR
"""
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def is_tensor(value):
    return isinstance(value, (np.ndarray, np.generic, onnx.TensorProto))


def to_proto(value, info):
    """The protobuf of one stored value, of the kind that the model declares."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if isinstance(value, dict):
        return numpy_helper.from_dict(value, info.name)
    if kind == "sequence_type" or isinstance(value, list):
        return numpy_helper.from_list(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def describe(value, name):
    """Kind and shape of one stored value."""
    if value is None:
        return {"name": name, "kind": "none"}
    if isinstance(value, onnx.TensorProto):
        return {"name": name, "kind": "tensor", "shape": list(value.dims)}
    if isinstance(value, dict):
        return {"name": name, "kind": "map"}
    if isinstance(value, list):
        return {"name": name, "kind": "sequence", "shapes": [list(np.shape(v)) for v in value]}
    return {"name": name, "kind": "tensor", "shape": list(np.shape(value))}


def main(out):
    # The cases divide by zero and overflow on purpose.
    warnings.simplefilter("ignore", RuntimeWarning)
    written = tensors_only = 0
    without_data = []
    for case in collect_testcases(None):
        graph = case.model.graph
        folder = out / case.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        outputs = case.data_sets[0][1]
        described = {
            "tensors_only": all(is_tensor(v) for data_set in case.data_sets
                                for side in data_set for v in side),
            "outputs": [describe(v, info.name) for v, info in zip(outputs, graph.output)],
        }
        tensors_only += described["tensors_only"]
        (folder / "case.json").write_text(json.dumps(described) + "\n")
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data_set = folder / f"test_data_set_{k}"
            data_set.mkdir(exist_ok=True)
            for kind, values, infos in (("input", inputs, graph.input),
                                        ("output", outputs, graph.output)):
                for j, value in enumerate(values):
                    try:
                        proto = to_proto(value, infos[j])
                    except (TypeError, ValueError, AttributeError, KeyError):
                        # No file: this package's own writer does not know the kind either.
                        without_data.append(f"{case.name}/{kind}_{j}")
                        continue
                    (data_set / f"{kind}_{j}.pb").write_bytes(proto.SerializeToString())
        written += 1
    print(f"{written} conformance node tests written, {tensors_only} with tensors only")
    if without_data:
        print("model only, a value has no file form:", " ".join(without_data))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
