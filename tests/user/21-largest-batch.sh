#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The largest batch that fits
# says: 512 +1 +infeasible|512 .*infeasible
# says: written +dgx-a100:1x1 with batch (64|128|256)
partita plan examples/models/gpt2-small.onnx --batch 64,128,256,512 --bind sequence=1024 --mode training --optimizer adam \
    --machine dgx-a100:1x1 --precision bf16 --searcher single-device
