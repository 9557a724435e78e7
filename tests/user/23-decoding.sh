#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A token of 64 sequences from a cache of 8,191 tokens each: on one node, how long, how much memory?
# says: --batch 64 bound dim 0 of input 'token' .* and such a dim of 64 other inputs
# says: plan +[0-9.]+ ms, lower bound
# says: throughput .* tokens/s
# says: memory at its peak
# says: dgx-h100:1x1 +64 +1 +infeasible
# says: fewest that fit +dgx-h100:1x2
partita plan examples/models/llama-3-8b-decode.onnx --batch 64 --bind past=8191 --machine dgx-h100 --evaluations 200 -o decode.json
partita plan examples/models/llama-3-8b-decode.onnx --batch 64 --bind past=8191 --machine dgx-h100:1x1,1x2,1x4 --searcher expert
