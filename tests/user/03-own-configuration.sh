#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Price tp 4, pp 2, dp 2 with 8 micro-batches in 1F1B, ZeRO-1 and full recomputation
# says: 2 stages, data x 2, tensor x 4 on 16 devices; 8 micro-batches in 1f1b; ZeRO-1
# says: recompute +in full
# says: samples/s
partita plan examples/models/gpt2-small.onnx --batch 32 --bind sequence=1024 --mode training --optimizer adam \
    --precision bf16 --machine 16xA100 --strategy tp=4,pp=2,dp=2,zero=1,vpp=1 --micro-batches 8 --schedule 1f1b --recompute full
