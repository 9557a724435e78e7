// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_profile.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "cost/profile/profiled_collectives.h"
#include "cost/profile/profiled_cost_model.h"
#include "cost/work_signature.h"
#include "graph/operators/part.h"
#include "plan/problem/op_costs.h"
#include "tests/support/draws.h"

namespace partita::support {

using graph::OpId;
using graph::TensorId;
using plan::Problem;
using search::Random;

namespace {

cost::Measurement near(Random& random, Time time) {
    const double factor = std::exp2(10 * random.uniform() - 5);
    const double taken = std::ceil(static_cast<double>(std::max(time, Time{1}).raw()) * factor);
    const Time median(static_cast<std::int64_t>(taken));
    return {
        .median = median, .lower = median, .upper = median, .versions = {}, .date = "2026-11-22"};
}

class Measuring {
public:
    Measuring(Random& random, const Problem& problem, const cost::Device& device)
        : random_(random),
          problem_(problem),
          graph_(problem.graph()),
          device_(device),
          rules_(graph::rules_of(graph_)),
          gradient_(graph_.tensor_count(), 0) {
        for (std::size_t i = 0; i < gradient_.size(); ++i) {
            gradient_[i] = problem.facts().has_gradient(TensorId(i)) ? 1 : 0;
        }
    }

    cost::DeviceProfile run() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId op(i);
            for (int part = draw(random_, 4); part > 0 && problem_.facts().has_forward(op);
                 --part) {
                measure_part(op);
            }
            if (works_.is_updated(op)) {
                measure(works_.update(op, elements_of(graph_.op(op).outputs[0])));
            }
        }
        for (std::size_t i = 0; i < graph_.tensor_count(); ++i) {
            const graph::Tensor& tensor = graph_.tensor(TensorId(i));
            if (draw(random_, 2) == 0) {
                measure(plan::accumulate_work(tensor, elements_of(TensorId(i))));
            }
            if (draw(random_, 2) == 0)
                measure(plan::pack_work(tensor, elements_of(TensorId(i)), false));
        }
        measure_transfers();
        std::ranges::sort(rows_.works, {}, [](const auto& row) { return row.signature.text; });
        const auto again = std::ranges::unique(rows_.works, {},
                                               [](const auto& row) { return row.signature.text; });
        rows_.works.erase(again.begin(), again.end());
        rows_.device = cost::device_key(device_);
        return std::move(rows_);
    }

private:
    void measure(const cost::Work& work) {
        rows_.works.push_back(
            cost::measured_work(work, near(random_, cost::Roofline().price(work, device_)->time)));
    }

    /// A random share of its elements.
    std::int64_t elements_of(TensorId t) {
        const std::int64_t all = graph_.tensor(t).elements();
        return std::max<std::int64_t>(1, all / (1 + draw(random_, 4)));
    }

    void measure_part(OpId op) {
        const graph::OpRule& rule = rules_[op.index()];
        graph::Box box = graph::whole_box(rule);
        for (std::size_t f = 0; f < box.size(); ++f) {
            const int degree = 1 + draw(random_, 3);
            const graph::Factor& factor = rule.factors[f];
            if (!factor.splittable || !graph::is_legal_degree(factor.extent, degree)) continue;
            box[f] = graph::part_of(box[f], degree, draw(random_, degree));
        }
        plan::PartSize size = plan::size_of_part(graph_, op, rule, box);
        size.beside = draw(random_, 3);
        if (draw(random_, 4) != 0) {
            cost::Work work = works_.forward(op, size);
            const cost::WorkSignature signature = works_.forward_signature(op, size);
            work.signature = &signature;
            measure(work);
        }
        for (const plan::Pass pass : {plan::Pass::backward, plan::Pass::weights}) {
            const bool has_pass = pass == plan::Pass::backward
                                      ? problem_.facts().has_backward(op)
                                      : problem_.facts().splits_backward(op);
            if (!has_pass || draw(random_, 4) == 0) continue;
            const std::vector<char> wanted = problem_.facts().wanted(op, pass);
            cost::Work work = works_.backward(op, size, wanted);
            const cost::WorkSignature signature = plan::OpWorks::backward_signature(size, wanted);
            work.signature = &signature;
            measure(work);
        }
    }

    void measure_transfers() {
        for (int i = 0; i < 6; ++i) {
            const Bytes bytes(std::int64_t{1} << (2 * i));
            const Time time = microseconds(1 + draw(random_, 20));
            rows_.transfers.push_back(
                {.copy = true, .bytes = bytes, .variant = {}, .time = near(random_, time)});
            rows_.transfers.push_back({.kind = cost::Collective::all_reduce,
                                       .ranks = 2 + draw(random_, 3),
                                       .bytes = bytes,
                                       .variant = {},
                                       .time = near(random_, time)});
        }
    }

    Random& random_;
    const Problem& problem_;
    const graph::OpGraph& graph_;
    const cost::Device& device_;
    std::vector<graph::OpRule> rules_;
    std::vector<char> gradient_;
    plan::OpWorks works_{graph_, rules_, gradient_, problem_.policy()};
    cost::DeviceProfile rows_;
};

}  // namespace

cost::Profile random_profile(Random& random, const Problem& problem) {
    cost::Profile profile{.file = "random.sqlite", .date = "2026-11-22", .devices = {}, .keys = {}};
    for (const cost::Device& device : problem.machine().devices()) {
        const cost::DeviceKey key = cost::device_key(device);
        if (std::ranges::count(profile.devices, key, &cost::DeviceProfile::device) > 0) continue;
        profile.devices.push_back(Measuring(random, problem, device).run());
    }
    std::ranges::sort(profile.devices, {}, &cost::DeviceProfile::device);
    return profile;
}

Problem with_profile(const Problem& problem, const cost::Profile& profile,
                     plan::ProblemOptions options) {
    auto model =
        std::make_shared<cost::FirstMatch>(std::vector<std::shared_ptr<const cost::CostModel>>{
            std::make_shared<cost::GivenCostModel>(),
            std::make_shared<cost::ProfiledCostModel>(profile, problem.machine()),
            std::make_shared<cost::Roofline>()});
    return {problem.graph(), problem.machine(), std::move(model), std::move(options),
            std::make_shared<cost::ProfiledCollectives>(profile)};
}

}  // namespace partita::support
