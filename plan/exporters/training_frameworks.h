// SPDX-License-Identifier: Apache-2.0
//
// A plan that is a regular grid as frameworks that train have it configured:
//
//     megatron     arguments of Megatron-LM's pretrain_*.py, one a line: $(grep -v '^#' FILE)
//     deepspeed    DeepSpeed's configuration, JSON: --deepspeed_config FILE
//     torchtitan   a TOML file: --job.config_file FILE, up to torchtitan 0.2
//
// Only what a plan decides is there: degrees, stages, micro-batches, schedule, shards, recomputation,
// precision, clipping; models, data and learning rates are not. What a framework cannot do is refused.
//
// Source: Megatron-LM, megatron/training/arguments.py (core 0.13); DeepSpeed, runtime/config.py and
// runtime/constants.py (0.17); torchtitan, config/job_config.py (0.2).
#pragma once

#include <string>

#include "plan/exporters/exporter.h"

namespace partita::plan {

/// Throw UsageError as training_grid_of(), and naming what the framework has no word for.
std::string megatron(const ExportInput& input);
std::string deepspeed(const ExportInput& input);
std::string torchtitan(const ExportInput& input);

}  // namespace partita::plan
