// SPDX-License-Identifier: Apache-2.0
//
// Every option of PlanOptions means what it means to `partita plan`: the table of options is
// walked, as typed fields, as text, as JSON and by the program.
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/option_table.h"
#include "base/error.h"
#include "cost/profile/profile_database.h"
#include "tests/api/networks.h"
#include "tests/cli/program.h"

#include <partita/partita.h>

namespace partita {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Converts to any field, to count how many an aggregate has.
struct AnyField {
    template <class T>
    operator T() const;
};

template <class Aggregate, class... Fields>
constexpr std::size_t field_count() {
    if constexpr (requires { Aggregate{Fields{}..., AnyField{}}; }) {
        return field_count<Aggregate, Fields..., AnyField>();
    } else {
        return sizeof...(Fields);
    }
}

/// The texts of all rows.
std::vector<std::optional<std::string>> texts_of(const PlanOptions& options) {
    std::vector<std::optional<std::string>> texts;
    for (const api::OptionRow& row : api::option_table()) texts.push_back(row.write(options));
    return texts;
}

/// What `act` refuses, of either kind; "": nothing.
std::string refused(const std::function<void()>& act) {
    try {
        act();
    } catch (const UsageError& error) {
        return error.what();
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

const std::string kNoText = "no-text";

struct PlanOptionsTest : tests::ProgramTest {
    const std::string file = tests::example("runnable/convnet/model.onnx");
    Model model = Model::load(file, {.batch = 32});
    Machine machine = Machine::load("p100-cluster:2x2");

    std::string planned(PlanOptions options) {
        options.evaluations = 60;
        return find_plan(model, machine, options).plan().json();
    }

    std::string program(std::vector<std::string> options) {
        std::vector<std::string> all{
            "plan", file, "--batch", "32", "--machine", "p100-cluster:2x2", "--evaluations", "60"};
        all.insert(all.end(), options.begin(), options.end());
        const tests::Outcome outcome = run(all);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return read("plan.json");
    }

    /// The plan that the program writes, or what it says.
    std::string planned_or_refused(const std::vector<std::string>& options) {
        std::vector<std::string> all{
            "plan", file, "--batch", "32", "--machine", "p100-cluster:2x2", "--quiet"};
        all.insert(all.end(), options.begin(), options.end());
        const tests::Outcome outcome = run(all);
        return outcome.code == 0 ? read("plan.json") : outcome.err;
    }

    std::string complaint(const std::function<void(PlanOptions&)>& spoil) {
        PlanOptions options;
        spoil(options);
        try {
            static_cast<void>(find_plan(model, machine, options));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "nothing";
    }
};

TEST_F(PlanOptionsTest, TheProgramWritesTheSameBytes) {
    EXPECT_EQ(planned({}), program({}));
    EXPECT_EQ(
        planned({.mode = Mode::training,
                 .optimizer = Optimizer::adam,
                 .loss = Loss::mse,
                 .loss_output = "y",
                 .gradient_sync = GradientSync::parameter_server,
                 .micro_batches = 2,
                 .seed = 7,
                 .threads = 2}),
        program({"--mode", "training", "--optimizer", "adam", "--loss", "mse:y", "--gradient-sync",
                 "parameter-server", "--micro-batches", "2", "--seed", "7"}));
    EXPECT_EQ(planned({.mode = Mode::training}), program({"--mode", "training"}));
    EXPECT_EQ(planned({.mode = Mode::training,
                       .micro_batches = 4,
                       .schedule = Schedule::one_f_one_b,
                       .searchers = {"expert"}}),
              program({"--mode", "training", "--micro-batches", "4", "--schedule", "1f1b",
                       "--searcher", "expert"}));
    EXPECT_EQ(planned({.splits = {.attribute = false, .parameter = false, .reduction = false},
                       .memory_limit = gigabytes(1),
                       .searchers = {"heft", "mcmc"},
                       .scheduler = Scheduler::fifo,
                       .groups = false}),
              program({"--dims", "S,O", "--memory-limit", "1GB", "--searcher", "heft,mcmc",
                       "--scheduler", "fifo", "--no-groups"}));
    EXPECT_EQ(planned({.searchers = {"mcmc"}, .scheduler = Scheduler::rank}),
              program({"--searcher", "mcmc", "--scheduler", "rank"}));
    EXPECT_EQ(planned({.objective = Objective::throughput}),
              program({"--objective", "throughput"}));
    EXPECT_EQ(planned({.objective = Objective::throughput, .contiguous = true}),
              program({"--objective", "throughput", "--contiguous"}));
}

// placements, together, start, progress and stop have no option; loss_output and chunks are in the
// text of another one.
TEST_F(PlanOptionsTest, EveryFieldIsInARow) {
    EXPECT_EQ(field_count<PlanOptions>() - 5 - 2, api::option_table().size());
}

TEST_F(PlanOptionsTest, EachRowHasAFieldOfItsOwn) {
    std::set<std::string_view> names;
    const auto defaults = texts_of({});
    for (std::size_t i = 0; i < defaults.size(); ++i) {
        const api::OptionRow& row = api::option_table()[i];
        EXPECT_TRUE(names.insert(row.name()).second) << row.name();
        PlanOptions options;
        options.set(row.name(), row.field.example);
        auto texts = texts_of(options);
        EXPECT_NE(texts[i], defaults[i]) << row.name();
        texts[i] = defaults[i];
        EXPECT_EQ(texts, defaults) << row.name();
    }
}

TEST_F(PlanOptionsTest, WhatIsWrittenIsRead) {
    for (const api::OptionRow& row : api::option_table()) {
        PlanOptions options;
        if (const auto text = options.text(row.name())) options.set(row.name(), *text);
        EXPECT_EQ(texts_of(options), texts_of({})) << row.name();
        options.set(row.name(), row.field.example);
        PlanOptions again;
        again.set(row.name(), options.text(row.name()).value());
        EXPECT_EQ(texts_of(again), texts_of(options)) << row.name();
        again = PlanOptions::parse(options.json());
        EXPECT_EQ(texts_of(again), texts_of(options)) << options.json();
    }
}

TEST_F(PlanOptionsTest, EveryRowIsInTheHelp) {
    const std::string help = run({"plan", "--help"}).out;
    for (const OptionInfo& info : plan_options()) {
        const std::string line =
            "\n  --" + info.name + (info.value.empty() ? "" : " ") + info.value;
        EXPECT_THAT(help, HasSubstr(line + (line.size() < 26 ? " " : "\n")));
        EXPECT_THAT(help, HasSubstr(info.help.substr(0, 20)));
    }
}

TEST_F(PlanOptionsTest, EachRowMeansTheSameToTheProgram) {
    for (const api::OptionRow& row : api::option_table()) {
        const std::string example(row.field.example);
        const bool flag = row.field.form == api::OptionForm::flag;
        std::vector<std::string> arguments{std::string(row.option)};
        if (!flag) arguments.push_back(example);
        PlanOptions options;
        options.set(row.name(), example);
        if (row.name() != "evaluations") {
            arguments.insert(arguments.end(), {"--evaluations", "20"});
            options.evaluations = 20;
        }
        if (row.says_how_to_train) {
            arguments.insert(arguments.end(), {"--mode", "training"});
            options.mode = Mode::training;
        }
        std::string plan;
        const std::string refusal =
            refused([&] { plan = find_plan(model, machine, options).plan().json(); });
        const std::string by_program = planned_or_refused(arguments);
        EXPECT_EQ(by_program, refusal.empty() ? plan : "partita: " + refusal + "\n") << row.name();
    }
}

TEST_F(PlanOptionsTest, BadTextIsRefusedWithTheSameWords) {
    for (const api::OptionRow& row : api::option_table()) {
        PlanOptions options;
        const std::string said = refused([&] { options.set(row.name(), kNoText); });
        if (said.empty()) continue;  // a path
        EXPECT_THAT(said, HasSubstr(row.option));
        EXPECT_THAT(said, HasSubstr(kNoText));
        EXPECT_EQ(planned_or_refused({std::string(row.option) + "=" + kNoText}),
                  "partita: " + said + "\n");
    }
}

TEST_F(PlanOptionsTest, JsonHoldsWhatIsNotTheDefault) {
    EXPECT_EQ(PlanOptions{}.json(), "{}");
    const PlanOptions options{.mode = Mode::training,
                              .micro_batches = 8,
                              .schedule = Schedule::interleaved,
                              .chunks = 2,
                              .time_limit = std::chrono::milliseconds(1'500),
                              .seed = 9'007'199'254'740'993,
                              .groups = false};
    EXPECT_EQ(options.json(),
              R"({"mode": "training", "micro-batches": 8, "schedule": "interleaved:2", )"
              R"("time-limit": 1.5, "seed": 9007199254740993, "no-groups": true})");
    EXPECT_EQ(PlanOptions::parse(options.json()).json(), options.json());
    EXPECT_EQ(PlanOptions::parse(R"({"memory-limit": "1KiB", "dims": "S,O"})").json(),
              R"({"dims": "O,S", "memory-limit": 1024})");
}

TEST_F(PlanOptionsTest, BadJsonIsNamed) {
    const auto refusal = [](const std::string& json) {
        return refused([&] { static_cast<void>(PlanOptions::parse(json, "mine.json")); });
    };
    EXPECT_THAT(refusal("{"), HasSubstr("mine.json"));
    EXPECT_EQ(refusal(R"({"seed": [1]})"),
              "mine.json: seed: expected a text or a number, got [1]. Write it as on the command "
              "line.");
    EXPECT_THAT(refusal(R"({"no-groups": 1})"), HasSubstr("no-groups: expected true or false"));
    EXPECT_EQ(refusal(R"({"threads": 2.5})"),
              "mine.json: --threads 2.5: expected a whole number from 1 to 1024.");
    EXPECT_THAT(
        refusal(R"({"thread": 2})"),
        AllOf(StartsWith("mine.json: "),
              HasSubstr("thread: no option of plans. There is: framework, mode, optimizer, ")));
}

TEST_F(PlanOptionsTest, MeasuredCostsAreThoseOfTheProgram) {
    const auto profile = folder() / "profile.sqlite";
    const cost::DeviceKey gpu{.model = "Tesla P100-SXM2-16GB", .setting = ""};
    const cost::MeasuredWork pack{.signature = {.family = "pack float32", .text = "pack float32 8"},
                                  .type = "Pack",
                                  .phase = cost::Phase::pack,
                                  .bytes = Bytes(64),
                                  .time = {.median = microseconds(3),
                                           .lower = microseconds(3),
                                           .upper = microseconds(3),
                                           .versions = "",
                                           .date = "2026-11-22T10:00:00Z"}};
    cost::ProfileDatabase::create(profile).add(gpu, {&pack, 1});
    const std::string plan = planned({.profile = profile});
    EXPECT_EQ(plan, program({"--profile", "profile.sqlite"}));
    EXPECT_THAT(plan, HasSubstr("profile.sqlite"));
    EXPECT_THAT(Plan::parse(plan).verify(model, profile), IsEmpty());
    EXPECT_THAT(Plan::parse(plan).verify(model), testing::Contains(HasSubstr("--profile")));
    EXPECT_THROW(static_cast<void>(planned({.profile = folder() / "none.sqlite"})), InputError);
}

TEST_F(PlanOptionsTest, AWorkloadBringsItsMachine) {
    const std::string workload = tests::example("workloads/throughput/layer_bert24_inference.json");
    const Model costed = Model::load(workload);
    ASSERT_TRUE(costed.machine());
    EXPECT_FALSE(model.machine());
    const Plan plan = find_plan(costed, *costed.machine(), {.evaluations = 30}).plan();
    EXPECT_EQ(plan.objective(), Objective::throughput);
    EXPECT_EQ(run({"plan", workload, "--evaluations", "30"}).code, 0);
    EXPECT_EQ(plan.json(), read("plan.json"));
}

TEST_F(PlanOptionsTest, PlacementsAreThoseOfAFileOfConstraints) {
    write("fix.json", R"({"ops": [{"match": "/block/*", "devices": [1, 2]}],
                          "together": ["/left/*", "/right/*"]})");
    const auto by_file = planned({.fix = folder() / "fix.json"});
    EXPECT_EQ(planned({.placements = {{.match = "/block/*", .devices = {2, 1}}},
                       .together = {{"/left/*", "/right/*"}}}),
              by_file);
    EXPECT_EQ(program({"--fix", "fix.json"}), by_file);
    for (const OpPlan& op : Plan::parse(by_file).ops()) {
        if (op.name.starts_with("/block/")) {
            EXPECT_THAT(op.devices, Each(testing::AnyOf(1, 2))) << op.name;
        }
    }
}

TEST_F(PlanOptionsTest, NoKindOfSplitMeansWholeOps) {
    const Splits none{.sample = false, .attribute = false, .parameter = false, .reduction = false};
    for (const OpPlan& op : Plan::parse(planned({.splits = none})).ops()) {
        EXPECT_THAT(op.degrees, IsEmpty()) << op.name;
    }
}

TEST_F(PlanOptionsTest, WrongOnesAreNamed) {
    EXPECT_EQ(complaint([](PlanOptions& o) { o.micro_batches = 0; }),
              "--micro-batches 0: expected a whole number from 1 to 4096.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.schedule = Schedule::interleaved; }),
              "chunks 1: expected a number from 2 to 64.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.chunks = 2; }),
              "chunks 2: expected a number from 1 to 1.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.optimizer = Optimizer::sgd; }),
              "--optimizer: says how to train, but nothing is trained. Add --mode training.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.objective = Objective::step_time; }),
              "--objective step-time: of training. Add --mode training.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.loss_output = "y"; }),
              "loss_output 'y': says of what, but not which loss. Give `loss` too.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.evaluations = 0; }),
              "--evaluations 0: expected a whole number >= 1.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.time_limit = std::chrono::seconds(-1); }),
              "--time-limit -1: expected seconds, a number from 0 to 1e9.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.threads = -1; }),
              "--threads -1: expected a whole number from 1 to 1024.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.memory_limit = Bytes{0}; }),
              "--memory-limit 0: expected an amount of bytes, e.g. 8000000000, 8GB or 8GiB.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.seed = ~std::uint64_t{0}; }),
              "--seed 18446744073709551615: expected a whole number >= 0.");
    EXPECT_THAT(complaint([](PlanOptions& o) { o.contiguous = true; }),
                HasSubstr("--contiguous: pieces that each sample passes once are for throughput"));
    EXPECT_EQ(complaint([](PlanOptions& o) {
                  o.searchers = {"heft", "mcmc"};
                  o.contiguous = true;
              }),
              "--contiguous: searcher heft,mcmc places ops anywhere. Leave --searcher out.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.searchers.clear(); }),
              "--searcher: expected at least one, e.g. auto.");
    EXPECT_THAT(complaint([](PlanOptions& o) { o.searchers = {"magic"}; }),
                testing::HasSubstr("magic"));
    EXPECT_EQ(complaint([](PlanOptions& o) { o.placements = {{.match = "/x*", .devices = {0}}}; }),
              "placements: \"/x*\" matches no op of model.onnx. Model::ops() lists their names.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.placements = {{.match = "*", .devices = {4}}}; }),
              "placements: device 4: expected a number from 0 to 3.");
    EXPECT_EQ(complaint([](PlanOptions& o) { o.placements = {{.match = "*", .devices = {}}}; }),
              "placements: \"*\": expected at least one device.");
    EXPECT_EQ(complaint([](PlanOptions& o) {
                  o.placements = {{.match = "/block/*", .devices = {0}},
                                  {.match = "/block/block.0/Conv", .devices = {1}}};
              }),
              "placements: \"/block/block.0/Conv\" leaves op '/block/block.0/Conv' no device, "
              "together with the ones before it. Let them share a device.");
}

TEST_F(PlanOptionsTest, OptionsOfLearningAreCheckedBeforeAnythingIsLoaded) {
    const std::string nothing_learns =
        ": none of the searchers learns. Add --searcher rl or rl-hierarchical.";
    EXPECT_EQ(complaint([](PlanOptions& o) { o.save_policy = "p"; }),
              "--save-policy" + nothing_learns);
    EXPECT_EQ(complaint([](PlanOptions& o) { o.load_policy = "p"; }),
              "--load-policy" + nothing_learns);
    EXPECT_EQ(complaint([](PlanOptions& o) { o.zero_shot = true; }),
              "--zero-shot" + nothing_learns);
    EXPECT_EQ(complaint([](PlanOptions& o) { o.learning_curve = "c.csv"; }),
              "--learning-curve" + nothing_learns);
    EXPECT_EQ(complaint([](PlanOptions& o) { o.reward = Reward::measured; }),
              "--reward" + nothing_learns);
    EXPECT_THAT(complaint([](PlanOptions& o) {
                    o.searchers = {"rl", "heft"};
                    o.reward = Reward::measured;
                }),
                HasSubstr("searcher heft goes by predicted times"));
    EXPECT_THAT(complaint([](PlanOptions& o) {
                    o.searchers = {"rl"};
                    o.save_policy = "nowhere/p";
                }),
                HasSubstr("--save-policy nowhere/p: cannot be written"));
}

}  // namespace
}  // namespace partita
