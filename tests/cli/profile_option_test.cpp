// SPDX-License-Identifier: Apache-2.0
//
// --profile: measured costs in plan, compare, simulate and verify.
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/loaded_model.h"
#include "api/request.h"
#include "cost/machine/machine_file.h"
#include "cost/profile/profile_database.h"
#include "tests/cli/program.h"
#include "tests/support/fusion_prices.h"
#include "tests/support/random_profile.h"

namespace partita::tests {
namespace {

using testing::HasSubstr;
using testing::Not;
using JsonValue = nlohmann::json;

class ProfileOption : public ProgramTest {
protected:
    const std::string model_ = example("runnable/mlp/model.onnx");

    /// A database that knows random parts of the model on the devices of a machine.
    void measure(const std::string& name, std::uint64_t seed,
                 const std::string& machine_name = "cpu:2") {
        search::Random random(seed);
        const api::LoadedModel loaded = api::load_model(model_, {.batch = 8});
        const cost::Machine machine = cost::load_machine(machine_name);
        const plan::Problem problem = api::make_problem(loaded, machine, {});
        cost::ProfileDatabase database = cost::ProfileDatabase::create(folder() / name);
        constexpr int kDraws = 8;  // each leaves some out
        for (int i = 0; i < kDraws; ++i) {
            const cost::Profile drawn = support::random_profile(random, problem);
            for (const cost::DeviceProfile& rows : drawn.devices) {
                database.add(rows.device, rows.works);
                database.add(rows.device, rows.transfers);
            }
        }
    }

    JsonValue summary(std::vector<std::string> arguments) {
        arguments.emplace_back("--json");
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, 0) << result.err;
        return JsonValue::parse(result.out);
    }
};

TEST_F(ProfileOption, PricesByMeasuredCostsAndCountsThem) {
    measure("profile.sqlite", 1);
    const Outcome planned = run(plan_mlp({"--profile", "profile.sqlite"}));
    EXPECT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr(" measured, "));
    EXPECT_THAT(planned.out, HasSubstr(" tasks (profile.sqlite 2026-11-22)"));
    const JsonValue plan = JsonValue::parse(read("plan.json"));
    EXPECT_EQ(plan["costs"]["sources"].back(), "profile.sqlite 2026-11-22");
    const JsonValue found = summary(plan_mlp({"--profile", "profile.sqlite"}));
    EXPECT_GT(found["costs"]["measured"], 0);
    EXPECT_EQ(found["costs"]["measured"].get<int>() + found["costs"]["interpolated"].get<int>() +
                  found["costs"]["analytic"].get<int>(),
              found["tasks"]);
    EXPECT_NE(found["value_ps"], summary(plan_mlp())["value_ps"]);
}

TEST_F(ProfileOption, OfCompareAndSimulateIsThatOfPlan) {
    measure("profile.sqlite", 2);
    const JsonValue planned = summary(plan_mlp({"--profile", "profile.sqlite"}));
    const JsonValue simulated =
        summary({"simulate", "plan.json", model_, "--profile", "profile.sqlite"});
    EXPECT_EQ(simulated["value_ps"], planned["value_ps"]);
    EXPECT_EQ(simulated["costs"], planned["costs"]);
    const JsonValue compared =
        summary({"compare", model_, "--batch", "8", "--machine", "cpu:2", "--profile",
                 "profile.sqlite", "--searchers", "critical-path"});
    EXPECT_EQ(compared["searchers"][0]["value_ps"], planned["value_ps"]);
    EXPECT_EQ(compared["lower_bound_ps"], planned["lower_bound_ps"]);
}

TEST_F(ProfileOption, BelongsToThePlan) {
    measure("profile.sqlite", 3);
    measure("other.sqlite", 4);
    EXPECT_EQ(run(plan_mlp({"--profile", "profile.sqlite"})).code, 0);
    EXPECT_EQ(run({"verify", "plan.json", model_, "--profile", "profile.sqlite"}).code, 0);
    // The content counts, not its name or place.
    std::filesystem::rename(folder() / "profile.sqlite", folder() / "renamed.sqlite");
    EXPECT_EQ(run({"verify", "plan.json", model_, "--profile", "renamed.sqlite"}).code, 0);
    for (const auto& options : {std::vector<std::string>{}, {"--profile", "other.sqlite"}}) {
        std::vector<std::string> verify = {"verify", "plan.json", model_};
        verify.insert(verify.end(), options.begin(), options.end());
        const Outcome outcome = run(verify);
        EXPECT_EQ(outcome.code, 6);
        EXPECT_THAT(outcome.out, HasSubstr("'profile.sqlite 2026-11-22'"));
        EXPECT_THAT(outcome.out, HasSubstr("Give the same --profile as to the plan"));
    }
    const Outcome simulated = run({"simulate", "plan.json", model_});
    EXPECT_EQ(simulated.code, 0);
    EXPECT_THAT(simulated.err, HasSubstr("measured costs of profile.sqlite 2026-11-22. Give "
                                         "--profile"));
}

TEST_F(ProfileOption, OfOtherPricesLeavesAPlanItsTasks) {
    const cost::Machine machine = cost::load_machine("cpu:2");
    support::write_fusion_profile(folder() / "dear.sqlite", support::Fusions::dear, machine);
    support::write_fusion_profile(folder() / "cheap.sqlite", support::Fusions::cheap, machine);
    for (const char* planned : {"dear.sqlite", "cheap.sqlite"}) {
        const JsonValue summary_of_plan = summary(
            plan_mlp({"--mode", "training", "--searcher", "data-parallel", "--profile", planned}));
        for (const char* given : {"dear.sqlite", "cheap.sqlite"}) {
            const JsonValue simulated =
                summary({"simulate", "plan.json", model_, "--profile", given});
            EXPECT_EQ(simulated["tasks"], summary_of_plan["tasks"]);
            EXPECT_EQ(simulated["value_ps"] == summary_of_plan["value_ps"],
                      std::string(given) == planned);
        }
        EXPECT_EQ(summary({"simulate", "plan.json", model_})["tasks"], summary_of_plan["tasks"]);
        const Outcome exported =
            run({"export", "plan.json", model_, "--format", "chrome-trace", "-o", "trace.json"});
        EXPECT_EQ(exported.code, 0) << exported.err;
    }
}

TEST_F(ProfileOption, OfOtherDevicesIsNotUsedAndSaidToBe) {
    measure("profile.sqlite", 5, "dgx-a100");
    const Outcome planned = run(plan_mlp({"--profile", "profile.sqlite"}));
    EXPECT_EQ(planned.code, 0);
    EXPECT_THAT(planned.err, HasSubstr("on no device of machine 'cpu:2'"));
    EXPECT_THAT(planned.out, Not(HasSubstr("measured,")));
}

TEST_F(ProfileOption, MustNameADatabase) {
    const auto refused = [&](const std::string& what) {
        const Outcome outcome = run(plan_mlp({"--profile", "profile.sqlite"}));
        EXPECT_EQ(outcome.code, 3);
        EXPECT_THAT(outcome.err, HasSubstr("profile.sqlite: " + what));
        EXPECT_FALSE(std::filesystem::exists(folder() / "plan.json"));
    };
    refused("there is no such file");
    write("profile.sqlite", std::string(5000, 'x'));
    refused("is no profile database");
    std::filesystem::remove(folder() / "profile.sqlite");
    measure("profile.sqlite", 6);
    std::ofstream(folder() / "profile.sqlite", std::ios::in | std::ios::out | std::ios::binary)
        .seekp(4096)
        .write(std::string(4096, '\x5A').data(), 4096);
    refused("");
}

TEST_F(ProfileOption, IsNoOutput) {
    measure("profile.sqlite", 7);
    const Outcome outcome = run(plan_mlp({"--profile", "profile.sqlite", "-o", "profile.sqlite"}));
    EXPECT_EQ(outcome.code, 2);
}

}  // namespace
}  // namespace partita::tests
