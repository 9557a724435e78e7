#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many H100 for a batch of 64 x 1024, in how much time, at what cost?
# says: fewest that fit
# says: fewest within 100 ms +dgx-h100:1
# says: cost of 1 M tokens
# says: tokens/s
partita plan examples/models/gpt2-small.onnx --batch 64 --bind sequence=1024 --mode training --optimizer adam \
    --precision bf16 --machine dgx-h100 --devices-at-most 32 --set device.price_per_hour=3 --step-time-at-most 100ms \
    --searcher data-parallel
