// SPDX-License-Identifier: Apache-2.0
//
// plan.json and verify(): what planners write is accepted and comes back unchanged; each kind of
// corruption is refused, and the message says which.
#include "plan/files/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "plan/evaluation/priced.h"
#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class PlanFile : public testing::Test {
protected:
    static ProblemOptions options() {
        ProblemOptions options;
        options.mode = Mode::training;
        options.objective = Objective::step_time;
        options.constraints.allowed = {{}, {}, {0, 1}};
        options.constraints.together = {{graph::OpId(3U), graph::OpId(2U)}};
        return options;
    }

    PlanFile()
        : graph_(two_layers()),
          machine_(switched_machine(3)),
          problem_(make_problem(graph_, machine_, options())),
          strategy_(whole_ops({0, 0, 0, 0, 1, 1, 1}, problem_.policy())),
          plan_(make_plan(problem_, strategy_, {.searcher = "hand", .lower_bound = Time{1}})) {
        plan_.model_file = "two_layers.onnx";
        plan_.bindings = {{"batch", 8}};
    }

    std::string first_finding(const Plan& plan) {
        const auto findings = verify(problem_, plan);
        return findings.empty() ? "accepted" : findings.front();
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
    Strategy strategy_;
    Plan plan_;
};

TEST_F(PlanFile, ComesBackAsItWasWritten) {
    const std::string text = to_json(plan_);
    const Plan again = parse_plan(text, "plan.json");
    EXPECT_EQ(to_json(again), text);
    EXPECT_EQ(again.ops, plan_.ops);
    EXPECT_EQ(again.commit_order, plan_.commit_order);
    EXPECT_EQ(again.devices, plan_.devices);
    EXPECT_EQ(again.policy, plan_.policy);
    EXPECT_EQ(again.bindings, plan_.bindings);
    EXPECT_EQ(cost::digest(*again.machine), cost::digest(machine_));
}

/// The message of the InputError that reading `text` throws.
std::string refusal(const std::string& text) {
    try {
        (void)parse_plan(text, "plan.json");
    } catch (const InputError& error) {
        return error.what();
    }
    return "accepted";
}

/// The same of the plan's text with `before` replaced, once, by `after`.
std::string refusal(std::string text, const std::string& before, const std::string& after) {
    const std::size_t at = text.find(before);
    if (at == std::string::npos) return "not there: " + before;
    return refusal(text.replace(at, before.size(), after));
}

TEST_F(PlanFile, NamesPrecisionAndFrozenParametersWhereThereAreAny) {
    const std::string plain = to_json(plan_);
    EXPECT_EQ(plain.find("precision"), std::string::npos);
    EXPECT_EQ(plain.find("frozen"), std::string::npos);
    plan_.precision = graph::DType::bfloat16;
    plan_.policy.frozen = {"*bias", "w1"};
    const std::string text = to_json(plan_);
    EXPECT_THAT(text, HasSubstr(R"("precision": "bfloat16"})"));
    EXPECT_THAT(text, HasSubstr(R"("frozen": ["*bias", "w1"]})"));
    const Plan again = parse_plan(text, "plan.json");
    EXPECT_EQ(again.precision, plan_.precision);
    EXPECT_EQ(again.policy, plan_.policy);
    EXPECT_EQ(to_json(again), text);
    EXPECT_THAT(
        refusal(text, "\"bfloat16\"", "\"int8\""),
        HasSubstr(R"(model.precision: expected "float32", "float16" or "bfloat16", got "int8")"));
    plan_.products = graph::ProductType::float8;
    const std::string products = to_json(plan_);
    EXPECT_THAT(products, HasSubstr(R"("precision": "bfloat16", "products": "float8"})"));
    EXPECT_EQ(parse_plan(products, "plan.json").products, plan_.products);
    EXPECT_THAT(refusal(products, "\"float8\"", "\"as-stored\""),
                HasSubstr(R"(model.products: expected "tf32" or "float8", got "as-stored")"));
    EXPECT_THAT(refusal(text, R"(["*bias", "w1"])", "[1]"),
                HasSubstr("policy.frozen[0]: expected a glob over names of parameters"));
    std::string many = R"(["w1")";
    for (int i = 0; i < 1'000; ++i) many += R"(, "w1")";
    EXPECT_THAT(refusal(text, R"(["*bias", "w1"])", many + "]"),
                HasSubstr("policy.frozen: expected at most 1000 globs"));
}

TEST_F(PlanFile, NamesWhatIsRecomputedAndGradientsWhereTheyAreSaid) {
    const std::string plain = to_json(plan_);
    EXPECT_EQ(plain.find("recompute"), std::string::npos);
    EXPECT_EQ(plain.find("gradients"), std::string::npos);
    plan_.policy.recompute = Recompute::automatic;
    plan_.policy.gather_again = true;
    plan_.policy.bucket_bytes = Bytes::max();
    plan_.float32_gradients = true;
    plan_.untie = {"ones*"};
    plan_.fuse = {"swiglu", "Mul(a, b)"};
    plan_.fused_attention = true;
    plan_.ops[2].recompute = Recompute::selective;
    const std::string text = to_json(plan_);
    EXPECT_THAT(text, HasSubstr(R"("unroll": false, "gradients": "float32", "untie": ["ones*"])"));
    EXPECT_THAT(
        text,
        HasSubstr("[\"ones*\"], \"fuse\": [\"swiglu\", \"Mul(a, b)\"], \"attention\": \"fused\"}"));
    EXPECT_THAT(text,
                HasSubstr(R"("recompute": "auto", "gather_again": true, "bucket_bytes": "all"})"));
    EXPECT_THAT(text, HasSubstr(R"("devices": [0], "recompute": "selective"})"));
    const Plan again = parse_plan(text, "plan.json");
    EXPECT_EQ(again.ops, plan_.ops);
    EXPECT_EQ(again.policy, plan_.policy);
    plan_.policy.bucket_bytes = kLayerBuckets;
    const std::string layers = to_json(plan_);
    EXPECT_THAT(layers, HasSubstr(R"("bucket_bytes": "layer"})"));
    EXPECT_EQ(parse_plan(layers, "plan.json").policy, plan_.policy);
    for (const char* const bad : {R"("some")", "0", "9223372036854775806"}) {
        EXPECT_THAT(
            refusal(layers, R"("layer")", bad),
            HasSubstr("policy.bucket_bytes: expected an amount of bytes above 0, \"all\" or "
                      "\"layer\""));
    }
    plan_.policy.host_time = {.kernel = Time(45'000'000), .communication = Time(1), .update = {}};
    const std::string hosted = to_json(plan_);
    EXPECT_THAT(hosted, HasSubstr(R"("host_time": "kernel=45us,communication=1ps,update=0us"})"));
    EXPECT_EQ(parse_plan(hosted, "plan.json").policy, plan_.policy);
    EXPECT_THAT(refusal(hosted, "kernel=45us", "kernel=45"),
                HasSubstr("policy.host_time: expected times of at most 1 ms"));
    plan_.policy.clip_norm = 0.3;
    const std::string clipped = to_json(plan_);
    EXPECT_THAT(clipped, HasSubstr(R"("clip_norm": 0.3})"));
    EXPECT_EQ(parse_plan(clipped, "plan.json").policy, plan_.policy);
    for (const char* const bad : {"0}", "-1}", "2e9}", "\"none\"}"}) {
        EXPECT_THAT(refusal(clipped, "0.3}", bad),
                    HasSubstr("policy.clip_norm: expected a norm above 0 and at most 1e9"));
    }
    EXPECT_TRUE(again.float32_gradients);
    EXPECT_EQ(again.untie, plan_.untie);
    EXPECT_EQ(again.fuse, plan_.fuse);
    EXPECT_TRUE(again.fused_attention);
    EXPECT_THAT(refusal(text, R"("attention": "fused")", R"("attention": "flash")"),
                HasSubstr(R"(model.attention: expected "fused", got "flash")"));
    EXPECT_EQ(to_json(again), text);
    plan_.attention_blocks = 4;
    const std::string blocks = to_json(plan_);
    EXPECT_THAT(blocks, HasSubstr(R"("attention": "fused", "attention_blocks": 4})"));
    EXPECT_EQ(to_json(parse_plan(blocks, "plan.json")), blocks);
    EXPECT_THAT(refusal(blocks, R"("attention_blocks": 4)", R"("attention_blocks": 1)"),
                HasSubstr("model.attention_blocks: expected a number of blocks, 2 to 4096"));
    EXPECT_THAT(refusal(blocks, R"("attention": "fused", )", ""),
                HasSubstr(R"(model.attention_blocks: needs "attention": "fused" beside it)"));
    EXPECT_THAT(refusal(text, R"("recompute": "selective")", R"("recompute": "auto")"),
                HasSubstr(R"('mul1'.recompute: expected "selective" or "full", got "auto")"));
    EXPECT_THAT(refusal(text, R"("recompute": "auto", )", R"("recompute": "none", )"),
                HasSubstr(R"(policy.recompute: expected "selective" or "full" or "auto", got)"));
    EXPECT_THAT(refusal(text, R"("gradients": "float32")", R"("gradients": "float16")"),
                HasSubstr(R"(model.gradients: expected "float32", got "float16")"));
}

TEST_F(PlanFile, DevicesOutsideTheMachineAreRefusedWhileReading) {
    const std::string before = R"("mul1", "type": "MatMul", "degrees": [], "devices": [0])";
    const std::string start = R"("mul1", "type": "MatMul", "degrees": [], "devices": )";
    EXPECT_THAT(refusal(to_json(plan_), before, start + "[1000000]"),
                HasSubstr("'mul1'.devices[0]: expected a device of the plan's machine, 0 to 2, "
                          "got 1000000. Plan again."));
    EXPECT_THAT(
        refusal(to_json(plan_), before, start + R"({"first": 0, "count": 1048576, "stride": 1})"),
        HasSubstr("'mul1'.devices: names devices beyond the plan's machine, which has 3"));
}

TEST_F(PlanFile, DegreesThatDoNotFitTheDevicesAreRefusedWhileReading) {
    const std::string before = R"("mul1", "type": "MatMul", "degrees": [], "devices": [0])";
    EXPECT_THAT(refusal(to_json(plan_), before,
                        R"("mul1", "type": "MatMul", "degrees": [["m", 1048576]], "devices": [0])"),
                HasSubstr("'mul1'.devices: names 1 devices for 1048576 parts. Plan again."));
}

TEST_F(PlanFile, PredictsForEachDeviceOfTheMachine) {
    const std::string before = R"({"busy_ps": )";
    EXPECT_THAT(refusal(to_json(plan_), before, R"({"busy_ps": 0, "memory_bytes": 0}, )" + before),
                HasSubstr("prediction.devices: lists 4 devices of a machine with 3. Plan again."));
}

TEST_F(PlanFile, HasOneOpPerLine) {
    const std::string text = to_json(plan_);
    EXPECT_THAT(text, HasSubstr("\n  {\"name\": \"mul1\", \"type\": \"MatMul\", \"degrees\": [], "
                                "\"devices\": [0]},\n"));
}

TEST_F(PlanFile, IsAcceptedAfterReading) {
    EXPECT_THAT(verify(problem_, parse_plan(to_json(plan_), "plan.json")), IsEmpty());
}

TEST_F(PlanFile, GivesItsStrategyBack) {
    EXPECT_EQ(strategy_of(plan_, problem_), strategy_);
}

TEST_F(PlanFile, ErrorsNameTheFile) {
    Plan plan = parse_plan(to_json(plan_), "mine.json");
    plan.ops[0].name += 'x';
    try {
        (void)strategy_of(plan, problem_);
        FAIL();
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("mine.json: ops[0] '"));
    }
}

TEST_F(PlanFile, VerifyRefusesEachKindOfCorruption) {
    struct Corruption {
        const char* finding;
        std::function<void(Plan&)> apply;
    };
    const std::string other = "sha256:" + std::string(64, '0');
    const std::vector<Corruption> corruptions = {
        {"model: the plan was made for digest", [&](Plan& p) { p.model_digest = other; }},
        {"machine: the plan was made for digest", [&](Plan& p) { p.machine_digest = other; }},
        {"costs: the plan was made for digest", [&](Plan& p) { p.costs_digest = other; }},
        {"task graph: the plan was made for", [&](Plan& p) { p.task_graph_digest = other; }},
        {"mode: the plan is for inference", [](Plan& p) { p.mode = Mode::inference; }},
        {"objective: the plan is for latency", [](Plan& p) { p.objective = Objective::latency; }},
        {"policy: ", [](Plan& p) { p.policy.optimizer = Optimizer::adam; }},
        {"'y' (Output) is missing", [](Plan& p) { p.ops.pop_back(); }},
        {"placed twice", [](Plan& p) { p.ops[1] = p.ops[0]; }},
        {"has no op of this name", [](Plan& p) { p.ops[3].name = "other"; }},
        {"type: expected \"Relu\"", [](Plan& p) { p.ops[3].type = "Gelu"; }},
        {"op 'relu' (Relu): factor 'q': the op has no such factor",
         [](Plan& p) {
             p.ops[3].config.degrees = {{"q", 2}};
             p.ops[3].config.devices = DeviceSet::progression(0, 2, 1);
         }},
        {"its degrees make 2 parts, its devices are 1",
         [](Plan& p) {
             p.ops[3].config.degrees = {{"*", 2}};
         }},
        {"device 1 holds two of its parts",
         [](Plan& p) {
             p.ops[3].config.degrees = {{"*", 2}};
             p.ops[3].config.devices = DeviceSet::list({1, 1});
         }},
        {"collectives[0]: the plan has 'all-reduce x' by ring with simple, the strategy needs "
         "nothing more",
         [](Plan& p) {
             p.collectives.push_back(
                 {"all-reduce x", cost::Algorithm::ring, cost::Protocol::simple});
         }},
        {"update: the op is no parameter", [](Plan& p) { p.ops[3].update.refetch = true; }},
        {"device 7 of a machine with 3",
         [](Plan& p) { p.ops[3].config.devices = DeviceSet::single(7); }},
        {"op 'mul1' (MatMul): device 2 is not among",
         [](Plan& p) { p.ops[2].config.devices = DeviceSet::single(2); }},
        {"must share their devices",
         [](Plan& p) { p.ops[3].config.devices = DeviceSet::single(1); }},
        {"order: commit is no order",
         [](Plan& p) { std::swap(p.commit_order.front(), p.commit_order.back()); }},
        {"order: commit is no order", [](Plan& p) { p.commit_order.pop_back(); }},
        {"prediction: value_ps", [](Plan& p) { p.value += Time{1}; }},
        {"lower_bound_ps", [](Plan& p) { p.lower_bound = p.value + Time{1}; }},
        {"prediction: devices", [](Plan& p) { p.devices[0].memory += Bytes{1}; }},
        {"prediction: devices", [](Plan& p) { p.devices[2].busy += Time{1}; }},
    };
    for (const Corruption& corruption : corruptions) {
        Plan plan = plan_;
        corruption.apply(plan);
        EXPECT_THAT(first_finding(plan), HasSubstr(corruption.finding));
    }
}

TEST_F(PlanFile, OfCrossEntropyHasAnOpForItsRowsAndMaySplitClasses) {
    ProblemOptions classes = options();
    classes.policy.loss = LossKind::cross_entropy;
    const Problem problem = make_problem(graph_, machine_, classes);
    Strategy strategy =
        whole_ops(std::vector<int>(problem.graph().op_count(), 0), problem.policy());
    for (const char* name : {"y/log_sum_exp", "y"}) {
        const graph::OpId op = *problem.graph().find_op(name);
        strategy.ops[op.index()].config = {axes_named(problem.facts().rule(op), {{"d1", 2}}),
                                           DeviceSet::progression(1, 2, 1)};
    }
    const Plan plan = make_plan(problem, strategy, {.searcher = "hand"});
    EXPECT_EQ(plan.model_digest, problem_.model_digest()) << "the same model";
    const Plan read = parse_plan(to_json(plan), "plan.json");
    EXPECT_THAT(verify(problem, read), IsEmpty());
    EXPECT_THAT(verify(problem_, read), Not(IsEmpty())) << "a plan of another loss";
}

TEST_F(PlanFile, VerifyRefusesWhatDoesNotFitTheMemory) {
    ProblemOptions tight = options();
    tight.constraints.memory_limit = Bytes{100};
    const Problem problem = make_problem(graph_, machine_, tight);
    const auto findings = verify(problem, plan_);
    ASSERT_FALSE(findings.empty());
    EXPECT_THAT(findings.front(), HasSubstr("device 'gpu0': needs"));
}

TEST_F(PlanFile, OfAWorkloadNamesItsSchedulerAndListsNoOrder) {
    const graph::OpGraph graph = WorkloadBuilder().node("1", 2).node("2", 3, {"1"}).build();
    const Problem problem = make_problem(graph, machine_);
    Plan plan = make_plan(problem, on_devices({0, 1}), {.searcher = "hand"});
    EXPECT_EQ(to_json(plan).find("\"commit\""), std::string::npos);
    EXPECT_EQ(plan.value, microseconds(2 + 1 + 1 + 3));
    EXPECT_THAT(verify(problem, parse_plan(to_json(plan), "plan.json")), IsEmpty());
    plan.commit_order = {TaskId(0U), TaskId(1U), TaskId(2U)};
    EXPECT_THAT(verify(problem, plan).front(), HasSubstr("lists no order"));
}

/// 16 devices that do the same, and more than kMostListedTasks tasks.
class FoldedPlanFile : public testing::Test {
protected:
    FoldedPlanFile()
        : graph_(equal_layers(200)),
          machine_(machine_of_nodes(2, 8)),
          problem_(make_problem(graph_, machine_,
                                {.mode = Mode::training,
                                 .objective = Objective::step_time,
                                 .policy = {.micro_batches = 4}})),
          strategy_(samples_apart()) {}

    Strategy samples_apart() {
        const DeviceSet devices = DeviceSet::progression(0, 16, 1);
        Strategy strategy;
        strategy.policy = problem_.policy();
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const bool weight = graph_.ops()[i].kind == graph::OpKind::parameter;
            strategy.ops.push_back(
                {.config = {{weight ? Axis::replicas(16) : Axis::along(0, 16)}, devices}});
        }
        return strategy;
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
    Strategy strategy_;
};

TEST_F(FoldedPlanFile, SaysWhatTheTasksOfAllDevicesSay) {
    ASSERT_EQ(find_fault(problem_, strategy_), std::nullopt);
    const Plan plan = make_plan(problem_, strategy_, {.searcher = "hand"});
    const Priced all = price(problem_, strategy_, Scheduler::pct, Listed::all);
    ASSERT_GT(std::ssize(all.tasks.tasks), kMostListedTasks);
    EXPECT_TRUE(plan.folded);
    EXPECT_EQ(plan.value, all.evaluation.value);
    EXPECT_EQ(plan.devices, all.evaluation.devices);
    const Priced few = price(problem_, strategy_, Scheduler::pct, Listed::folded_if_many);
    EXPECT_EQ(few.memory, all.memory);
    EXPECT_EQ(count_costs(few.tasks), count_costs(all.tasks));
    EXPECT_EQ(label_of("gpu0", stands_for(few.tasks)[0]), "gpu0 x 16");
    EXPECT_EQ(label_of("gpu0", stands_for(all.tasks)[0]), "gpu0");

    const std::string text = to_json(plan);
    const Plan again = parse_plan(text, "plan.json");
    EXPECT_EQ(to_json(again), text);
    EXPECT_THAT(text, HasSubstr(R"("folded": true})"));
    EXPECT_TRUE(again.commit_order.empty());
    EXPECT_TRUE(again.collectives.empty());
    EXPECT_THAT(verify(problem_, again), IsEmpty());
    EXPECT_THAT(verify(problem_, again, {.ignore_costs = true}), IsEmpty());
    EXPECT_THAT(verify(problem_, again, {.ignore_digests = true}), IsEmpty());

    const Plan whole = make_plan(problem_, strategy_, {.searcher = "hand"}, all);
    EXPECT_FALSE(whole.folded);
    EXPECT_EQ(whole.commit_order.size(), all.tasks.size());
    EXPECT_EQ(whole.value, plan.value);
    EXPECT_THAT(verify(problem_, whole), IsEmpty());
}

TEST_F(FoldedPlanFile, VerifyRefusesEachKindOfCorruption) {
    const Plan good = make_plan(problem_, strategy_, {.searcher = "hand"});
    const auto finding = [&](const std::function<void(Plan&)>& corrupt) {
        Plan plan = good;
        corrupt(plan);
        const auto findings = verify(problem_, plan);
        return findings.empty() ? "accepted" : findings.front();
    };
    EXPECT_THAT(finding([](Plan& plan) { plan.commit_order = {TaskId(0U)}; }),
                HasSubstr("order: a folded plan names a scheduler and lists no order"));
    EXPECT_THAT(finding([](Plan& plan) { plan.collectives = {{"all-reduce w0 gpu0"}}; }),
                HasSubstr("collectives: a folded plan lists none"));
    EXPECT_THAT(finding([](Plan& plan) { plan.scheduler = "none"; }),
                HasSubstr("search: scheduler is fifo, rank, pct or msr, not 'none'"));
    EXPECT_THAT(finding([](Plan& plan) { plan.scheduler = "rank"; }), testing::Ne("accepted"));
    EXPECT_THAT(finding([](Plan& plan) { plan.task_graph_digest.back() ^= 1; }),
                HasSubstr("task graph: the plan was made for digest"));
    EXPECT_THAT(finding([](Plan& plan) { plan.value -= Time{1}; }), HasSubstr("value_ps"));
    EXPECT_THAT(finding([](Plan& plan) { plan.devices[9].memory -= Bytes{1}; }),
                HasSubstr("prediction: devices differ"));
    EXPECT_THAT(finding([](Plan& plan) { plan.folded = false; }),
                HasSubstr("collectives[0]: the plan has nothing more"));
}

TEST_F(PlanFile, OfFewTasksIsNotFolded) {
    EXPECT_FALSE(plan_.folded);
    EXPECT_EQ(to_json(plan_).find("folded"), std::string::npos);
    Plan plan = plan_;
    plan.folded = true;
    plan.commit_order.clear();
    plan.collectives.clear();
    EXPECT_THAT(first_finding(plan), HasSubstr("order: the plan is folded"));
}

TEST_F(PlanFile, ReadingIsStrict) {
    const std::string good = to_json(plan_);
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const std::size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    };
    EXPECT_THAT(refusal(""), HasSubstr("plan.json: "));
    EXPECT_THAT(refusal(good.substr(0, good.size() / 2)), HasSubstr("plan.json: "));
    EXPECT_THAT(refusal(with("\"version\": 1", "\"version\": 2")), HasSubstr("version: expected"));
    EXPECT_THAT(refusal(with("partita-plan", "other")), HasSubstr("format: expected"));
    EXPECT_THAT(refusal(with("\"mode\"", "\"node\"")), HasSubstr("node"));
    EXPECT_THAT(refusal(with("\"devices\": [0]", "\"devices\": []")),
                HasSubstr("ops[0] 'x'.devices: expected at least one device"));
    EXPECT_THAT(
        refusal(with("\"devices\": [0]", "\"devices\": [-1]")),
        HasSubstr(
            "ops[0] 'x'.devices[0]: expected a device of the plan's machine, 0 to 2, got -1"));
    EXPECT_THAT(refusal(with("\"degrees\": []", "\"degrees\": [[\"n\", 1]]")),
                HasSubstr("ops[0] 'x'.degrees[0][1]: expected a pair"));
    EXPECT_THAT(refusal(with("\"optimizer\": \"sgd\"", "\"optimizer\": \"lion\"")),
                HasSubstr("policy.optimizer: expected \"sgd\" or \"momentum\" or \"adam\""));
    EXPECT_THAT(refusal(with("\"value_ps\": ", "\"value_ps\": -")),
                HasSubstr("prediction.value_ps: expected a time"));
    EXPECT_THAT(refusal(with("\"collectives\": []", "\"collectives\": [1]")),
                HasSubstr("collectives[0]: expected an object"));
    const std::string collective =
        R"("collectives": [{"task": "t", "algorithm": "A", "protocol": ""}])";
    EXPECT_THAT(refusal(with("\"collectives\": []", collective)),
                HasSubstr("collectives[0].algorithm: expected \"ring\" or \"tree\" or"));
}

}  // namespace
}  // namespace partita::plan
