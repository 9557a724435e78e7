#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How do two plans differ?
# says: second / first
# says: all-reduce of gradients
# says: lie elsewhere or are split otherwise
model=examples/models/gpt2-small.onnx
training=(--batch 16 --bind sequence=256 --mode training --machine dgx-a100)
partita plan $model "${training[@]}" --strategy dp=8 --micro-batches 1 -o a.json --quiet
partita plan $model "${training[@]}" --strategy dp=2,tp=4 --micro-batches 1 -o b.json --quiet
partita compare a.json b.json $model
