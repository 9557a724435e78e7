#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A machine of my own: two GPUs and a CPU, from a file
# says: lab: 3 devices
# says: wrote plan.json
partita plan examples/models/resnet50.onnx --batch 32 --machine examples/machines/lab.json --searcher heft -o plan.json
