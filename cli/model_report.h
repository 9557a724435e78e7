// SPDX-License-Identifier: Apache-2.0
//
// `inspect MODEL`: what is in a model, in text and as JSON.
#pragma once

#include <string>

#include "cli/load.h"

namespace partita::cli {

struct ModelReportOptions {
    bool ops = false;  ///< one row per op with its factors, the legal ways to split it
};

/// `loaded.problem` prices the critical path when there is one; without, it is in FLOPs only.
std::string model_report_text(const LoadedModel& model, const plan::Problem* problem,
                              const ModelReportOptions& options);
std::string model_report_json(const LoadedModel& model, const plan::Problem* problem,
                              const ModelReportOptions& options);

}  // namespace partita::cli
