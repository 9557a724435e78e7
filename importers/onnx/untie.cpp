// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/untie.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "graph/graph_copy.h"
#include "graph/op_globs.h"

namespace partita::importers {

using graph::Op;
using graph::OpGraph;
using graph::OpKind;
using graph::Tensor;
using graph::TensorId;

namespace {

/// Blocks that read it, of those that repeat, in order.
std::vector<std::string_view> repeated_readers(const OpGraph& graph, TensorId t) {
    std::vector<std::string_view> blocks;
    for (const graph::Use use : graph.uses(t)) {
        const std::string& block = graph.op(use.op).block;
        const bool known = std::ranges::find(blocks, block) != blocks.end();
        if (!graph::name_of_repeats(block).empty() && !known) blocks.push_back(block);
    }
    return blocks;
}

bool is_tied(const OpGraph& graph, TensorId t) {
    if (graph.tensor(t).role != graph::TensorRole::parameter) return false;
    const std::vector<std::string_view> blocks = repeated_readers(graph, t);
    std::set<std::string_view> names;
    for (const std::string_view block : blocks) {
        if (!names.insert(graph::name_of_repeats(block)).second) return true;
    }
    return false;
}

class UntiedSource final : public graph::TensorSource {
public:
    UntiedSource(std::unique_ptr<TensorSource> tied, std::map<std::string, std::string> originals)
        : tied_(std::move(tied)), originals_(std::move(originals)) {}

    void read(const std::string& name, Bytes offset, std::span<std::byte> out) const override {
        const auto copy = originals_.find(name);
        tied_->read(copy == originals_.end() ? name : copy->second, offset, out);
    }

private:
    std::unique_ptr<TensorSource> tied_;
    std::map<std::string, std::string> originals_;  ///< by name of the copy
};

/// Copies a graph, and what is to be untied once for each further block.
class Untying {
public:
    Untying(const OpGraph& from, const std::set<TensorId>& tied)
        : from_(from), tied_(tied), copy_(from) {}

    OpGraph run() {
        for (const Op& op : from_.ops()) {
            for (const TensorId t : op.inputs) {
                if (t.valid() && tied_.contains(t)) copy_[t] = read_by(op.block, t);
            }
            copy_.add(op);
            for (const TensorId t : op.outputs) {
                if (t.valid() && tied_.contains(t)) firsts_[t] = copy_[t];
            }
        }
        return std::move(copy_.to);
    }

    [[nodiscard]] std::map<std::string, std::string> originals() { return std::move(originals_); }

private:
    /// The block's own.
    TensorId read_by(const std::string& block, TensorId t) {
        const std::vector<std::string_view> blocks = repeated_readers(from_, t);
        const auto at = std::ranges::find(blocks, block);
        if (at == blocks.end() || at == blocks.begin()) return firsts_.at(t);
        const auto [known, is_new] = copies_.try_emplace({t.index(), block});
        if (is_new) known->second = add_copy(t, block);
        return known->second;
    }

    TensorId add_copy(TensorId t, const std::string& block) {
        Tensor tensor = from_.tensor(t);
        const std::string original = tensor.name;
        tensor.name = copy_.unused(original + "@" + block);
        originals_.emplace(tensor.name, original);
        const TensorId copy = copy_.to.add_source(std::move(tensor));
        copy_.to.op(copy_.to.tensor(copy).producer).block = block;
        return copy;
    }

    const OpGraph& from_;
    const std::set<TensorId>& tied_;
    graph::GraphCopy copy_;
    std::map<TensorId, TensorId> firsts_;  ///< of tied ones, what the first layer reads
    std::map<std::pair<std::size_t, std::string>, TensorId> copies_;
    std::map<std::string, std::string> originals_;
};

}  // namespace

std::vector<std::string> tied_parameters(const OpGraph& graph) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        if (is_tied(graph, TensorId(i))) names.push_back(graph.tensors()[i].name);
    }
    return names;
}

Untied untied(const OpGraph& graph, std::unique_ptr<graph::TensorSource> source,
              const std::vector<std::string>& globs, const std::string& file) {
    std::set<TensorId> tied;
    for (const std::string& glob : globs) {
        bool any = false;
        for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
            const TensorId t(i);
            if (!graph::glob_matches(glob, graph.tensor(t).name) || !is_tied(graph, t)) continue;
            tied.insert(t);
            any = true;
        }
        if (any) continue;
        constexpr std::size_t kShown = 5;
        std::vector<std::string> names = tied_parameters(graph);
        const std::string more = names.size() > kShown ? ", ..." : "";
        names.resize(std::min(names.size(), kShown));
        throw UsageError(fmt::format(
            "{}: --untie {}: no parameter of that name is read in several layer blocks. Those are: "
            "{}{}.",
            file, glob, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")), more));
    }
    Untying untying(graph, tied);
    Untied result{.graph = untying.run(), .source = nullptr};
    result.source = std::make_unique<UntiedSource>(std::move(source), untying.originals());
    return result;
}

}  // namespace partita::importers
