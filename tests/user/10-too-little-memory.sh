#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two GPUs with too little memory: what is short, and by how much?
# exit: 4
# says: infeasible: .*(GiB|MiB)
partita plan examples/models/llama-3-8b.onnx --batch 1 --bind sequence=128 --mode training --optimizer adam \
    --machine dgx-a100:1x2 --memory-limit 16GiB
