// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/intra_op/group_forms.h"

#include <algorithm>

#include "plan/legality/config_legality.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

constexpr std::size_t kMostForms = 64;  // they are bits of a word

}  // namespace

GroupForms::GroupForms(const Problem& problem, const GroupSplitOptions& options)
    : problem_(problem),
      options_(options),
      degree_(options.group.size()),
      choices_(problem.graph().op_count()),
      forms_(problem.graph().op_count()),
      known_forms_(problem.graph().tensor_count(), std::vector<Form>(kFirstShards)) {
    const auto blocks = blocks_of_factors(problem);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
        find_choices(OpId(i), blocks[i]);
        find_forms(OpId(i));
    }
}

FormNumber GroupForms::form(OpId id, std::size_t choice, std::size_t i) const {
    const graph::Op& op = problem_.graph().op(id);
    return forms_[id.index()][choice * (op.inputs.size() + op.outputs.size()) + i];
}

plan::Axis GroupForms::axis(OpId op, std::size_t choice) const {
    return axis_of(choices_[op.index()][choice]);
}

plan::Axis GroupForms::axis_of(Choice choice) const {
    return choice.factor < 0 ? plan::Axis::replicas(degree_)
                             : plan::Axis::along(choice.factor, degree_, choice.blocks);
}

/// "*", and the factors that the op may be split by beside the split of the batch over the groups.
void GroupForms::find_choices(OpId op, const std::vector<FactorBlocks>& in_blocks) {
    choices_[op.index()].push_back({});
    for (std::size_t f = 0; f < problem_.facts().rule(op).factors.size(); ++f) {
        add_choice(op, {.factor = static_cast<int>(f)});
    }
    for (const FactorBlocks& of : in_blocks) {
        add_choice(op, {.factor = of.factor, .blocks = of.blocks});
    }
}

void GroupForms::add_choice(OpId op, Choice choice) {
    const auto f = static_cast<std::size_t>(choice.factor);
    const graph::Factor& factor = problem_.facts().rule(op).factors[f];
    if (!factor.splittable || !graph::is_legal_degree(factor.extent / choice.blocks, degree_)) {
        return;
    }
    const bool is_batch =
        problem_.facts().is_batched(op) && problem_.facts().batch_digits(op)[f].extent > 0;
    if (is_batch && !options_.whole_batch) return;
    const plan::OpConfig config{.axes = {axis_of(choice)}, .devices = options_.group};
    if (find_fault(problem_, op, config, options_.micro_batches)) return;
    choices_[op.index()].push_back(choice);
}

/// Numbers the forms of the op's tensors under each choice. A choice with a form too many goes.
void GroupForms::find_forms(OpId id) {
    const graph::Op& op = problem_.graph().op(id);
    const graph::OpRule& rule = problem_.facts().rule(id);
    std::vector<Choice> kept;
    for (const Choice choice : choices_[id.index()]) {
        std::vector<FormNumber> forms;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            forms.push_back(number(op.inputs[i], rule, rule.operands[i], choice, false));
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            forms.push_back(number(op.outputs[i], rule, rule.results[i], choice, true));
        }
        if (std::find(forms.begin(), forms.end(), kMostForms) != forms.end()) continue;
        kept.push_back(choice);
        std::vector<FormNumber>& all = forms_[id.index()];
        all.insert(all.end(), forms.begin(), forms.end());
    }
    choices_[id.index()] = std::move(kept);
}

/// Shards of the dim that the choice's factor belongs to; of none: not of shards.
GroupForms::Form GroupForms::form_of(const graph::TensorRule& tensor, const graph::OpRule& rule,
                                     Choice choice) const {
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
                        .period = minor * block};
            }
            minor *= extent;
        }
    }
    return {};
}

FormNumber GroupForms::number(TensorId t, const graph::OpRule& rule,
                              const graph::TensorRule& tensor, Choice choice, bool is_result) {
    if (choice.factor < 0 || !t.valid()) return kWholeForm;
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
