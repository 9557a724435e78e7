#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Only three of the eight GPUs are free
# says: dgx-a100:1x3: 3 devices
# says: on 3 devices
partita plan examples/models/resnet50.onnx --batch 48 --mode training --machine dgx-a100:1x3 --searcher data-parallel
