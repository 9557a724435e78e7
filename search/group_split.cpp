// SPDX-License-Identifier: Apache-2.0
#include "search/group_split.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "plan/config.h"
#include "search/split_configs.h"

namespace partita::search {

using cost::Collective;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::FactorDegree;
using plan::Problem;

namespace {

/// How a tensor lies over the group.
struct Form {
    enum class Kind : std::uint8_t { replicated, shards, partial };
    Kind kind = Kind::replicated;
    int dim = -1;             ///< shards: of this dim,
    std::int64_t chunk = 0;   ///< so many positions each,
    std::int64_t period = 0;  ///< once in so many (less than the dim's extent: strided)
    friend bool operator==(const Form&, const Form&) = default;
};
constexpr Form kReplicated{};
constexpr Form kPartial{.kind = Form::Kind::partial};

/// Shards of the dim that the factor belongs to; nullopt: of none.
std::optional<Form> shards_by(const graph::TensorRule& tensor, const graph::OpRule& rule,
                              std::size_t factor, int degree) {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        std::int64_t minor = tensor.dims[d].window ? tensor.dims[d].window->stride : 1;
        const std::vector<int>& factors = tensor.dims[d].factors;
        for (auto f = factors.rbegin(); f != factors.rend(); ++f) {
            const std::int64_t extent = rule.factors[static_cast<std::size_t>(*f)].extent;
            if (static_cast<std::size_t>(*f) == factor) {
                return Form{.kind = Form::Kind::shards,
                            .dim = static_cast<int>(d),
                            .chunk = minor * ((extent + degree - 1) / degree),
                            .period = minor * extent};
            }
            minor *= extent;
        }
    }
    return std::nullopt;
}

class Chooser {
public:
    Chooser(const Problem& problem, const GroupSplitOptions& options)
        : problem_(problem),
          graph_(problem.graph()),
          options_(options),
          degree_(options.group.size()),
          group_(devices_of(options.group)),
          replicas_(devices_of(options.replicas)),
          choices_(graph_.op_count()),
          axes_(graph_.op_count(), kUndecided) {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) find_choices(OpId(i));
    }

    GroupSplit run() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) choose(OpId(i));
        for (int round = 0; round < kMostRounds; ++round) {
            sweep(0, graph_.op_count());
            bool changed = false;
            for (std::size_t i = 0; i < graph_.op_count(); ++i) {
                if (problem_.rule(OpId(i)).matrix_product) changed |= roll_out(i);
            }
            if (!changed) break;
        }
        GroupSplit result;
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId id(i);
            const bool runs = !is_source(id);
            result.axes.push_back(axis(id, runs ? axes_[i] : source_axis(id)));
            Time time = runs ? computation(id) : Time{0};
            for (const TensorId t : graph_.op(id).outputs) time += tensor_time(t);
            result.times.push_back(time);
        }
        return result;
    }

private:
    static constexpr int kRepeated = -1;
    static constexpr int kUndecided = -2;
    static constexpr int kMostSweeps = 8;
    static constexpr int kMostRounds = 3;
    static constexpr int kProductsAhead = 4;
    static constexpr std::size_t kOpsAhead = 80;

    static std::vector<int> devices_of(const plan::DeviceSet& set) {
        std::vector<int> devices;
        for (int i = 0; i < set.size(); ++i) devices.push_back(set[i]);
        return devices;
    }

    [[nodiscard]] bool is_source(OpId id) const {
        const OpKind kind = graph_.op(id).kind;
        return kind != OpKind::compute && kind != OpKind::output;
    }

    [[nodiscard]] FactorDegree axis(OpId id, int factor) const {
        if (factor < 0) return {"*", degree_};
        return {problem_.rule(id).factors[static_cast<std::size_t>(factor)].name, degree_};
    }

    /// The factors that the op may be split by, beside the split of the batch over the groups.
    void find_choices(OpId id) {
        const std::vector<graph::Factor>& factors = problem_.rule(id).factors;
        for (std::size_t f = 0; f < factors.size(); ++f) {
            if (!factors[f].splittable || !graph::is_legal_degree(factors[f].extent, degree_)) {
                continue;
            }
            const bool is_batch =
                problem_.is_batched(id) && problem_.batch_digits(id)[f].extent > 0;
            if (is_batch && !options_.whole_batch) continue;
            const int factor = static_cast<int>(f);
            const plan::OpConfig config{.degrees = {axis(id, factor)}, .devices = options_.group};
            if (find_fault(problem_, id, config, problem_.policy().micro_batches)) continue;
            choices_[id.index()].push_back(factor);
        }
    }

    /// The best axis beside what is decided around the op. Does it change?
    bool choose(OpId id) {
        if (is_source(id)) return false;
        int& own = axes_[id.index()];
        const int before = own;
        if (own == kUndecided) own = kRepeated;
        int best = own;
        Time least = time_around(id);
        const auto try_axis = [&](int factor) {
            own = factor;
            const Time time = time_around(id);
            if (time >= least) return;
            least = time;
            best = factor;
        };
        if (best != kRepeated) try_axis(kRepeated);
        for (const int factor : choices_[id.index()]) try_axis(factor);
        own = best;
        return best != before;
    }

    /// Ops from `begin` to `end`, backward and forward, until nothing changes.
    void sweep(std::size_t begin, std::size_t end) {
        bool changed = true;
        for (int i = 0; i < kMostSweeps && changed; ++i) {
            changed = false;
            for (std::size_t op = end; op-- > begin;) changed |= choose(OpId(op));
            for (std::size_t op = begin; op < end; ++op) changed |= choose(OpId(op));
        }
    }

    /// Another axis of a matrix product, and what follows from it for the ops up to a few products
    /// further on: what no change of one op alone would reach.
    bool roll_out(std::size_t first) {
        std::size_t end = first + 1;
        for (int products = 0; end < graph_.op_count() && end < first + kOpsAhead; ++end) {
            if (!problem_.rule(OpId(end)).matrix_product) continue;
            if (++products == kProductsAhead) break;
        }
        const auto from = axes_.begin() + static_cast<std::ptrdiff_t>(first);
        const auto to = axes_.begin() + static_cast<std::ptrdiff_t>(end);
        std::vector<int> best(from, to);
        const std::vector<int> before = best;
        Time least = time_of(first, end);
        std::vector<int> choices = choices_[first];
        choices.push_back(kRepeated);
        for (const int factor : choices) {
            if (factor == before.front()) continue;
            std::fill(from, to, kUndecided);
            axes_[first] = factor;
            for (std::size_t op = first + 1; op < end; ++op) choose(OpId(op));
            sweep(first + 1, end);
            const Time time = time_of(first, end);
            if (time >= least) continue;
            least = time;
            best.assign(from, to);
        }
        std::copy(best.begin(), best.end(), from);
        return best != before;
    }

    /// Of ops from `begin` to `end` and of all tensors that they read or write.
    Time time_of(std::size_t begin, std::size_t end) {
        Time time;
        std::vector<TensorId> tensors;
        for (std::size_t i = begin; i < end; ++i) {
            const graph::Op& op = graph_.ops()[i];
            if (is_source(OpId(i))) continue;
            time += computation(OpId(i));
            for (const TensorId t : op.inputs) {
                if (t.valid()) tensors.push_back(t);
            }
            tensors.insert(tensors.end(), op.outputs.begin(), op.outputs.end());
        }
        std::sort(tensors.begin(), tensors.end());
        tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
        for (const TensorId t : tensors) time += tensor_time(t);
        return time;
    }

    /// Of the op and of all tensors that it reads or writes.
    Time time_around(OpId id) {
        const graph::Op& op = graph_.op(id);
        Time time = computation(id);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const auto end = op.inputs.begin() + static_cast<std::ptrdiff_t>(i);
            const bool again = std::find(op.inputs.begin(), end, op.inputs[i]) != end;
            if (op.inputs[i].valid() && !again) time += tensor_time(op.inputs[i]);
        }
        for (const TensorId t : op.outputs) time += tensor_time(t);
        return time;
    }

    [[nodiscard]] Time computation(OpId id) const {
        const Time whole =
            problem_.forward_time(id, group_[0]) + problem_.backward_time(id, group_[0]);
        const bool split = axes_[id.index()] >= 0;
        return Time(whole.raw() / (problem_.is_batched(id) ? options_.batch_parts : 1) /
                    (split ? degree_ : 1));
    }

    [[nodiscard]] std::optional<Form> shards(OpId id, const graph::TensorRule& tensor,
                                             int factor) const {
        if (factor < 0) return std::nullopt;
        return shards_by(tensor, problem_.rule(id), static_cast<std::size_t>(factor), degree_);
    }

    /// What the readers that are decided need, and the gradients they give; each form once.
    struct Demand {
        std::vector<Form> needs;
        std::vector<Form> gradients;
    };
    void find_demand(TensorId t) {
        demand_.needs.clear();
        demand_.gradients.clear();
        const auto add = [](std::vector<Form>& forms, const Form& form) {
            if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
        };
        for (const graph::Use& use : graph_.uses(t)) {
            const int factor = axes_[use.op.index()];
            if (factor == kUndecided) continue;
            const auto split = shards(use.op, problem_.rule(use.op).operands[use.operand], factor);
            add(demand_.needs, split.value_or(kReplicated));
            add(demand_.gradients, split ? *split : factor >= 0 ? kPartial : kReplicated);
        }
    }

    /// What brings a tensor from where it arises to where it is read, and its gradient back.
    Time tensor_time(TensorId t) {
        if (problem_.is_resident(t)) return Time{0};
        find_demand(t);
        const OpId producer = graph_.tensor(t).producer;
        const OpKind kind = graph_.op(producer).kind;
        if (kind == OpKind::input || demand_.needs.empty()) return Time{0};
        const bool parameter = kind == OpKind::parameter;
        const Form home = parameter ? demand_.needs.front() : result_form(t, producer);
        Time time;
        const bool whole = std::find(demand_.needs.begin(), demand_.needs.end(), kReplicated) !=
                           demand_.needs.end();
        for (const Form& need : demand_.needs) {
            // Shards are slices of what is there as a whole.
            if (!whole || need == kReplicated) time += move_time(t, home, need);
        }
        if (!problem_.has_gradient(t)) return time;
        for (const Form& gradient : demand_.gradients) {
            time += move_time(t, gradient, home == kPartial ? kReplicated : home);
        }
        return parameter ? time + update_time(t, home) : time;
    }

    [[nodiscard]] Form result_form(TensorId t, OpId producer) const {
        const auto& outputs = graph_.op(producer).outputs;
        const auto at = static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), t) -
                                                 outputs.begin());
        const int factor = axes_[producer.index()];
        if (factor < 0) return kReplicated;
        return shards(producer, problem_.rule(producer).results[at], factor).value_or(kPartial);
    }

    /// Of a parameter: its gradients summed over the groups, and its update.
    Time update_time(TensorId t, const Form& home) {
        const std::int64_t shards = home.kind == Form::Kind::shards ? degree_ : 1;
        Time time(problem_.update_time(graph_.tensor(t).producer, group_[0]).raw() / shards);
        if (options_.batch_parts > 1) {
            const Bytes bytes(problem_.tensor_bytes(t).raw() / shards);
            time += collective(Collective::all_reduce, replicas_, bytes);
        }
        return time;
    }

    Time move_time(TensorId t, const Form& from, const Form& to) {
        using Kind = Form::Kind;
        if (from == to || from.kind == Kind::replicated) return Time{0};
        const bool to_shards = to.kind == Kind::shards;
        if (from.kind == Kind::partial) {
            return exchange(to_shards ? Collective::reduce_scatter : Collective::all_reduce, t, 1);
        }
        return to_shards ? exchange(Collective::all_to_all, t, degree_)
                         : exchange(Collective::all_gather, t, 1);
    }

    /// Of one collective per micro-batch; the call counts one part in `share` of the tensor.
    Time exchange(Collective kind, TensorId t, std::int64_t share) {
        const bool batched = problem_.is_batched(t);
        const std::int64_t times = batched ? problem_.policy().micro_batches : 1;
        const std::int64_t parts = (batched ? options_.batch_parts : 1) * times * share;
        return times * collective(kind, group_, Bytes(problem_.tensor_bytes(t).raw() / parts));
    }

    Time collective(Collective kind, const std::vector<int>& devices, Bytes bytes) {
        const auto [known, is_new] =
            prices_.emplace(std::tuple(kind, devices.size(), bytes), Time{0});
        if (is_new) {
            known->second =
                problem_.collective_price({.kind = kind, .devices = devices, .bytes = bytes}).time;
        }
        return known->second;
    }

    /// A source lies as its first reader needs it, where one of its factors can say so.
    int source_axis(OpId id) {
        find_demand(graph_.op(id).outputs[0]);
        if (demand_.needs.empty()) return kRepeated;
        for (const int factor : choices_[id.index()]) {
            if (shards(id, problem_.rule(id).results[0], factor) == demand_.needs.front()) {
                return factor;
            }
        }
        return kRepeated;
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const GroupSplitOptions& options_;
    int degree_;
    std::vector<int> group_;
    std::vector<int> replicas_;
    std::vector<std::vector<int>> choices_;  ///< per op: factors
    std::vector<int> axes_;                  ///< per op: a factor, kRepeated or kUndecided
    std::map<std::tuple<Collective, std::size_t, Bytes>, Time> prices_;
    Demand demand_;  ///< of the latest find_demand()
};

}  // namespace

GroupSplit split_over_group(const Problem& problem, const GroupSplitOptions& options) {
    return Chooser(problem, options).run();
}

}  // namespace partita::search
