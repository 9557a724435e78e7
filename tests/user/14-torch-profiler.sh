#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# I have a trace of torch.profiler: price my plans by it, and say what it does not cover
# says: works +12 of 19 of a step, [0-9.]+ % of its predicted work
# says: these +predicted .* measured
# says: not measured +times +predicted +why
# says: update sgd float32 8192 .*no operator known
# says: costs +[0-9]+ (measured|interpolated).*trace.sqlite
partita profile examples/runnable/mlp/model.onnx --batch 1024 --mode training --machine cpu:2 --import examples/traces/mlp.json --db trace.sqlite
partita plan examples/runnable/mlp/model.onnx --batch 1024 --mode training --machine cpu:2 --profile trace.sqlite -o plan.json
