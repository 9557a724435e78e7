#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A plan for another batch size, and which is better
# says: machine +batch +devices
# says: batch = (64|128)
partita plan examples/models/resnet50.onnx --batch 64,128 --mode training --machine dgx-a100 --searcher data-parallel
