// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/intra_op/group_forms.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/legality/config_legality.h"
#include "search/configs/factor_blocks.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Axis;
using plan::Problem;

namespace {

constexpr std::size_t kMostForms = 64;  // they are bits of a word

bool has_factor(const graph::TensorRule& tensor, std::size_t f) {
    return std::ranges::any_of(tensor.dims, [&](const graph::DimRule& dim) {
        return std::ranges::find(dim.factors, static_cast<int>(f)) != dim.factors.end();
    });
}

}  // namespace

GroupForms::GroupForms(const Problem& problem, const GroupSplitOptions& options)
    : problem_(problem),
      options_(options),
      degree_(options.group.size()),
      choices_(problem.graph().op_count()),
      forms_(problem.graph().op_count()),
      known_forms_(problem.graph().tensor_count(), std::vector<Form>(kFirstShards)),
      must_share_(problem.graph().op_count(), 0) {
    const auto blocks = blocks_of_factors(problem);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
        const OpId op(i);
        for (const Axis& axis : axes_to_split(problem.facts().rule(op), blocks[i])) {
            const Axis choice = axis.with_degree(degree_);
            if (is_choice(op, choice)) choices_[i].push_back(choice);
        }
        find_forms(op);
    }
    if (options.must_share == MustShare::experts && !has_experts()) {
        fault_ =
            "the model has no product with the weights of several experts, such as [experts 1 n "
            "m]. "
            "Leave it out.";
    }
}

bool GroupForms::has_experts() const {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
        if (is_of_experts(OpId(i))) return true;
    }
    return false;
}

/// Groups of a convolution are no experts.
bool GroupForms::is_of_experts(OpId id) const {
    const graph::OpRule& rule = problem_.facts().rule(id);
    const bool slides = !rule.operands.empty() &&
                        std::ranges::any_of(rule.operands[0].dims, [](const graph::DimRule& dim) {
                            return dim.window.has_value();
                        });
    return !slides && problem_.facts().is_batched(id) && weight_of(id) >= 0 && has_heads(id);
}

FormNumber GroupForms::form(OpId id, std::size_t choice, std::size_t i) const {
    const graph::Op& op = problem_.graph().op(id);
    return forms_[id.index()][choice * (op.inputs.size() + op.outputs.size()) + i];
}

/// May the op be shared like this, beside the split of the batch over the groups?
bool GroupForms::is_choice(OpId op, const Axis& axis) const {
    if (axis.is_replica()) return true;
    const graph::Factor& factor =
        problem_.facts().rule(op).factors[static_cast<std::size_t>(axis.factor)];
    if (!graph::is_legal_degree(factor.extent / axis.blocks, degree_)) return false;
    if (is_batch(op, axis) && !options_.whole_batch) return false;
    if (options_.allows) return options_.allows(op, axis);
    const plan::OpConfig config{.axes = {axis}, .devices = options_.group};
    return !find_fault(problem_, op, config, options_.micro_batches);
}

bool GroupForms::is_batch(OpId op, const Axis& axis) const {
    return axis.is_factor() && problem_.facts().is_batched(op) &&
           problem_.facts().batch_digits(op)[static_cast<std::size_t>(axis.factor)].extent > 0;
}

int GroupForms::weight_of(OpId id) const {
    const graph::OpRule& rule = problem_.facts().rule(id);
    if (!rule.matrix_product && !rule.bytes_moved.has_value()) return -1;
    const graph::Op& op = problem_.graph().op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId t = op.inputs[i];
        if (!t.valid() || !problem_.facts().origins()[t.index()].weight) continue;
        if (problem_.graph().tensor(t).shape.size() > 1) return static_cast<int>(i);
    }
    return -1;
}

/// What each device must have a part of, by what somebody asked for:
///
///                                                      weights        activations         experts
///     a product with weights of many experts           the weight     its other           all of them
///                                                                     operand, result
///     a product with a weight, or an op that reads     the weight     its other           the same
///     only some of one (an embedding)                                 operand, result
///     a product of activations with dims beside        all of them    its first           the same
///     the batch (heads of attention)                                  operand, result
GroupForms::Shares GroupForms::shares_of(OpId id) const {
    const bool of_weights = options_.must_share == MustShare::weights;
    const bool of_experts = options_.must_share == MustShare::experts;
    const bool of_activations = options_.must_share == MustShare::activations;
    if (options_.must_share == MustShare::nothing || !problem_.facts().is_batched(id)) return {};
    const std::size_t result = problem_.graph().op(id).inputs.size();
    if (const int weight = weight_of(id); weight >= 0) {
        const auto w = static_cast<std::size_t>(weight);
        const std::size_t other = w == 0 ? 1 : 0;
        if (of_weights) return {.parts = {w}, .whole = {}};
        if (of_experts && is_of_experts(id)) return {.parts = {w, other, result}, .whole = {}};
        return {.parts = {other, result}, .whole = {w}, .batch_alone = of_experts};
    }
    if (!problem_.facts().rule(id).matrix_product || !has_heads(id)) return {};
    if (of_weights) return {.parts = {0, 1, result}, .whole = {}};
    Shares shares{.parts = {0, result}, .whole = {}, .batch_alone = of_experts};
    if (of_activations && options_.attention != AttentionBy::free) {
        shares.by_heads = options_.attention == AttentionBy::heads;
    }
    return shares;
}

/// Has a product a factor, not of the batch, that both operands and the result have?
bool GroupForms::has_heads(OpId id) const {
    const graph::OpRule& rule = problem_.facts().rule(id);
    if (rule.operands.size() < 2) return false;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const bool is_batch = problem_.facts().batch_digits(id)[f].extent > 0;
        if (!is_batch && rule.factors[f].extent > 1 && has_factor(rule.operands[0], f) &&
            has_factor(rule.operands[1], f) && has_factor(rule.results[0], f)) {
            return true;
        }
    }
    return false;
}

/// Does each device have the keys (operand 1) of its own heads, or all of them, one block after the
/// other in a ring?
bool GroupForms::is_by_heads(const graph::OpRule& rule, const Axis& choice) const {
    const Form keys = form_of(rule.operands[1], rule, choice);
    return keys.shards && !rule.operands[1].dims[static_cast<std::size_t>(keys.dim)].rotation;
}

/// Of the ways to share what an op looks something up in, those where each device finds some of the
/// rows (a vocabulary in parts), if there are any.
void GroupForms::look_up_in_parts(const graph::OpRule& rule, std::vector<Axis>& choices) const {
    const auto is_other = [&](const Axis& choice) {
        return !choice.is_replica() && form_of(rule.results[0], rule, choice).shards;
    };
    const auto of_rows = std::ranges::count_if(
        choices, [&](const Axis& choice) { return !choice.is_replica() && !is_other(choice); });
    if (of_rows > 0) std::erase_if(choices, is_other);
}

std::string GroupForms::cannot_share(OpId id, const Shares& shares) const {
    const graph::Op& op = problem_.graph().op(id);
    const graph::OpRule& rule = problem_.facts().rule(id);
    std::string dims;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const graph::Factor& factor = rule.factors[f];
        const auto has_it = [&](std::size_t i) {
            return has_factor(i < op.inputs.size() ? rule.operands[i] : rule.results[0], f);
        };
        const bool splits =
            std::ranges::all_of(shares.parts, has_it) && std::ranges::none_of(shares.whole, has_it);
        const bool is_batch = problem_.facts().batch_digits(id)[f].extent > 0;
        if (!splits || !factor.splittable || factor.extent < 2 || is_batch) continue;
        const Axis axis = Axis::along(f, degree_);
        if (shares.by_heads && *shares.by_heads != is_by_heads(rule, axis)) continue;
        dims += fmt::format("{}{} ({})", dims.empty() ? "" : ", ", factor.name, factor.extent);
    }
    std::string why = "no dim of what they would share may be split.";
    if (!dims.empty()) {
        why = fmt::format(
            "what they would share has {}. Use a degree that cuts one of these into as many parts, "
            "all of one size but for a smaller last one.",
            dims);
    } else if (options_.must_share == MustShare::activations) {
        why =
            "it has no positions apart from the batch. Where both are one dim, give "
            "--micro-batches "
            "so that each has one sample for each of dp; of a model without a sequence leave it "
            "out.";
    }
    return fmt::format("{} devices cannot share op '{}' ({}): {}", degree_, op.name, op.type, why);
}

/// Numbers the forms of the op's tensors under each choice. A choice with a form too many goes, and
/// so does one that repeats a weight which must be shared.
void GroupForms::find_forms(OpId id) {
    const graph::Op& op = problem_.graph().op(id);
    const graph::OpRule& rule = problem_.facts().rule(id);
    const Shares shares = shares_of(id);
    const bool must = !shares.parts.empty();
    const bool looks_up = must && !rule.matrix_product && shares.whole.empty();
    if (looks_up) look_up_in_parts(rule, choices_[id.index()]);
    std::vector<Axis> kept;
    for (const Axis& choice : choices_[id.index()]) {
        std::vector<FormNumber> forms;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            forms.push_back(number(op.inputs[i], rule, rule.operands[i], choice, false));
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            forms.push_back(number(op.outputs[i], rule, rule.results[i], choice, true));
        }
        if (std::find(forms.begin(), forms.end(), kMostForms) != forms.end()) continue;
        const auto is_shards = [&](std::size_t i) { return forms[i] >= kFirstShards; };
        const bool as_asked = std::ranges::all_of(shares.parts, is_shards) &&
                              std::ranges::none_of(shares.whole, is_shards) &&
                              (!shares.batch_alone || is_batch(id, choice)) &&
                              (!shares.by_heads || *shares.by_heads == is_by_heads(rule, choice));
        if (!choice.is_replica() && !as_asked) continue;
        kept.push_back(choice);
        std::vector<FormNumber>& all = forms_[id.index()];
        all.insert(all.end(), forms.begin(), forms.end());
    }
    must_share_[id.index()] = must && kept.size() > 1 ? 1 : 0;
    if (must && kept.size() == 1 && fault_.empty()) fault_ = cannot_share(id, shares);
    choices_[id.index()] = std::move(kept);
}

/// Shards of the dim that the choice's factor belongs to; of none: not of shards.
GroupForms::Form GroupForms::form_of(const graph::TensorRule& tensor, const graph::OpRule& rule,
                                     const Axis& choice) const {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        std::int64_t minor = tensor.dims[d].window ? tensor.dims[d].window->stride : 1;
        const std::vector<int>& factors = tensor.dims[d].factors;
        for (auto f = factors.rbegin(); f != factors.rend(); ++f) {
            const std::int64_t extent = rule.factors[static_cast<std::size_t>(*f)].extent;
            if (*f == choice.factor) {
                const std::int64_t block = extent / choice.blocks;
                return {.shards = true,
                        .dim = static_cast<int>(d),
                        .chunk = minor * ((block + degree_ - 1) / degree_),
                        .period = minor * block,
                        .rotated = tensor.dims[d].rotation.value_or(0) != 0};
            }
            minor *= extent;
        }
    }
    return {};
}

FormNumber GroupForms::number(TensorId t, const graph::OpRule& rule,
                              const graph::TensorRule& tensor, const Axis& choice, bool is_result) {
    if (choice.is_replica() || !t.valid()) return kWholeForm;
    const Form own = form_of(tensor, rule, choice);
    if (!own.shards) return is_result ? kPartialForm : kWholeForm;
    std::vector<Form>& known = known_forms_[t.index()];
    const auto form = std::find(known.begin(), known.end(), own);
    if (form == known.end() && known.size() == kMostForms) return kMostForms;
    const auto number = static_cast<FormNumber>(form - known.begin());
    if (form == known.end()) known.push_back(own);
    return number;
}

}  // namespace partita::search
