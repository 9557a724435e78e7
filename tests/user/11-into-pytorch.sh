#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Use the plan in PyTorch
# says: "meshes"
partita plan examples/models/resnet50.onnx --batch 64 --mode training --machine dgx-a100 --searcher data-parallel -o plan.json
partita export plan.json examples/models/resnet50.onnx --format dtensor -o plan.dtensor.json
grep -m1 meshes plan.dtensor.json
