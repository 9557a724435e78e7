#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model of my own, exported by PyTorch with dynamic dims and weights in a file beside it
# says: batch = 8, sequence = 64
# says: wrote plan.json
partita plan examples/runnable/encoder-layer/model.onnx --bind batch=8 --bind sequence=64 --machine cpu:2 -o plan.json
