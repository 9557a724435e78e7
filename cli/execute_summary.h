// SPDX-License-Identifier: Apache-2.0
//
// What an execution showed, for people, for programs and as a page: measured beside predicted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "api/pricing.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "runtime/interface/runtime.h"

namespace partita::cli {

struct Executed {
    const plan::Problem& problem;
    const plan::Priced& priced;
    const runtime::ExecuteResult& result;
    int warmup = 0;
    std::span<const std::filesystem::path> outputs = {};  ///< files that were written
};

/// Do all differences stay within their tolerance? True when nothing was compared.
bool check_passed(const runtime::ExecuteResult& result);

std::string execute_text(const Executed& executed);
std::string execute_json(const Executed& executed);
/// The report page (report/report.h). `title`: which model where.
std::string execute_page(const Executed& executed, const plan::Strategy& strategy,
                         const std::string& title);

}  // namespace partita::cli
