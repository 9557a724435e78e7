#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Look at what ran: a page with predicted above measured
# says: wrote executed.html
# says: largest errors
partita plan examples/runnable/encoder-layer/model.onnx --bind batch=8 --bind sequence=64 --mode training --machine cpu:2 -o plan.json
partita execute plan.json examples/runnable/encoder-layer/model.onnx --iterations 3 --report executed.html
