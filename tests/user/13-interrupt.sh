#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# It takes too long: interrupt it, and keep the best plan so far
# says: interrupted: this is the best plan so far
# says: legal
timeout --preserve-status -s INT 4 partita plan examples/models/inception_v3.onnx --batch 32 --mode training \
    --machine dgx-a100 --searcher mcmc --time-limit 600 -o plan.json
partita verify plan.json examples/models/inception_v3.onnx
