// SPDX-License-Identifier: Apache-2.0
//
// A plan inside its model's own ONNX file, in ONNX's words for several devices (IR version 11):
//
//     ModelProto.configuration              the machine: "partita", its devices by name
//     NodeProto.device_configurations       per node: for each operand and result how it is cut and
//                                           which devices have which part; the stage of a pipeline
//
// The network is left as it is, weights and external data included. Nodes are found by the names of
// their results; those that were folded into another op, or have no config, say nothing. Communication
// is implicit: what is cut along a dim that a product sums over is whole again in its result, so
// partial results are said as their sum, on all devices that have a summand.
//
// Source: ONNX proposals 0006 (multi-device) and 0007 (sharding formalism), onnx.proto.
#pragma once

#include <filesystem>
#include <string>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::api {

/// The bytes of the file. Throws InputError when `model` cannot be read.
std::string onnx_with_sharding(const std::filesystem::path& model, const plan::Problem& problem,
                               const plan::Strategy& strategy);

/// Does the model keep tensors in other files, which are named relative to its folder? Throws the same.
bool has_external_data(const std::filesystem::path& model);

}  // namespace partita::api
