#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The embedding must be on GPU 0, and layer 3 on GPU 1
# says: wrote pinned.json
# says: legal
cat >fix.json <<'JSON'
{"ops": [{"match": "*/embeddings/*", "devices": [0]}, {"match": "*/layer.3/*", "devices": [1]}]}
JSON
partita plan examples/models/bert-base.onnx --batch 8 --bind sequence=128 --machine dgx-a100:1x4 --fix fix.json \
    --searcher heft -o pinned.json
partita verify pinned.json examples/models/bert-base.onnx
