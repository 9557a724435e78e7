// SPDX-License-Identifier: Apache-2.0
#include "search/group_split.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/config.h"
#include "search/factor_blocks.h"
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
/// How an op is shared: along a factor, perhaps in blocks, or not at all.
struct Choice {
    int factor = -1;  ///< -1: repeated
    std::int64_t blocks = 1;
};

constexpr Form kReplicated{};
constexpr Form kPartial{.kind = Form::Kind::partial};

/// Shards of the dim that the choice's factor belongs to; nullopt: of none.
std::optional<Form> shards_by(const graph::TensorRule& tensor, const graph::OpRule& rule,
                              Choice choice, int degree) {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        std::int64_t minor = tensor.dims[d].window ? tensor.dims[d].window->stride : 1;
        const std::vector<int>& factors = tensor.dims[d].factors;
        for (auto f = factors.rbegin(); f != factors.rend(); ++f) {
            const std::int64_t extent = rule.factors[static_cast<std::size_t>(*f)].extent;
            if (*f == choice.factor) {
                const std::int64_t block = extent / choice.blocks;
                return Form{.kind = Form::Kind::shards,
                            .dim = static_cast<int>(d),
                            .chunk = minor * ((block + degree - 1) / degree),
                            .period = minor * block};
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
          forms_(graph_.op_count()),
          known_forms_(graph_.tensor_count(), {kReplicated, kPartial}),
          exchanges_(graph_.tensor_count()),
          chosen_(graph_.op_count(), kUndecided) {
        const auto blocks = blocks_of_factors(problem);
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            find_choices(OpId(i), blocks[i]);
            find_forms(OpId(i));
        }
        for (std::size_t i = 0; i < graph_.tensor_count(); ++i) price_exchanges(TensorId(i));
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
            result.axes.push_back(axis(id, choices_[i][runs ? at(chosen_[i]) : source_choice(id)]));
            Time time = runs ? computation(id) : Time{0};
            for (const TensorId t : graph_.op(id).outputs) time += tensor_time(t);
            result.times.push_back(time);
        }
        return result;
    }

private:
    static constexpr int kUndecided = -1;
    // Numbers of forms of a tensor; from then on shards.
    static constexpr std::uint8_t kWholeForm = 0;
    static constexpr std::uint8_t kPartialForm = 1;
    static constexpr std::uint8_t kFirstShards = 2;
    static constexpr std::size_t kMostForms = 64;

    static std::size_t at(int index) { return static_cast<std::size_t>(index); }
    static constexpr int kMostSweeps = 8;
    static constexpr int kMostRounds = 3;
    static constexpr int kProductsAhead = 4;
    static constexpr std::size_t kOpsAhead = 80;
    /// A tensor that more ops read is left out: looking at all of them from each would be quadratic.
    static constexpr std::size_t kMostReaders = 128;

    static std::vector<int> devices_of(const plan::DeviceSet& set) {
        std::vector<int> devices;
        for (int i = 0; i < set.size(); ++i) devices.push_back(set[i]);
        return devices;
    }

    [[nodiscard]] bool is_source(OpId id) const {
        const OpKind kind = graph_.op(id).kind;
        return kind != OpKind::compute && kind != OpKind::output;
    }

    [[nodiscard]] FactorDegree axis(OpId id, Choice choice) const {
        if (choice.factor < 0) return {"*", degree_};
        const graph::Factor& factor = problem_.rule(id).factors[at(choice.factor)];
        return {name_in_blocks(factor.name, choice.blocks), degree_};
    }

    /// "*", and the factors that the op may be split by beside the split of the batch over the groups.
    void find_choices(OpId id, const std::vector<FactorBlocks>& in_blocks) {
        choices_[id.index()].push_back({});
        for (std::size_t f = 0; f < problem_.rule(id).factors.size(); ++f) {
            add_choice(id, {.factor = static_cast<int>(f)});
        }
        for (const FactorBlocks& of : in_blocks) {
            add_choice(id, {.factor = of.factor, .blocks = of.blocks});
        }
    }

    void add_choice(OpId id, Choice choice) {
        const graph::Factor& factor = problem_.rule(id).factors[at(choice.factor)];
        const std::int64_t extent = factor.extent / choice.blocks;
        if (!factor.splittable || !graph::is_legal_degree(extent, degree_)) return;
        const bool is_batch =
            problem_.is_batched(id) && problem_.batch_digits(id)[at(choice.factor)].extent > 0;
        if (is_batch && !options_.whole_batch) return;
        const plan::OpConfig config{.degrees = {axis(id, choice)}, .devices = options_.group};
        if (find_fault(problem_, id, config, problem_.policy().micro_batches)) return;
        choices_[id.index()].push_back(choice);
    }

    /// Numbers the forms of the op's tensors under each choice. A choice with a form too many goes.
    void find_forms(OpId id) {
        const graph::Op& op = graph_.op(id);
        const graph::OpRule& rule = problem_.rule(id);
        std::vector<Choice> kept;
        for (const Choice choice : choices_[id.index()]) {
            std::vector<std::uint8_t> forms;
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                forms.push_back(form_number(op.inputs[i], rule, rule.operands[i], choice, false));
            }
            for (std::size_t i = 0; i < op.outputs.size(); ++i) {
                forms.push_back(form_number(op.outputs[i], rule, rule.results[i], choice, true));
            }
            if (std::find(forms.begin(), forms.end(), kMostForms) != forms.end()) continue;
            kept.push_back(choice);
            std::vector<std::uint8_t>& all = forms_[id.index()];
            all.insert(all.end(), forms.begin(), forms.end());
        }
        choices_[id.index()] = std::move(kept);
    }

    std::uint8_t form_number(TensorId t, const graph::OpRule& rule, const graph::TensorRule& tensor,
                             Choice choice, bool is_result) {
        if (choice.factor < 0 || !t.valid()) return kWholeForm;
        const auto shards = shards_by(tensor, rule, choice, degree_);
        if (!shards) return is_result ? kPartialForm : kWholeForm;
        std::vector<Form>& known = known_forms_[t.index()];
        const auto form = std::find(known.begin(), known.end(), *shards);
        if (form == known.end() && known.size() == kMostForms) return kMostForms;
        const auto number = static_cast<std::uint8_t>(form - known.begin());
        if (form == known.end()) known.push_back(*shards);
        return number;
    }

    /// Of operand i under the op's present choice, or of result i - operands.
    [[nodiscard]] std::uint8_t form_of(OpId id, std::size_t i) const {
        const graph::Op& op = graph_.op(id);
        const std::size_t width = op.inputs.size() + op.outputs.size();
        return forms_[id.index()][at(chosen_[id.index()]) * width + i];
    }

    /// The best choice beside what is decided around the op. Does it change?
    bool choose(OpId id) {
        if (is_source(id)) return false;
        int& own = chosen_[id.index()];
        const int before = own;
        if (own == kUndecided) own = 0;
        int best = own;
        Time least = time_around(id);
        for (int choice = 0; choice < static_cast<int>(choices_[id.index()].size()); ++choice) {
            if (choice == best) continue;
            own = choice;
            const Time time = time_around(id);
            if (time >= least) continue;
            least = time;
            best = choice;
        }
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
        const auto from = chosen_.begin() + static_cast<std::ptrdiff_t>(first);
        const auto to = chosen_.begin() + static_cast<std::ptrdiff_t>(end);
        std::vector<int> best(from, to);
        const std::vector<int> before = best;
        Time least = time_of(first, end);
        for (int choice = 0; choice < static_cast<int>(choices_[first].size()); ++choice) {
            if (choice == before.front()) continue;
            std::fill(from, to, kUndecided);
            chosen_[first] = choice;
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
        const bool split = chosen_[id.index()] > 0;
        return Time(whole.raw() / (problem_.is_batched(id) ? options_.batch_parts : 1) /
                    (split ? degree_ : 1));
    }

    /// Forms that the readers need, of which gradients they give, as bits; those that are decided.
    struct Demand {
        std::uint64_t needs = 0;
        std::uint64_t gradients = 0;
        std::uint8_t first = kWholeForm;  ///< what the first reader needs
    };
    [[nodiscard]] Demand demand(TensorId t) const {
        Demand demand;
        for (const graph::Use& use : graph_.uses(t)) {
            const int choice = chosen_[use.op.index()];
            if (choice == kUndecided) continue;
            const std::uint8_t need = form_of(use.op, use.operand);
            if (demand.needs == 0) demand.first = need;
            demand.needs |= bit(need);
            demand.gradients |= bit(need >= kFirstShards ? need
                                    : choice > 0         ? kPartialForm
                                                         : kWholeForm);
        }
        return demand;
    }
    static std::uint64_t bit(std::uint8_t form) { return std::uint64_t{1} << form; }

    /// What brings a tensor from where it arises to where it is read, and its gradient back.
    [[nodiscard]] Time tensor_time(TensorId t) const {
        if (problem_.is_resident(t) || graph_.uses(t).size() > kMostReaders) return Time{0};
        const OpId producer = graph_.tensor(t).producer;
        const OpKind kind = graph_.op(producer).kind;
        if (kind == OpKind::input) return Time{0};
        const Demand demand = this->demand(t);
        if (demand.needs == 0) return Time{0};
        const bool parameter = kind == OpKind::parameter;
        const std::uint8_t home = parameter ? demand.first : result_form(t, producer);
        // Shards are slices of what is there as a whole.
        const std::uint64_t whole = demand.needs & bit(kWholeForm);
        Time time = moves_time(t, home, whole != 0 ? whole : demand.needs);
        if (!problem_.has_gradient(t)) return time;
        const std::uint8_t back = home == kPartialForm ? kWholeForm : home;
        for (std::uint64_t left = demand.gradients; left != 0; left &= left - 1) {
            time += move_time(t, static_cast<std::uint8_t>(std::countr_zero(left)), back);
        }
        return parameter ? time + update_time(t, home) : time;
    }

    [[nodiscard]] std::uint8_t result_form(TensorId t, OpId producer) const {
        if (chosen_[producer.index()] == kUndecided) return kWholeForm;
        const graph::Op& op = graph_.op(producer);
        const auto result = std::find(op.outputs.begin(), op.outputs.end(), t) - op.outputs.begin();
        return form_of(producer, op.inputs.size() + static_cast<std::size_t>(result));
    }

    [[nodiscard]] Time moves_time(TensorId t, std::uint8_t from, std::uint64_t to) const {
        Time time;
        for (; to != 0; to &= to - 1) {
            time += move_time(t, from, static_cast<std::uint8_t>(std::countr_zero(to)));
        }
        return time;
    }

    /// Of a parameter: its gradients summed over the groups, and its update.
    [[nodiscard]] Time update_time(TensorId t, std::uint8_t home) const {
        const bool sharded = home >= kFirstShards;
        return exchanges_[t.index()].update[sharded ? 1 : 0];
    }

    [[nodiscard]] Time move_time(TensorId t, std::uint8_t from, std::uint8_t to) const {
        if (from == to || from == kWholeForm) return Time{0};
        const Exchanges& of = exchanges_[t.index()];
        const bool to_shards = to >= kFirstShards;
        if (from == kPartialForm) return to_shards ? of.reduce_scatter : of.all_reduce;
        return to_shards ? of.all_to_all : of.all_gather;
    }

    /// What can happen to a tensor in an iteration, all micro-batches together.
    struct Exchanges {
        Time all_reduce;
        Time reduce_scatter;
        Time all_gather;
        Time all_to_all;
        std::array<Time, 2> update{};  ///< of a parameter that is whole, and in shards
    };
    void price_exchanges(TensorId t) {
        if (problem_.is_resident(t)) return;
        const bool batched = problem_.is_batched(t);
        const std::int64_t times = batched ? problem_.policy().micro_batches : 1;
        const std::int64_t parts = (batched ? options_.batch_parts : 1) * times;
        const Bytes whole = problem_.tensor_bytes(t);
        const Bytes bytes(whole.raw() / parts);
        Exchanges& of = exchanges_[t.index()];
        of.all_reduce = times * collective(Collective::all_reduce, group_, bytes);
        of.reduce_scatter = times * collective(Collective::reduce_scatter, group_, bytes);
        of.all_gather = times * collective(Collective::all_gather, group_, bytes);
        of.all_to_all =
            times * collective(Collective::all_to_all, group_, Bytes(bytes.raw() / degree_));
        const OpId producer = graph_.tensor(t).producer;
        if (graph_.op(producer).kind != OpKind::parameter || !problem_.has_gradient(t)) return;
        for (const std::int64_t shards : {1, degree_}) {
            Time time(problem_.update_time(producer, group_[0]).raw() / shards);
            if (options_.batch_parts > 1) {
                time += collective(Collective::all_reduce, replicas_, Bytes(whole.raw() / shards));
            }
            of.update[shards > 1 ? 1 : 0] = time;
        }
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
    [[nodiscard]] std::size_t source_choice(OpId id) const {
        const graph::Op& op = graph_.op(id);
        const std::uint8_t need = demand(op.outputs[0]).first;
        const std::size_t width = op.outputs.size();
        for (std::size_t choice = 0; choice < choices_[id.index()].size(); ++choice) {
            if (forms_[id.index()][choice * width] == need) return choice;
        }
        return 0;
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const GroupSplitOptions& options_;
    int degree_;
    std::vector<int> group_;
    std::vector<int> replicas_;
    std::vector<std::vector<Choice>> choices_;      ///< per op, first repeated
    std::vector<std::vector<std::uint8_t>> forms_;  ///< per op: choice x (operands, results)
    std::vector<std::vector<Form>> known_forms_;    ///< per tensor, by number
    std::vector<Exchanges> exchanges_;              ///< per tensor
    std::vector<int> chosen_;                       ///< per op: of choices_, or kUndecided
    std::map<std::tuple<Collective, std::size_t, Bytes>, Time> prices_;
};

}  // namespace

GroupSplit split_over_group(const Problem& problem, const GroupSplitOptions& options) {
    return Chooser(problem, options).run();
}

}  // namespace partita::search
