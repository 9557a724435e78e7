#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How much does a pipeline get through?
# says: throughput of
# says: (lower bound|optimal)
partita plan examples/workloads/throughput/layer_gnmt_training.json --time-limit 2 -o gnmt.json
