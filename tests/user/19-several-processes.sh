#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same plan by several processes
# says: measured
# needs: mpirun
partita plan examples/runnable/mlp/model.onnx --batch 64 --mode training --machine cpu:2 --searcher data-parallel -o plan.json
mpirun --allow-run-as-root --oversubscribe -n 2 partita execute plan.json examples/runnable/mlp/model.onnx --check --iterations 3
