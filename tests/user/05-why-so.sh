#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Why is this op split so?
# says: m 224|n 8
# says: instead +where +ops changed +time
# says: as it is
partita plan examples/models/resnet50.onnx --batch 64 --mode training --machine dgx-a100 --searcher data-parallel -o plan.json
partita explain plan.json examples/models/resnet50.onnx /layer1/layer1.0/conv1/Conv
