#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How much memory do weights, optimizer and activations take?
# says: memory at its peak .*weights +gradients +optimizer +activations
partita plan examples/models/gpt2-small.onnx --batch 16 --bind sequence=512 --mode training --optimizer adam \
    --machine dgx-a100 --searcher data-parallel
