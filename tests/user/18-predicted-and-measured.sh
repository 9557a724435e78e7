#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How close is what was predicted to what I measure here
# says: costs +.*measured
# says: predicted +[0-9.]+ .?s \([+-][0-9.]+ % of the median\)
partita profile examples/runnable/mlp/model.onnx --batch 16 --machine cpu:2 --db profile.sqlite
partita plan examples/runnable/mlp/model.onnx --batch 16 --machine cpu:2 --profile profile.sqlite -o plan.json
partita execute plan.json examples/runnable/mlp/model.onnx --profile profile.sqlite --iterations 5
