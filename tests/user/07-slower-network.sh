#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What if the network were four times slower?
# says: simulated .* times\)
# says: throughput
partita plan examples/models/vgg16.onnx --batch 64 --mode training --machine dgx-1-v100:2 --searcher data-parallel -o plan.json
partita simulate plan.json examples/models/vgg16.onnx --scale network=0.25
