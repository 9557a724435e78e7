#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run it with my own inputs, compare with the outputs that I know, and keep what comes out
# says: expected output 'y'
# says: check +passed
# says: wrote results/y.npy
partita plan examples/runnable/mlp/model.onnx --inputs examples/runnable/mlp/test_data_set_0 --machine cpu:2 -o plan.json
partita execute plan.json examples/runnable/mlp/model.onnx --inputs examples/runnable/mlp/test_data_set_0 --iterations 3 --outputs results
