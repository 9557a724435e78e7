#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What would help most?
# says: the same plan with +time
# says: bandwidth inside nodes x 2
# says: ^path 
partita plan examples/models/vgg16.onnx --batch 64 --mode training --machine dgx-1-v100 --searcher data-parallel -o plan.json
partita explain plan.json examples/models/vgg16.onnx
