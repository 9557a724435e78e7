#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same result twice
# says: the same
plan() { partita plan examples/models/alexnet.onnx --batch 64 --mode training --machine dgx-1-v100 --evaluations 2000 --seed 7 --quiet "$@"; }
plan -o one.json
plan -o two.json --threads 1
cmp one.json two.json && echo the same
