// SPDX-License-Identifier: Apache-2.0
//
// Partita as a library: all of it.
//
//     graph.h     Graph: a network by hand                ─▶ Model
//     model.h     Model: a Graph or an ONNX file, with concrete shapes
//     machine.h   Machine: a preset, a file, this host, or by hand
//     search.h    find_plan(model, machine, options) ─▶ SearchResult
//     profile.h   import_times(): what others measured ─▶ PlanOptions::profile
//     plan.h      Plan: what runs where; plan.json; verify
//     error.h     what is thrown        types.h   Time, Bytes, DType, Shape
//
// docs/api.md is the introduction, examples/api a program.
#pragma once

#include <partita/error.h>
#include <partita/graph.h>
#include <partita/machine.h>
#include <partita/model.h>
#include <partita/plan.h>
#include <partita/profile.h>
#include <partita/search.h>
#include <partita/types.h>
