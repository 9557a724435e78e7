// SPDX-License-Identifier: Apache-2.0
#include "api/costs.h"

#include <utility>

#include <fmt/format.h>

#include "cost/collectives/collective_file.h"
#include "cost/profile/profile_database.h"
#include "cost/profile/profiled_collectives.h"
#include "cost/profile/profiled_cost_model.h"

namespace partita::api {
namespace {

std::string text_of(const std::vector<cost::DeviceKey>& keys) {
    constexpr std::size_t kMostNamed = 4;
    std::string text;
    for (std::size_t i = 0; i < keys.size() && i < kMostNamed; ++i) {
        text += fmt::format("{}'{}'", text.empty() ? "" : ", ", keys[i].model);
        if (!keys[i].setting.empty()) text += fmt::format(" ({})", keys[i].setting);
    }
    if (keys.size() > kMostNamed) text += fmt::format(" and {} more", keys.size() - kMostNamed);
    return text.empty() ? "none" : text;
}

}  // namespace

Costs load_costs(const std::filesystem::path& profile, const cost::Machine& machine) {
    Costs costs;
    if (auto note = cost::collectives_note(machine)) costs.notes.push_back(std::move(*note));
    if (profile.empty()) return costs;
    const cost::Profile rows = cost::read_profile(profile, machine);
    costs.model =
        std::make_shared<cost::FirstMatch>(std::vector<std::shared_ptr<const cost::CostModel>>{
            std::make_shared<cost::GivenCostModel>(),
            std::make_shared<cost::ProfiledCostModel>(rows, machine),
            std::make_shared<cost::Roofline>()});
    auto transfers = std::make_shared<cost::ProfiledCollectives>(rows);
    if (!transfers->empty()) costs.transfers = std::move(transfers);
    costs.measured = rows.file + (rows.date.empty() ? "" : " " + rows.date);
    if (rows.devices.empty()) {
        costs.notes.push_back(
            fmt::format("{}: measured on {}, on no device of machine '{}'. Nothing of it is used.",
                        profile.string(), text_of(rows.keys), machine.name()));
    }
    return costs;
}

std::string measured_costs_of(const plan::Plan& plan) {
    // Last, where make_plan() puts it.
    const bool measured = !plan.cost_sources.empty() &&
                          plan.cost_sources.front().find("profile ") != std::string::npos;
    return measured && plan.cost_sources.size() > 1 ? plan.cost_sources.back() : "";
}

}  // namespace partita::api
