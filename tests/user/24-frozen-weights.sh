#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tuning with frozen weights
# says: optimizer
# says: wrote frozen.json
partita plan examples/models/bert-base.onnx --batch 16 --bind sequence=128 --mode training --optimizer adam \
    --machine dgx-a100 --frozen '*embeddings*' --frozen '*layer.?.*' --searcher data-parallel -o frozen.json
