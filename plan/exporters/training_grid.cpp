// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/training_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "plan/description/parallelism.h"
#include "plan/description/product_split.h"
#include "plan/description/throughput.h"
#include "plan/description/used_devices.h"
#include "plan/legality/stages.h"
#include "plan/problem/micro_batches.h"

namespace partita::plan {

using graph::OpId;

namespace {

/// "layers.#" of "layers.12".
std::string without_numbers(const std::string& block) {
    std::string text;
    for (const char c : block) {
        const bool digit = c >= '0' && c <= '9';
        if (!digit) {
            text += c;
        } else if (text.empty() || text.back() != '#') {
            text += '#';
        }
    }
    return text;
}

class GridReader {
public:
    GridReader(const Problem& problem, const Strategy& strategy, std::string_view format)
        : problem_(problem),
          strategy_(strategy),
          format_(format),
          parallelism_(parallelism_of(problem, strategy)),
          pipeline_(pipeline_of(problem, strategy)) {}

    TrainingGrid read() {
        check_training();
        check_regular();
        set_degrees();
        check_ranks();
        check_tensor_parallelism();
        set_batch();
        set_recompute();
        if (grid_.stages > 1) set_layers();
        return std::move(grid_);
    }

    DeviceGrid read_devices() {
        check_regular();
        set_degrees();
        check_ranks();
        return grid_;
    }

private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw UsageError(fmt::format("{}: {}", format_, what));
    }

    [[nodiscard]] const std::string& name(OpId op) const { return problem_.graph().op(op).name; }

    void check_training() const {
        const Policy& policy = strategy_.policy;
        if (problem_.mode() != Mode::training)
            refuse("the plan is one of inference; plan with --mode training.");
        if (policy.gradient_sync == GradientSync::parameter_server)
            refuse("gradients go to a parameter server; plan with --gradient-sync all-reduce.");
        if (parallelism_.stages.size() > 1 && policy.micro_batches > 1 &&
            policy.schedule.kind == ScheduleKind::none)
            refuse("the pipeline has no schedule; plan with --schedule 1f1b.");
    }

    void check_regular() const {
        if (!parallelism_.regular(strategy_.policy)) refuse(irregular());
        if (parallelism_.replicas > 1) {
            refuse(fmt::format(
                "products are repeated on {} devices each, which no launcher does; plan "
                "with --strategy.",
                parallelism_.replicas));
        }
    }

    /// Why it is no grid: what is split otherwise, if something is.
    [[nodiscard]] std::string irregular() const {
        std::string why =
            parallelism_.chunks > 1 && strategy_.policy.schedule.kind == ScheduleKind::none
                ? "the model comes back to groups of devices without a schedule"
                : "stages differ in their devices";
        for (const SplitProducts& group : parallelism_.products) {
            const bool usual = group.split.data == parallelism_.data &&
                               group.split.tensor() == parallelism_.tensor &&
                               group.split.context == parallelism_.context;
            if (usual || group.split.experts > 1) continue;
            why = fmt::format(
                "{:.1f} % of the FLOPs of products ({} of them{}) are split otherwise than most",
                100 * group.share, group.products,
                group.names.empty() ? "" : ": " + group.names.front());
            break;
        }
        return fmt::format(
            "the plan is no regular grid: {}. `partita inspect` shows all of it; --searcher "
            "expert, or --strategy, finds plans that are.",
            why);
    }

    void set_degrees() {
        grid_.stages = static_cast<int>(parallelism_.stages.size());
        grid_.chunks = parallelism_.chunks;
        grid_.data = parallelism_.data;
        grid_.context = parallelism_.context;
        grid_.tensor = parallelism_.tensor;
        grid_.experts = parallelism_.experts;
        grid_.zero = parallelism_.zero;
        const std::vector<char> used = used_devices(problem_, strategy_);
        for (std::size_t d = 0; d < used.size(); ++d) {
            if (used[d] != 0) grid_.devices.push_back(static_cast<int>(d));
        }
        const auto ranks = std::ssize(grid_.devices);
        const std::ptrdiff_t said =
            std::ptrdiff_t{grid_.stages} * grid_.data * grid_.context * grid_.tensor;
        if (ranks != said) {
            refuse(
                fmt::format("{} stages of {} x {} x {} devices (data, context, tensor) are {}, "
                            "but ops run on {}; plan with --strategy, or --searcher expert.",
                            grid_.stages, grid_.data, grid_.context, grid_.tensor, said, ranks));
        }
        for (const SplitProducts& group : parallelism_.products) {
            if (group.split.experts > 1) grid_.experts_tensor = group.split.tensor();
        }
    }

    /// Per device its rank; of those that no op runs on -1.
    [[nodiscard]] std::vector<int> ranks() const {
        std::vector<int> ranks(static_cast<std::size_t>(problem_.device_count()), -1);
        for (std::size_t rank = 0; rank < grid_.devices.size(); ++rank) {
            ranks[static_cast<std::size_t>(grid_.devices[rank])] = static_cast<int>(rank);
        }
        return ranks;
    }

    void check_ranks() {
        const std::vector<int> ranks = this->ranks();
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            const OpId op(i);
            const std::optional<std::size_t> weight = weight_of(problem_, op);
            if (!weight) continue;
            grid_.dtype = problem_.graph().tensor(problem_.graph().op(op).inputs[*weight]).dtype;
            check_ranks(op, *weight, ranks);
        }
    }

    void check_ranks(OpId op, std::size_t weight, const std::vector<int>& ranks) const {
        const OpConfig& config = strategy_.config(op);
        const int stage = pipeline_.has(op) ? pipeline_.stage(op) : 0;
        const int own = grid_.data * grid_.context * grid_.tensor;
        for (int part = 0; part < config.devices.size(); ++part) {
            ProductSplit at{0, 0, 0, 0, 0, 0};
            int left = part;
            ProductSplit below;
            for (auto axis = config.axes.rbegin(); axis != config.axes.rend(); ++axis) {
                int ProductSplit::*const of = degree_of(problem_, op, *axis, weight);
                at.*of += left % axis->degree * below.*of;
                below.*of *= axis->degree;
                left /= axis->degree;
            }
            const int rank = ranks[static_cast<std::size_t>(config.devices[part])];
            // Experts lie on some of the ranks that share the data, in an order of their own.
            const bool here = rank / own == stage;
            const int expected =
                ((stage * grid_.data + at.data) * grid_.context + at.context) * grid_.tensor +
                at.columns * below.rows + at.rows;
            if (here && (below.experts > 1 || rank == expected)) continue;
            refuse(
                fmt::format("part {} of {} lies on device {}, which is number {} of those in use, "
                            "where ranks in the order of the grid have it on number {}; such an "
                            "order cannot be said. Plan with --strategy.",
                            part, name(op), config.devices[part], rank, expected));
        }
    }

    /// Blocks between layers that give and take whole rows, as Megatron-LM's do.
    void check_tensor_parallelism() {
        if (grid_.tensor == 1) return;
        for (const SplitProducts& group : parallelism_.products) {
            if (group.split.columns > 1 && group.split.rows > 1) {
                refuse(fmt::format(
                    "weights are cut in columns and rows at once ({} products); launchers do one.",
                    group.products));
            }
        }
        std::map<std::string, std::pair<int, int>> columns_and_rows;  // products, by layer block
        int whole = 0;
        int scattered = 0;
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            const OpId op(i);
            const std::optional<std::size_t> weight = weight_of(problem_, op);
            if (!weight || !problem_.facts().has_backward(op)) continue;
            auto& [columns, rows] = columns_and_rows[problem_.graph().op(op).block];
            for (const Axis& axis : strategy_.config(op).axes) {
                int ProductSplit::*const of = degree_of(problem_, op, axis, *weight);
                columns += of == &ProductSplit::columns ? 1 : 0;
                if (of != &ProductSplit::rows) continue;
                ++rows;
                ++(sum_is_scattered(op) ? scattered : whole);
            }
        }
        for (const auto& [block, counts] : columns_and_rows) {
            const auto& [columns, rows] = counts;
            if (columns > 1 && rows == 0 && !block.empty()) {
                refuse(
                    fmt::format("{} has weights in columns and none in rows; launchers put rows "
                                "behind columns. "
                                "Plan with --strategy tp={}.",
                                block, grid_.tensor));
            }
        }
        if (whole > 0 && scattered > 0) {
            refuse(
                fmt::format("of {} sums behind weights in rows {} are scattered over positions "
                            "and the others are not; plan with --strategy sp or sp=0.",
                            whole + scattered, scattered));
        }
        grid_.sequence = scattered > 0;
    }

    /// Is the sum of the parts in parts again for who reads it first?
    [[nodiscard]] bool sum_is_scattered(OpId op) const {
        for (const graph::Use use : problem_.graph().uses(problem_.graph().op(op).outputs[0])) {
            if (!problem_.facts().has_backward(use.op)) continue;
            const std::vector<Axis>& axes = strategy_.config(use.op).axes;
            return std::ranges::none_of(axes, [](const Axis& axis) { return axis.is_replica(); });
        }
        return false;
    }

    void set_batch() {
        grid_.samples = batch_extent(problem_.facts());
        if (grid_.samples == 0) refuse("the model has no batch, and launchers count samples.");
        const std::int64_t cuts = std::int64_t{grid_.data} * strategy_.policy.micro_batches;
        if (grid_.samples % cuts != 0) {
            refuse(
                fmt::format("{} samples in {} micro-batches on {} replicas are uneven; plan "
                            "with --batch {}.",
                            grid_.samples, strategy_.policy.micro_batches, grid_.data,
                            (grid_.samples + cuts - 1) / cuts * cuts));
        }
        grid_.micro_batch = grid_.samples / cuts;
        const std::int64_t tokens = token_count(problem_.graph());
        if (grid_.samples > 0) grid_.positions = tokens / grid_.samples;
    }

    void set_recompute() {
        std::optional<Recompute> all;
        for (const LayerBlock& block : problem_.facts().recompute().blocks()) {
            Recompute own = Recompute::none;
            for (const OpId op : block.ops) {
                const Recompute of = strategy_.ops[op.index()].recompute;
                if (of != Recompute::none) own = of;
            }
            if (all.value_or(own) != own) {
                refuse(fmt::format(
                    "{} is recomputed otherwise ({}) than layers before it ({}); plan with "
                    "--recompute {}.",
                    block.name, name_of(own), name_of(*all), name_of(std::max(own, *all))));
            }
            all = own;
        }
        grid_.recompute = all.value_or(Recompute::none);
    }

    /// Blocks of which the backward passes, in the model's order, and the stages that they are on.
    [[nodiscard]] std::vector<std::pair<std::string, std::set<int>>> blocks() const {
        std::vector<std::pair<std::string, std::set<int>>> blocks;
        std::unordered_map<std::string, std::size_t> at;
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            const OpId op(i);
            const std::string& block = problem_.graph().op(op).block;
            if (block.empty() || !pipeline_.has(op) || !problem_.facts().has_backward(op)) continue;
            const auto [known, is_new] = at.emplace(block, blocks.size());
            if (is_new) blocks.emplace_back(block, std::set<int>{});
            blocks[known->second].second.insert(pipeline_.position[i]);
        }
        return blocks;
    }

    void set_layers() {
        const auto blocks = this->blocks();
        std::map<std::string, int> alike;
        for (const auto& [block, positions] : blocks) ++alike[without_numbers(block)];
        const auto most =
            std::ranges::max_element(alike, {}, [](const auto& pattern) { return pattern.second; });
        if (most == alike.end() || most->second < grid_.stages * grid_.chunks)
            refuse("the model names no layers of which every stage has one.");
        grid_.layers.assign(
            static_cast<std::size_t>(grid_.stages) * static_cast<std::size_t>(grid_.chunks), 0);
        int last = 0;
        for (const auto& [block, positions] : blocks) {
            if (without_numbers(block) != most->first) continue;
            if (positions.size() > 1 || *positions.begin() < last) {
                refuse(
                    fmt::format("layer {} is not on one stage behind the layer before it; plan "
                                "with --strategy pp={},layers=even.",
                                block, grid_.stages));
            }
            last = *positions.begin();
            ++grid_.layers[static_cast<std::size_t>(last)];
        }
    }

    const Problem& problem_;
    const Strategy& strategy_;
    std::string_view format_;
    Parallelism parallelism_;
    Pipeline pipeline_;
    TrainingGrid grid_;
};

}  // namespace

bool TrainingGrid::even() const {
    return std::ranges::all_of(layers, [&](int own) { return own == layers.front(); });
}

std::optional<DeviceGrid> device_grid_of(const Problem& problem, const Strategy& strategy) {
    try {
        return GridReader(problem, strategy, "").read_devices();
    } catch (const UsageError&) {
        return std::nullopt;
    }
}

TrainingGrid training_grid_of(const Problem& problem, const Strategy& strategy,
                              std::string_view format) {
    return GridReader(problem, strategy, format).read();
}

}  // namespace partita::plan
