// SPDX-License-Identifier: Apache-2.0
//
// What a plan's tasks are priced by: costs given by a workload, else measured ones of a profile
// database where there is one, else the roofline; and for what moves measured transfers, else what
// the machine names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "plan/files/plan_file.h"

namespace partita::api {

struct Costs {
    std::shared_ptr<const cost::CostModel> model = cost::default_cost_model();
    std::shared_ptr<const cost::CollectiveModel> transfers;  ///< null: none measured
    std::string measured;            ///< "profile.sqlite 2026-11-22"; "" without a database
    std::vector<std::string> notes;  ///< e.g. that it knows no device of the machine
};

/// `profile`: a database, or "" for none. Throws InputError when it cannot be read.
Costs load_costs(const std::filesystem::path& profile, const cost::Machine& machine);

/// The database that a plan was made with, as Costs::measured; "" if with none.
std::string measured_costs_of(const plan::Plan& plan);

}  // namespace partita::api
