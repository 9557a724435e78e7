#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same in bf16, though it is exported in float32
# says: tensors are bfloat16 that the file says to be float32
# says: optimizer
partita plan examples/models/bert-base.onnx --batch 32 --bind sequence=128 --mode training --optimizer adam \
    --precision bf16 --machine dgx-a100 --searcher data-parallel
