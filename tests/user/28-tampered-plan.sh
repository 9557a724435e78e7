#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Somebody changed the plan
# exit: 6
# says: not legal, 1 finding|not legal, [0-9]+ findings
partita plan examples/runnable/mlp/model.onnx --batch 8 --machine cpu:2 --searcher single-device -o plan.json
sed -i 's/"value_ps": [0-9]*/"value_ps": 1/' plan.json
partita verify plan.json examples/runnable/mlp/model.onnx
