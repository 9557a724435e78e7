// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/fuse.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/graph_copy.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/op_table.h"

namespace partita::graph {

namespace {

constexpr std::array kKernels = {
    NamedKernel{.name = "silu",
                .expression = "Mul(x, Sigmoid(x))",
                .source = "torch.nn.functional.silu, which exporters write as two ops"},
    NamedKernel{.name = "swiglu",
                .expression = "Mul(Mul(g, Sigmoid(g)), u)",
                .source = "Megatron-LM, megatron/core/fusions/fused_bias_swiglu.py"},
    NamedKernel{.name = "weighted-swiglu",
                .expression = "Mul(Mul(Mul(g, Sigmoid(g)), u), p)",
                .source = "Megatron-LM, the same file: each token of an expert with its share"},
    NamedKernel{.name = "gelu",
                .expression = "Mul(Mul(x, Add(Erf(Div(x, a)), b)), c)",
                .source = "torch.nn.functional.gelu, which exporters write as five ops"},
    NamedKernel{.name = "gelu-tanh",
                .expression = "Mul(Mul(x, h), Add(Tanh(Mul(Add(x, Mul(Pow(x, p), c)), k)), o))",
                .source = "the same with approximate=\"tanh\", in seven or eight ops"},
    NamedKernel{.name = "bias-gelu",
                .expression = "Gelu(Add(x, b))",
                .source = "Megatron-LM, megatron/core/fusions/fused_bias_gelu.py"},
    NamedKernel{.name = kLinearKernel,
                .expression = "Add(MatMul(x, w), b)",
                .source = "torch.nn.functional.linear: at::addmm adds the bias as it stores the "
                          "product, which exporters write as two ops"},
    NamedKernel{.name = kTransposes,
                .expression = "Transpose(x)",
                .source = "torch.Tensor.transpose, which gives a view of the same memory"},
    NamedKernel{.name = kUnalignedProducts,
                .expression = "MatMul or Gemm with rows that are no multiple of 16 bytes",
                .source = "at::mm, which gives matrices to cuBLAS as they are stored"},
};

/// A kernel that is ONNX's Gelu of x where its other letters are these numbers.
struct GeluForm {
    std::string_view name;
    std::string_view approximate;
    std::vector<std::pair<std::string_view, double>> numbers;
};

/// Source: Hendrycks, Gimpel, Gaussian Error Linear Units, 2016, section 2.
const std::vector<GeluForm>& gelu_forms() {
    static const std::vector<GeluForm> kForms = {
        {.name = "gelu",
         .approximate = "none",
         .numbers = {{"a", std::numbers::sqrt2}, {"b", 1.0}, {"c", 0.5}}},
        {.name = "gelu-tanh",
         .approximate = "tanh",
         .numbers = {{"h", 0.5},
                     {"p", 3.0},
                     {"c", 0.044715},
                     {"k", std::numbers::sqrt2 * std::numbers::inv_sqrtpi},
                     {"o", 1.0}}},
    };
    return kForms;
}

/// A letter, or an operator of further nodes.
struct Node {
    std::string name;
    bool is_letter = false;
    std::vector<Node> operands;
};

bool is_commutative(const Node& node) {
    return (node.name == "Add" || node.name == "Mul") && node.operands.size() == 2;
}

bool is_pointwise(std::string_view type) {
    const OpRow* const row = find_row("", type);
    if (row == nullptr || row->make != nullptr || row->alias || row->random) return false;
    return row->factors == "... -> ..." || row->factors == "..., ... -> ...";
}

/// Of rows of all matrices: the bytes at multiples of which they begin, at most kWideRow.
int row_bytes_of(const OpGraph& graph, const Op& op) {
    if (!is_product(op)) return kWideRow;
    std::int64_t bytes = kWideRow;
    const auto add = [&](TensorId t) {
        const Tensor& tensor = graph.tensor(t);
        if (tensor.shape.size() < 2 || tensor.elements() == 0) return;
        bytes = std::gcd(bytes, tensor.bytes().raw() / tensor.elements() * tensor.shape.back());
    };
    add(op.inputs[0]);
    add(op.inputs[1]);
    add(op.outputs[0]);
    return static_cast<int>(bytes);
}

/// What a name makes of an op that suits it; false: it does not.
struct Mark {
    std::string_view name;
    bool (*apply)(const OpGraph& graph, Op& op);
};

constexpr std::array kMarks = {
    Mark{.name = kTransposes,
         .apply =
             [](const OpGraph&, Op& op) {
                 if (op.kind != OpKind::compute || !op.domain.empty()) return false;
                 if (op.type != "Transpose") return false;
                 op.domain = "partita";
                 return true;
             }},
    Mark{.name = kUnalignedProducts,
         .apply =
             [](const OpGraph& graph, Op& op) {
                 op.row_bytes = row_bytes_of(graph, op);
                 return op.row_bytes != kWideRow;
             }},
};

const Mark* find_mark(std::string_view name) {
    const auto* const mark = std::ranges::find(kMarks, name, &Mark::name);
    return mark == kMarks.end() ? nullptr : mark;
}

/// Ops that suit it.
int count(const OpGraph& graph, const Mark& mark) {
    return static_cast<int>(
        std::ranges::count_if(graph.ops(), [&](Op op) { return mark.apply(graph, op); }));
}

/// Reads "Mul(g, Sigmoid(g))".
class ExpressionParser {
public:
    /// `product`: an operator that may be read though it is not pointwise.
    ExpressionParser(std::string_view text, const std::string& file, std::string_view product = {})
        : text_(text), file_(file), product_(product) {}

    Node run() {
        Node node = read();
        if (node.is_letter) fail("it computes nothing");
        if (at_ != text_.size()) fail(fmt::format("'{}' is too much", text_.substr(at_)));
        return node;
    }

private:
    [[noreturn]] void fail(const std::string& why) const {
        std::string names;
        for (const NamedKernel& kernel : kKernels) names += fmt::format("{}, ", kernel.name);
        throw UsageError(
            fmt::format("{}: --fuse {}: {}. Give one of {}or an expression such as {}.", file_,
                        text_, why, names, kKernels[1].expression));
    }

    void skip_spaces() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool skip(char wanted) {
        skip_spaces();
        if (at_ == text_.size() || text_[at_] != wanted) return false;
        ++at_;
        skip_spaces();
        return true;
    }

    Node read() {
        skip_spaces();
        const std::size_t begin = at_;
        const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)); };
        while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
        Node node{.name = std::string(text_.substr(begin, at_ - begin)), .operands = {}};
        if (node.name.empty()) fail("an operator or a letter is missing");
        if (!skip('(')) {
            node.is_letter = node.name.size() == 1 && node.name[0] >= 'a' && node.name[0] <= 'z';
            if (node.is_letter) return node;
            fail(fmt::format("'{}' is neither a letter nor an operator of operands", node.name));
        }
        if (node.name != product_ && !is_pointwise(node.name)) {
            fail(fmt::format("'{}' is no pointwise operator of ONNX", node.name));
        }
        if (++operators_ > kMostOperators) {
            fail(fmt::format("more than {} operators", kMostOperators));
        }
        do node.operands.push_back(read());
        while (skip(','));
        if (!skip(')')) fail("')' is missing");
        return node;
    }

    static constexpr int kMostOperators = 12;  // of n that commute there are 2^n orders
    std::string_view text_;
    const std::string& file_;
    std::string_view product_;
    std::size_t at_ = 0;
    int operators_ = 0;
};

/// What an expression was found as.
struct Match {
    std::string name;  ///< of the kernel, or its expression
    std::map<std::string, TensorId> letters;
    std::set<OpId> ops;
};

/// Of "linear": is w one matrix, and b a number for each of its columns?
bool is_linear(const OpGraph& graph, const Match& match) {
    const auto shape = [&](const char* letter) -> const Shape& {
        return graph.tensor(match.letters.at(letter)).shape;
    };
    return shape("x").size() >= 2 && shape("w").size() == 2 && shape("b") == Shape{shape("w")[1]};
}

/// Finds an expression that ends in an op.
class Matcher {
public:
    Matcher(const OpGraph& graph, const Node& pattern) : graph_(graph), pattern_(pattern) {}

    [[nodiscard]] std::vector<Match> at(OpId root) const {
        std::vector<Match> found = matches(pattern_, root, Match{});
        std::erase_if(found, [&](const Match& match) { return !is_closed(match, root); });
        return found;
    }

private:
    /// All ways in which the node can be that tensor, and what was met before stays as it is.
    [[nodiscard]] std::vector<Match> matches(const Node& node, TensorId t,
                                             const Match& before) const {
        if (!t.valid()) return {};
        if (!node.is_letter) return matches(node, graph_.tensor(t).producer, before);
        Match match = before;
        const auto [letter, is_new] = match.letters.emplace(node.name, t);
        return letter->second == t ? std::vector{match} : std::vector<Match>{};
    }

    [[nodiscard]] std::vector<Match> matches(const Node& node, OpId id, const Match& before) const {
        const Op& op = graph_.op(id);
        const bool same = op.kind == OpKind::compute && op.domain.empty() && op.type == node.name &&
                          op.inputs.size() == node.operands.size() && op.outputs.size() == 1;
        if (!same || rule_of(graph_, id).conservative) return {};
        Match with = before;
        with.ops.insert(id);
        std::vector<Match> found = operand_matches(node, op.inputs, with);
        if (!is_commutative(node)) return found;
        for (Match& swapped : operand_matches(node, {op.inputs[1], op.inputs[0]}, with)) {
            found.push_back(std::move(swapped));
        }
        return found;
    }

    [[nodiscard]] std::vector<Match> operand_matches(const Node& node,
                                                     const std::vector<TensorId>& operands,
                                                     const Match& before) const {
        std::vector<Match> found{before};
        for (std::size_t i = 0; i < operands.size(); ++i) {
            std::vector<Match> next;
            for (const Match& match : found) {
                for (Match& longer : matches(node.operands[i], operands[i], match)) {
                    next.push_back(std::move(longer));
                }
            }
            found = std::move(next);
        }
        return found;
    }

    /// Nobody else reads inner values.
    [[nodiscard]] bool is_closed(const Match& match, OpId root) const {
        return std::ranges::all_of(match.ops, [&](OpId op) {
            return op == root ||
                   std::ranges::all_of(graph_.uses(graph_.op(op).outputs[0]),
                                       [&](Use use) { return match.ops.contains(use.op); });
        });
    }

    const OpGraph& graph_;
    const Node& pattern_;
};

/// Copies a graph with kernels in place of their ops.
class KernelFusion {
public:
    /// `kernels`: by their last op.
    KernelFusion(const OpGraph& from, const std::map<OpId, Match>& kernels,
                 const std::vector<const Mark*>& marks, const NumberOf& number)
        : from_(from), kernels_(kernels), marks_(marks), number_(number), copy_(from) {
        for (const auto& [root, kernel] : kernels) {
            for (const OpId op : kernel.ops) {
                if (op != root) inner_.insert(op);
            }
        }
    }

    OpGraph run() {
        for (std::size_t i = 0; i < from_.op_count(); ++i) {
            const OpId id(i);
            if (inner_.contains(id)) continue;
            const auto kernel = kernels_.find(id);
            if (kernel == kernels_.end()) {
                copy_.add(marked(from_.op(id)));
            } else if (const GeluForm* const form = gelu_form(id, kernel->second)) {
                copy_.add(gelu_op(id, kernel->second, *form));
            } else if (kernel->second.name == kLinearKernel) {
                copy_.add(linear_op(id, kernel->second));
            } else {
                copy_.add(kernel_op(id, kernel->second));
            }
        }
        return std::move(copy_.to);
    }

private:
    [[nodiscard]] Op marked(Op op) const {
        for (const Mark* const mark : marks_) mark->apply(from_, op);
        return op;
    }

    /// Are its constants those of the function? Files may have them in 16 bits.
    [[nodiscard]] const GeluForm* gelu_form(OpId root, const Match& kernel) const {
        constexpr double kRounding = 1.0 / 256;
        const auto is_number = [&](const std::pair<std::string_view, double>& wanted) {
            const auto value = number_(kernel.letters.at(std::string(wanted.first)));
            return value && std::abs(*value - wanted.second) <= kRounding * wanted.second;
        };
        for (const GeluForm& form : gelu_forms()) {
            if (form.name != kernel.name) continue;
            const TensorId x = kernel.letters.at("x");
            const bool broadcasts =
                from_.tensor(x).shape != from_.tensor(from_.op(root).outputs[0]).shape;
            if (!broadcasts && number_ && std::ranges::all_of(form.numbers, is_number)) {
                return &form;
            }
        }
        return nullptr;
    }

    [[nodiscard]] Op gelu_op(OpId root, const Match& kernel, const GeluForm& form) const {
        const Op& last = from_.op(root);
        Op op;
        op.name = last.name;
        op.type = "Gelu";
        op.block = last.block;
        op.inputs = {kernel.letters.at("x")};
        op.outputs = last.outputs;
        op.attributes.set("approximate", std::string(form.approximate));
        return op;
    }

    [[nodiscard]] Op linear_op(OpId root, const Match& kernel) const {
        Op op = marked(from_.op(*kernel.ops.begin()));  // the product: operands come first
        const Op& sum = from_.op(root);
        op.name = sum.name;
        op.type = kLinear;
        op.domain = "partita";
        op.block = sum.block;
        op.inputs.push_back(kernel.letters.at("b"));
        op.outputs = sum.outputs;
        return op;
    }

    /// With tensors of the original. Names inside are the same wherever the kernel is found, so that
    /// equal kernels are alike.
    [[nodiscard]] Op kernel_op(OpId root, const Match& kernel) const {
        const Op& last = from_.op(root);
        Op op;
        op.name = last.name;
        op.type = "Pointwise";
        op.domain = "partita";
        op.block = last.block;
        op.outputs = last.outputs;
        OpGraph body;
        std::map<TensorId, TensorId> inside;
        for (const auto& [letter, t] : kernel.letters) {
            if (inside.contains(t)) continue;
            op.inputs.push_back(t);
            Tensor input = from_.tensor(t);
            input.name = letter;
            input.role = TensorRole::input;
            inside.emplace(t, body.add_source(std::move(input)));
        }
        for (const OpId id : kernel.ops) {  // rising: operands come first
            Op copy = from_.op(id);
            copy.name = fmt::format("op{}", inside.size());
            copy.block.clear();
            for (TensorId& t : copy.inputs) t = inside.at(t);
            const TensorId made = copy.outputs[0];
            Tensor result = from_.tensor(made);
            result.name = copy.name;
            copy.outputs[0] = body.add_tensor(std::move(result));
            inside.emplace(made, copy.outputs[0]);
            body.add_op(std::move(copy));
        }
        body.add_output("result", inside.at(last.outputs[0]));
        op.bodies.push_back({.name = "body", .graph = std::make_shared<OpGraph>(std::move(body))});
        return op;
    }

    const OpGraph& from_;
    const std::map<OpId, Match>& kernels_;
    const std::vector<const Mark*>& marks_;
    const NumberOf& number_;
    std::set<OpId> inner_;
    GraphCopy copy_;
};

}  // namespace

std::span<const NamedKernel> named_kernels() {
    return kKernels;
}

Fused fused(const OpGraph& graph, const std::vector<std::string>& kernels, const std::string& file,
            const NumberOf& number, MissingKernel missing) {
    std::map<OpId, Match> found;  // by their last op
    std::set<OpId> taken;
    std::vector<int> counts(kernels.size(), 0);
    std::vector<const Mark*> marks;
    const auto find_pattern = [&](const std::string& name, std::string_view text) {
        const bool is_of_products = name == kLinearKernel;
        const Node pattern =
            ExpressionParser(text, file, is_of_products ? "MatMul" : std::string_view{}).run();
        const Matcher matcher(graph, pattern);
        int count = 0;
        for (std::size_t i = graph.op_count(); i-- > 0;) {
            for (Match& match : matcher.at(OpId(i))) {
                const auto is_taken = [&](OpId op) { return taken.contains(op); };
                if (std::ranges::any_of(match.ops, is_taken)) continue;
                if (is_of_products && !is_linear(graph, match)) continue;
                match.name = name;
                taken.insert(match.ops.begin(), match.ops.end());
                found.emplace(OpId(i), std::move(match));
                ++count;
                break;
            }
        }
        return count;
    };
    for (std::size_t k = 0; k < kernels.size(); ++k) {
        const auto* const known = std::ranges::find(kKernels, kernels[k], &NamedKernel::name);
        const std::string_view text = known == kKernels.end() ? kernels[k] : known->expression;
        if (const Mark* const mark = find_mark(kernels[k])) {
            counts[k] = count(graph, *mark);
            marks.push_back(mark);
        } else {
            counts[k] = find_pattern(kernels[k], text);
        }
        if (counts[k] > 0 || missing == MissingKernel::leave_out) continue;
        throw UsageError(fmt::format(
            "{}: --fuse {}: the model has no such ops{}. Leave it out, or give the expression as "
            "the model has it (partita inspect --ops shows it).",
            file, kernels[k], text == kernels[k] ? "" : fmt::format(" ({})", text)));
    }
    return {.graph = KernelFusion(graph, found, marks, number).run(), .counts = std::move(counts)};
}

}  // namespace partita::graph
