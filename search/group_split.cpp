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
          forms_(graph_.tensor_count()) {}

    GroupSplit run() {
        const FactorDegree repeated{"*", degree_};
        result_.axes.assign(graph_.op_count(), repeated);
        result_.times.assign(graph_.op_count(), Time{0});
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const graph::Op& op = graph_.ops()[i];
            if (op.kind == OpKind::compute || op.kind == OpKind::output) choose(OpId(i));
        }
        return std::move(result_);
    }

private:
    static std::vector<int> devices_of(const plan::DeviceSet& set) {
        std::vector<int> devices;
        for (int i = 0; i < set.size(); ++i) devices.push_back(set[i]);
        return devices;
    }

    /// The factor by its index; -1 is "*".
    [[nodiscard]] FactorDegree axis(OpId id, int factor) const {
        if (factor < 0) return {"*", degree_};
        return {problem_.rule(id).factors[static_cast<std::size_t>(factor)].name, degree_};
    }

    /// May the op be split that way, beside the split of the batch over the groups?
    [[nodiscard]] bool may(OpId id, int factor) const {
        const graph::OpRule& rule = problem_.rule(id);
        const graph::Factor& of = rule.factors[static_cast<std::size_t>(factor)];
        if (!of.splittable || !graph::is_legal_degree(of.extent, degree_)) return false;
        const bool is_batch =
            problem_.is_batched(id) &&
            problem_.batch_digits(id)[static_cast<std::size_t>(factor)].extent > 0;
        if (is_batch && !options_.whole_batch) return false;
        const plan::OpConfig config{.degrees = {axis(id, factor)}, .devices = options_.group};
        return !find_fault(problem_, id, config, problem_.policy().micro_batches);
    }

    void choose(OpId id) {
        const std::size_t factors = problem_.rule(id).factors.size();
        int best = -1;
        Time least = time_of(id, -1);
        for (std::size_t f = 0; f < factors; ++f) {
            if (!may(id, static_cast<int>(f))) continue;
            const Time time = time_of(id, static_cast<int>(f));
            if (time >= least) continue;
            least = time;
            best = static_cast<int>(f);
        }
        result_.axes[id.index()] = axis(id, best);
        result_.times[id.index()] = least;
        settle(id, best);
    }

    [[nodiscard]] std::optional<Form> shards(OpId id, const graph::TensorRule& tensor,
                                             int factor) const {
        if (factor < 0) return std::nullopt;
        return shards_by(tensor, problem_.rule(id), static_cast<std::size_t>(factor), degree_);
    }

    /// Of computation and communication when the op takes that axis.
    [[nodiscard]] Time time_of(OpId id, int factor) {
        const graph::Op& op = graph_.op(id);
        const int device = group_[0];
        const std::int64_t parts = (problem_.is_batched(id) ? options_.batch_parts : 1) *
                                   std::int64_t{factor < 0 ? 1 : degree_};
        Time time((problem_.forward_time(id, device) + problem_.backward_time(id, device)).raw() /
                  parts);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid() || problem_.is_resident(op.inputs[i])) continue;
            time += operand_time(op.inputs[i], shards(id, problem_.rule(id).operands[i], factor),
                                 factor >= 0);
        }
        return time;
    }

    /// What an operand costs that is needed in shards, or else whole, by an op that is split or not.
    Time operand_time(TensorId t, const std::optional<Form>& needed, bool is_split) {
        const graph::Op& producer = graph_.op(graph_.tensor(t).producer);
        const Form need = needed.value_or(kReplicated);
        const Form gradient = needed ? *needed : is_split ? kPartial : kReplicated;
        if (producer.kind == OpKind::parameter) return parameter_time(t, need, gradient);
        const std::vector<Form>& have = forms_[t.index()];
        if (have.empty()) return Time{0};  // a source: it lies where it is needed first
        std::optional<Time> fetch;
        for (const Form& form : have) {
            const Time time = move_time(t, form, need);
            if (!fetch || time < *fetch) fetch = time;
        }
        if (!problem_.has_gradient(t)) return *fetch;
        const Form home = have.front().kind == Form::Kind::partial ? kReplicated : have.front();
        return *fetch + move_time(t, gradient, home);
    }

    /// Its gradient's way back to where it lies, inside the group and over the groups, and its update.
    Time parameter_time(TensorId t, const Form& need, const Form& gradient) {
        if (!problem_.has_gradient(t)) return Time{0};
        const auto& have = forms_[t.index()];
        const Form home = have.empty() ? need : have.front();
        const std::int64_t shards = home.kind == Form::Kind::shards ? degree_ : 1;
        const Bytes bytes = problem_.tensor_bytes(t);
        Time time = collective(gradient == kPartial ? std::optional(Collective::all_reduce)
                               : gradient == home   ? std::nullopt
                                                    : std::optional(Collective::all_gather),
                               group_, bytes);
        if (options_.batch_parts > 1) {
            time += collective(Collective::all_reduce, replicas_, Bytes(bytes.raw() / shards));
        }
        const OpId source = graph_.tensor(t).producer;
        return time + Time(problem_.update_time(source, group_[0]).raw() / shards);
    }

    /// Of bringing a tensor from one form to another.
    Time move_time(TensorId t, const Form& from, const Form& to) {
        using Kind = Form::Kind;
        if (from == to || from.kind == Kind::replicated) return Time{0};
        const std::int64_t parts = problem_.is_batched(t) ? options_.batch_parts : 1;
        const std::int64_t times = problem_.is_batched(t) ? problem_.policy().micro_batches : 1;
        const Bytes bytes(problem_.tensor_bytes(t).raw() / parts / times);
        if (from.kind == Kind::partial) {
            const bool whole = to.kind != Kind::shards;
            return times * collective(whole ? Collective::all_reduce : Collective::reduce_scatter,
                                      group_, bytes);
        }
        if (to.kind == Kind::shards) {
            return times * collective(Collective::all_to_all, group_, Bytes(bytes.raw() / degree_));
        }
        return times * collective(Collective::all_gather, group_, bytes);
    }

    Time collective(std::optional<Collective> kind, const std::vector<int>& devices, Bytes bytes) {
        if (!kind) return Time{0};
        const auto [known, is_new] =
            prices_.emplace(std::tuple(*kind, devices.size(), bytes), Time{0});
        if (is_new) {
            known->second =
                problem_.collective_price({.kind = *kind, .devices = devices, .bytes = bytes}).time;
        }
        return known->second;
    }

    /// What the op's choice makes of its operands and results.
    void settle(OpId id, int factor) {
        const graph::Op& op = graph_.op(id);
        const graph::OpRule& rule = problem_.rule(id);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid()) continue;
            const Form need = shards(id, rule.operands[i], factor).value_or(kReplicated);
            add_form(op.inputs[i], need);
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const auto split = shards(id, rule.results[i], factor);
            add_form(op.outputs[i], split ? *split : factor < 0 ? kReplicated : kPartial);
        }
    }

    void add_form(TensorId t, const Form& form) {
        std::vector<Form>& have = forms_[t.index()];
        const OpId by = graph_.tensor(t).producer;
        const OpKind kind = graph_.op(by).kind;
        if (have.empty() && kind != OpKind::compute) settle_source(by, form);
        if (std::find(have.begin(), have.end(), form) == have.end()) have.push_back(form);
    }

    /// A source lies as its first reader needs it, where one of its factors can say so.
    void settle_source(OpId id, const Form& form) {
        if (form.kind != Form::Kind::shards) return;
        const auto& factors =
            problem_.rule(id).results[0].dims[static_cast<std::size_t>(form.dim)].factors;
        for (const int f : factors) {
            const auto own = shards(id, problem_.rule(id).results[0], f);
            if (own == form && may(id, f)) result_.axes[id.index()] = axis(id, f);
        }
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const GroupSplitOptions& options_;
    int degree_;
    std::vector<int> group_;
    std::vector<int> replicas_;
    std::vector<std::vector<Form>> forms_;  ///< per tensor, first as its producer leaves it
    std::map<std::tuple<Collective, std::size_t, Bytes>, Time> prices_;
    GroupSplit result_;
};

}  // namespace

GroupSplit split_over_group(const Problem& problem, const GroupSplitOptions& options) {
    return Chooser(problem, options).run();
}

}  // namespace partita::search
