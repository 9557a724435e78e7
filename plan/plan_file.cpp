// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "graph/error.h"
#include "graph/json.h"
#include "plan/config.h"
#include "plan/lower.h"
#include "plan/max_load.h"

namespace partita::plan {

Plan read_plan(const std::filesystem::path& file) {
    return parse_plan(graph::read_text_file(file), file.filename().string());
}

std::vector<PlannedCollective> collectives_of(const Problem& problem, const TaskGraph& tasks) {
    std::vector<PlannedCollective> collectives;
    for (const Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        collectives.push_back({task_name(problem, task), task.algorithm, task.protocol});
    }
    return collectives;
}

Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance) {
    Plan plan;
    plan.model_digest = problem.model_digest();
    plan.machine = problem.machine();
    plan.machine_digest = "sha256:" + cost::digest(problem.machine());
    plan.mode = problem.mode();
    plan.objective = problem.objective();
    plan.policy = strategy.policy;
    for (std::size_t i = 0; i < strategy.configs.size(); ++i) {
        const graph::Op& op = problem.graph().ops()[i];
        plan.ops.push_back(
            {op.name, op.type, strategy.configs[i], strategy.update(graph::OpId(i))});
    }
    const TaskGraph tasks = lower(problem, strategy);
    plan.task_graph_digest = digest(tasks);
    plan.collectives = collectives_of(problem, tasks);
    const auto evaluator = make_evaluator(problem, provenance.scheduler);
    if (!has_given_costs(problem)) plan.commit_order = evaluator->commit_order(strategy);
    Evaluation evaluation = evaluator->evaluate(strategy);
    plan.value = evaluation.value;
    plan.devices = std::move(evaluation.devices);
    plan.lower_bound = provenance.lower_bound;
    plan.costs_digest = problem.costs_digest();
    plan.cost_sources = {problem.costs().name()};
    if (!plan.collectives.empty()) {
        plan.cost_sources.push_back("collectives: " + problem.collectives().name());
    }
    plan.searcher = provenance.searcher;
    plan.scheduler = name_of(provenance.scheduler);
    plan.seed = provenance.seed;
    plan.evaluations = provenance.evaluations;
    return plan;
}

namespace {

/// A new file beside `file` of a name that nobody can guess and prepare; mode by the umask. The
/// descriptor, or -1 with errno set; `temporary` becomes its name.
int create_beside(const std::filesystem::path& file, std::filesystem::path& temporary) {
    constexpr mode_t kAnybody = 0666;
    std::random_device random;
    for (int attempt = 0; attempt < 100; ++attempt) {
        temporary = file;
        temporary += fmt::format(".{:08x}{:08x}.tmp", random(), random());
        const int descriptor =
            ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAnybody);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

/// All of `text`. False with errno set.
bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

/// False with errno set. EINVAL: a file system that cannot synchronize has nothing to wait for.
bool reach_disk(int descriptor) {
    return ::fsync(descriptor) == 0 || errno == EINVAL;
}

/// A pipe, /dev/null: there, and nothing that a file may take the place of.
bool is_no_file(const std::filesystem::path& path) {
    std::error_code none;
    const auto status = std::filesystem::status(path, none);
    return std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
}

/// 0, or the reason as errno has it.
int write_in_place(const std::filesystem::path& path, std::string_view text) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    const int reason = write_all(descriptor, text) ? 0 : errno;
    return ::close(descriptor) != 0 && reason == 0 ? errno : reason;
}

}  // namespace

void write_file(const std::filesystem::path& file, std::string_view text) {
    // Beside the target, so that the rename stays on one file system and is atomic.
    std::filesystem::path temporary;
    const auto fail = [&](int reason) {
        throw UsageError(
            fmt::format("{}: cannot be written: {}. Give a file in a folder that "
                        "exists and may be written.",
                        file.string(), std::strerror(reason)));
    };
    if (is_no_file(file)) {
        if (const int reason = write_in_place(file, text); reason != 0) fail(reason);
        return;
    }
    const int descriptor = create_beside(file, temporary);
    if (descriptor < 0) fail(errno);
    int reason = write_all(descriptor, text) && reach_disk(descriptor) ? 0 : errno;
    if (::close(descriptor) != 0 && reason == 0) reason = errno;
    if (reason == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) reason = errno;
    if (reason == 0) return;
    ::unlink(temporary.c_str());
    fail(reason);
}

Strategy strategy_of(const Plan& plan, const Problem& problem) {
    const graph::OpGraph& graph = problem.graph();
    std::unordered_map<std::string_view, std::size_t> ids;  // looked up only, never iterated
    for (std::size_t i = 0; i < graph.op_count(); ++i) ids.emplace(graph.ops()[i].name, i);
    Strategy strategy;
    strategy.policy = plan.policy;
    strategy.configs.resize(graph.op_count());
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        const PlannedOp& planned = plan.ops[i];
        const auto where = [&] {
            return fmt::format("{}: ops[{}] '{}'", plan.source, i, planned.name);
        };
        const auto at = ids.find(planned.name);
        if (at == ids.end()) {
            throw InputError(where() + ": the model has no op of this name. Plan again.");
        }
        const graph::Op& op = graph.ops()[at->second];
        if (op.type != planned.type) {
            throw InputError(fmt::format("{}, type: expected \"{}\", got \"{}\". Plan again.",
                                         where(), op.type, planned.type));
        }
        OpConfig& config = strategy.configs[at->second];
        if (!config.devices.empty()) {
            throw InputError(where() + ": placed twice. Remove one of the two.");
        }
        config = planned.config;
        if (planned.update == UpdateConfig{}) continue;
        if (op.kind != graph::OpKind::parameter) {
            throw InputError(where() + ", update: the op is no parameter. Plan again.");
        }
        strategy.updates.resize(graph.op_count());
        strategy.updates[at->second] = planned.update;
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!strategy.configs[i].devices.empty()) continue;
        throw InputError(fmt::format("{}: ops: '{}' ({}) is missing. Plan again.", plan.source,
                                     graph.ops()[i].name, graph.ops()[i].type));
    }
    if (const auto fault = find_fault(problem, strategy)) {
        throw InputError(fmt::format("{}: {}. Plan again.", plan.source, *fault));
    }
    return strategy;
}

}  // namespace partita::plan
