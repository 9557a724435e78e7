// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/intra_op/group_split.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "search/hybrid_parallel/intra_op/group_forms.h"
#include "search/hybrid_parallel/intra_op/group_prices.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

namespace {

class Chooser {
public:
    Chooser(const Problem& problem, const GroupSplitOptions& options)
        : problem_(problem),
          graph_(problem.graph()),
          options_(options),
          forms_(problem, options),
          prices_(problem, options),
          chosen_(graph_.op_count(), kUndecided),
          stale_(graph_.op_count(), 1),
          last_(graph_.op_count()) {}

    GroupSplit run() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) choose(OpId(i));
        for (int round = 0; round < kMostRounds; ++round) {
            sweep(0, graph_.op_count());
            bool changed = false;
            for (std::size_t i = 0; i < graph_.op_count(); ++i) {
                if (problem_.facts().rule(OpId(i)).matrix_product) changed |= roll_out(i);
            }
            changed |= align_between_products();
            if (!changed) break;
        }
        keeps_to_what_was_asked_ = false;  // times without kUnwanted
        GroupSplit result;
        result.fault = forms_.fault();
        result.turned.assign(graph_.op_count(), 0);
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId id(i);
            const bool runs = !is_source(id);
            result.axes.push_back(forms_.axis(id, runs ? at(chosen_[i]) : source_choice(id)));
            if (runs) result.turned[i] = is_turned(id, result.turned);
            Time time = runs ? computation(id) : Time{0};
            for (const TensorId t : graph_.op(id).outputs) time += tensor_time(t);
            result.times.push_back(time);
        }
        return result;
    }

private:
    static constexpr int kUndecided = -1;

    static std::size_t at(int index) { return static_cast<std::size_t>(index); }
    static constexpr int kMostSweeps = 8;
    /// Far more than any tensor takes.
    static constexpr Time kUnwanted{100'000'000'000'000};
    static constexpr int kMostRounds = 3;
    static constexpr int kProductsAhead = 4;
    static constexpr std::size_t kOpsAhead = 80;
    /// A tensor that more ops read is left out: looking at all of them from each would be
    /// quadratic.
    static constexpr std::size_t kMostReaders = 128;

    [[nodiscard]] bool is_source(OpId id) const {
        const OpKind kind = graph_.op(id).kind;
        return kind != OpKind::compute && kind != OpKind::output;
    }

    /// Of operand i under the op's present choice, or of result i - operands.
    [[nodiscard]] FormNumber form_of(OpId id, std::size_t i) const {
        return forms_.form(id, at(chosen_[id.index()]), i);
    }

    /// As the op that its first activation comes from, unless that comes in other shards.
    [[nodiscard]] char is_turned(OpId id, const std::vector<char>& turned) const {
        if (forms_.weight_of(id) >= 0) return 0;
        const graph::Op& op = graph_.op(id);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid() || !problem_.facts().is_batched(t)) continue;
            const OpId from = graph_.tensor(t).producer;
            const FormNumber need = form_of(id, i);
            const FormNumber home = is_source(from) ? need : result_form(t, from);
            const bool turns = need != home && need >= kFirstShards && home >= kFirstShards;
            return static_cast<char>((turned[from.index()] != 0) != turns);
        }
        return 0;
    }

    /// The best choice beside what is decided around the op. Does it change?
    bool choose(OpId id) {
        if (stale_[id.index()] == 0) return false;
        stale_[id.index()] = 0;
        if (is_source(id)) return false;
        int& own = chosen_[id.index()];
        const int before = own;
        const auto first = static_cast<int>(forms_.first_choice(id));
        if (own == kUndecided) own = first;
        int best = own;
        Time least = time_around(id);
        for (int choice = first; choice < static_cast<int>(forms_.choice_count(id)); ++choice) {
            if (choice == best) continue;
            own = choice;
            const Time time = time_around(id);
            if (time >= least) continue;
            least = time;
            best = choice;
        }
        own = best;
        if (best == before) return false;
        mark_around(id);
        stale_[id.index()] = 0;
        return true;
    }

    /// The op and all whose times depend on its choice: what one of them chose before may not be its
    /// best any more. Between first_ and last_ alone.
    void mark_around(OpId id) {
        const graph::Op& op = graph_.op(id);
        mark(id);
        for (const TensorId t : op.inputs) {
            if (t.valid()) mark_at(t);
        }
        for (const TensorId t : op.outputs) mark_at(t);
    }
    void mark_at(TensorId t) {
        if (!has_time(t)) return;
        mark(graph_.tensor(t).producer);
        for (const graph::Use& use : graph_.uses(t)) mark(use.op);
    }
    void mark(OpId id) {
        if (first_ <= id.index() && id.index() < last_) stale_[id.index()] = 1;
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

    /// Any axis of a matrix product, its own too, and what follows from it for the ops up to a few
    /// products further on: what no change of one op alone would reach.
    bool roll_out(std::size_t first) {
        std::size_t end = first + 1;
        for (int products = 0; end < graph_.op_count() && end < first + kOpsAhead; ++end) {
            if (!problem_.facts().rule(OpId(end)).matrix_product) continue;
            if (++products == kProductsAhead) break;
        }
        const auto from = chosen_.begin() + static_cast<std::ptrdiff_t>(first);
        const auto to = chosen_.begin() + static_cast<std::ptrdiff_t>(end);
        const auto stale = stale_.begin() + static_cast<std::ptrdiff_t>(first);
        std::vector<int> best(from, to);
        const std::vector<int> before = best;
        const std::vector<char> stale_before(stale, stale + (to - from));
        first_ = first;
        last_ = end;
        Time least = time_of(first, end);
        for (auto choice = static_cast<int>(forms_.first_choice(OpId(first)));
             choice < static_cast<int>(forms_.choice_count(OpId(first))); ++choice) {
            std::fill(from, to, kUndecided);
            std::fill(stale, stale + (to - from), char{1});
            chosen_[first] = choice;
            for (std::size_t op = first + 1; op < end; ++op) choose(OpId(op));
            sweep(first + 1, end);
            const Time time = time_of(first, end);
            if (time >= least) continue;
            least = time;
            best.assign(from, to);
        }
        std::copy(best.begin(), best.end(), from);
        std::copy(stale_before.begin(), stale_before.end(), stale);
        first_ = 0;
        last_ = graph_.op_count();
        for (std::size_t i = 0; i < best.size(); ++i) {
            if (best[i] != before[i]) mark_around(OpId(first + i));
        }
        return best != before;
    }

    /// All that lies between products in shards of one dim, where it is of the shape that is most
    /// common there: a residual runs through the whole network, and to change its dim in one layer
    /// alone never pays.
    bool align_between_products() {
        const graph::Shape shape = shape_between_products();
        bool changed = false;
        Time least = time_of(0, graph_.op_count());
        for (std::size_t dim = 0; dim < shape.size(); ++dim) {
            const std::vector<int> before = chosen_;
            const std::vector<char> stale_before = stale_;
            for (std::size_t i = 0; i < graph_.op_count(); ++i) {
                if (is_between_products(OpId(i), shape)) shard_result(OpId(i), dim);
            }
            sweep(0, graph_.op_count());
            const Time time = time_of(0, graph_.op_count());
            if (time < least) {
                least = time;
                changed = true;
            } else {
                chosen_ = before;
                stale_ = stale_before;
            }
        }
        return changed;
    }

    [[nodiscard]] bool is_between_products(OpId id, const graph::Shape& shape) const {
        const graph::Op& op = graph_.op(id);
        return op.kind == OpKind::compute && !problem_.facts().rule(id).matrix_product &&
               graph_.tensor(op.outputs[0]).shape == shape;
    }

    [[nodiscard]] graph::Shape shape_between_products() const {
        std::map<graph::Shape, int> counts;
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const graph::Op& op = graph_.ops()[i];
            if (op.kind != OpKind::compute || problem_.facts().rule(OpId(i)).matrix_product)
                continue;
            if (problem_.facts().is_batched(OpId(i))) ++counts[graph_.tensor(op.outputs[0]).shape];
        }
        const auto most =
            std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
        return most == counts.end() ? graph::Shape{} : most->first;
    }

    /// If the op can be split along that dim of its result.
    void shard_result(OpId id, std::size_t dim) {
        const std::vector<int>& factors = problem_.facts().rule(id).results[0].dims[dim].factors;
        if (factors.size() != 1) return;
        for (auto choice = forms_.first_choice(id); choice < forms_.choice_count(id); ++choice) {
            const plan::Axis& axis = forms_.axis(id, choice);
            if (!axis.is_factor() || axis.factor != factors[0] || axis.blocks != 1) continue;
            chosen_[id.index()] = static_cast<int>(choice);
            mark_around(id);
            return;
        }
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
        const int device = options_.group[0];
        const Time whole = problem_.prices().forward_time(id, device) +
                           problem_.prices().backward_time(id, device);
        const bool split = chosen_[id.index()] > 0;
        const bool batched = problem_.facts().is_batched(id);
        const int groups = batched ? options_.replicas.size() : 1;
        const Time part(whole.raw() / groups / (split ? options_.group.size() : 1));
        return batched ? std::max(part, launches(id)) : part;
    }

    /// No task is shorter than a launch, so that micro-batches have a price.
    [[nodiscard]] Time launches(OpId id) const {
        if (options_.micro_batches == 1) return Time{0};
        const std::int64_t tasks = (problem_.facts().has_forward(id) ? 1 : 0) +
                                   (problem_.facts().has_backward(id) ? 1 : 0);
        const Time launch = problem_.machine().device(options_.group[0]).launch_interval;
        return tasks * options_.micro_batches * launch;
    }

    /// Forms that the readers need, of which gradients they give, as bits; those that are decided.
    struct Demand {
        std::uint64_t needs = 0;
        std::uint64_t gradients = 0;
        std::uint64_t slices = 0;       ///< of what `needs` has: those of others than products
        FormNumber first = kWholeForm;  ///< what the first reader needs
    };
    [[nodiscard]] Demand demand(TensorId t) const {
        Demand demand;
        for (const graph::Use& use : graph_.uses(t)) {
            const int choice = chosen_[use.op.index()];
            if (choice == kUndecided) continue;
            const FormNumber need = form_of(use.op, use.operand);
            if (demand.needs == 0) demand.first = need;
            demand.needs |= bit(need);
            if (!problem_.facts().rule(use.op).matrix_product) demand.slices |= bit(need);
            demand.gradients |= bit(need >= kFirstShards ? need
                                    : choice > 0         ? kPartialForm
                                                         : kWholeForm);
        }
        return demand;
    }
    static std::uint64_t bit(FormNumber form) { return std::uint64_t{1} << form; }

    [[nodiscard]] bool has_time(TensorId t) const {
        return !problem_.facts().is_resident(t) && graph_.uses(t).size() <= kMostReaders &&
               graph_.op(graph_.tensor(t).producer).kind != OpKind::input;
    }

    /// What brings a tensor from where it arises to where it is read, and its gradient back.
    [[nodiscard]] Time tensor_time(TensorId t) const {
        if (!has_time(t)) return Time{0};
        const OpId producer = graph_.tensor(t).producer;
        const OpKind kind = graph_.op(producer).kind;
        const Demand demand = this->demand(t);
        if (demand.needs == 0) return Time{0};
        const bool parameter = kind == OpKind::parameter;
        const FormNumber home = parameter ? demand.first : result_form(t, producer);
        // Shards are slices of what is there as a whole.
        const std::uint64_t whole = demand.needs & bit(kWholeForm);
        Time time = moves_time(t, home, whole != 0 ? whole : demand.needs);
        if (!lies_as_asked(t, home, demand)) time += kUnwanted;
        if (!problem_.facts().has_gradient(t)) return time;
        const FormNumber back = home == kPartialForm ? kWholeForm : home;
        for (std::uint64_t left = demand.gradients; left != 0; left &= left - 1) {
            time += prices_.move(t, static_cast<FormNumber>(std::countr_zero(left)), back);
        }
        return parameter ? time + prices_.update(t, home) : time;
    }

    /// As GroupSplitOptions::between says.
    [[nodiscard]] bool lies_as_asked(TensorId t, FormNumber home, const Demand& demand) const {
        constexpr std::uint64_t kShards = ~std::uint64_t{0} << kFirstShards;
        if (!keeps_to_what_was_asked_ || !problem_.facts().is_batched(t)) return true;
        switch (options_.between) {
        case BetweenProducts::free: return true;
        case BetweenProducts::repeated:
            return home == kPartialForm ? (demand.needs & kShards) == 0
                                        : (demand.slices & kShards & ~bit(home)) == 0;
        case BetweenProducts::sharded:
            return home != kPartialForm || !is_sum(t) || (demand.needs & bit(kWholeForm)) == 0;
        }
        return true;
    }

    /// Of a partial tensor: do its parts add up, as those of products do? What rows of a loss need of
    /// classes does not (plan/problem/loss_graph.h).
    [[nodiscard]] bool is_sum(TensorId t) const {
        const OpId producer = graph_.tensor(t).producer;
        const plan::Axis& axis = forms_.axis(producer, at(chosen_[producer.index()]));
        const graph::OpRule& rule = problem_.facts().rule(producer);
        return rule.factors[at(axis.factor)].combine == graph::Combine::sum;
    }

    [[nodiscard]] FormNumber result_form(TensorId t, OpId producer) const {
        if (chosen_[producer.index()] == kUndecided) return kWholeForm;
        const graph::Op& op = graph_.op(producer);
        const auto result = std::find(op.outputs.begin(), op.outputs.end(), t) - op.outputs.begin();
        return form_of(producer, op.inputs.size() + static_cast<std::size_t>(result));
    }

    [[nodiscard]] Time moves_time(TensorId t, FormNumber from, std::uint64_t to) const {
        Time time;
        for (; to != 0; to &= to - 1) {
            time += prices_.move(t, from, static_cast<FormNumber>(std::countr_zero(to)));
        }
        return time;
    }

    /// A source lies as its first reader needs it, where one of its factors can say so.
    [[nodiscard]] std::size_t source_choice(OpId id) const {
        const FormNumber need = demand(graph_.op(id).outputs[0]).first;
        for (std::size_t choice = 0; choice < forms_.choice_count(id); ++choice) {
            if (forms_.form(id, choice, 0) == need) return choice;
        }
        return 0;
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const GroupSplitOptions& options_;
    GroupForms forms_;
    GroupPrices prices_;
    std::vector<int> chosen_;  ///< per op: a choice, or kUndecided
    /// Per op: may its choice not be its best any more? One whose surroundings are as they were when
    /// it chose would choose the same again.
    std::vector<char> stale_;
    std::size_t first_ = 0;  ///< ops that mark_around() may mark: from here
    std::size_t last_;       ///< to before here
    bool keeps_to_what_was_asked_ = true;
};

}  // namespace

GroupSplit split_over_group(const Problem& problem, const GroupSplitOptions& options) {
    return Chooser(problem, options).run();
}

}  // namespace partita::search
