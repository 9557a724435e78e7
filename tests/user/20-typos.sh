#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Typing errors in options, presets and commands
# says: Is it '--batch'\?
# says: Is it 'dgx-h100'\?
# says: Is it 'plan'\?
! partita plan examples/models/resnet50.onnx --bacth 8
! partita plan examples/models/resnet50.onnx --batch 8 --machine dgx-h10
! partita plna
