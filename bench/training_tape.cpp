// SPDX-License-Identifier: Apache-2.0
#include "bench/training_tape.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace partita::bench {

using graph::Attributes;
using graph::Op;
using graph::OpId;
using graph::Shape;
using graph::Tensor;
using graph::TensorId;
using graph::TensorRole;

TensorId TrainingTape::input(std::string_view name, Shape shape) {
    inputs_.push_back(variable(name, std::move(shape)));
    variables_.pop_back();
    return inputs_.back();
}

TensorId TrainingTape::variable(std::string_view name, Shape shape) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    // To the planner: a parameter of an inference graph would lie everywhere for free.
    tensor.role = TensorRole::input;
    variables_.push_back(model_.graph.add_source(std::move(tensor)));
    return variables_.back();
}

std::vector<TensorId> TrainingTape::emit_all(const char* type, std::vector<TensorId> operands,
                                             std::vector<Shape> shapes, Attributes attributes) {
    Op op;
    op.name = std::string(type) + "_" + std::to_string(count_++);
    op.type = type;
    op.opset = 11;
    op.attributes = std::move(attributes);
    op.inputs = std::move(operands);
    for (Shape& shape : shapes) {
        Tensor tensor;
        tensor.name = op.name + "." + std::to_string(op.outputs.size());
        tensor.shape = std::move(shape);
        op.outputs.push_back(model_.graph.add_tensor(std::move(tensor)));
    }
    std::vector<TensorId> results = op.outputs;
    model_.graph.add_op(std::move(op));
    return results;
}

TensorId TrainingTape::emit(const char* type, std::vector<TensorId> operands, Shape shape,
                            Attributes attributes) {
    return emit_all(type, std::move(operands), {std::move(shape)}, std::move(attributes)).front();
}

void TrainingTape::on_backward(TensorId result, std::function<void(TensorId)> make) {
    tape_.push_back({result, std::move(make)});
}

void TrainingTape::contribute(TensorId of, const std::function<TensorId()>& make) {
    if (std::find(inputs_.begin(), inputs_.end(), of) != inputs_.end()) return;
    if (gradient_.size() <= of.index()) gradient_.resize(of.index() + 1);
    const TensorId gradient = make();
    TensorId& sum = gradient_[of.index()];
    sum = sum.valid() ? emit("Add", {sum, gradient}, shape(of)) : gradient;
}

TensorId TrainingTape::sum_over(TensorId a, const std::vector<std::int64_t>& axes, Shape result) {
    Attributes attributes;
    attributes.set("axes", axes);
    attributes.set("keepdims", std::int64_t{0});
    return emit("ReduceSum", {a}, std::move(result), std::move(attributes));
}

TensorId TrainingTape::transpose_first_two(TensorId a) {
    std::vector<std::int64_t> order(shape(a).size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[1]);
    Shape result = shape(a);
    std::swap(result[0], result[1]);
    Attributes attributes;
    attributes.set("perm", order);
    return emit("Transpose", {a}, std::move(result), std::move(attributes));
}

TensorId TrainingTape::reshape(TensorId a, Shape result) {
    Tensor target;
    target.name = "shape_" + std::to_string(count_);
    target.shape = {static_cast<std::int64_t>(result.size())};
    target.dtype = graph::DType::int64;
    target.role = TensorRole::constant;
    target.known_integers = result;
    const TensorId constant = model_.graph.add_source(std::move(target));
    return emit("Reshape", {a, constant}, std::move(result));
}

TensorId TrainingTape::matmul(TensorId a, TensorId b) {
    const TensorId y = emit("MatMul", {a, b}, {shape(a)[0], shape(b)[1]});
    on_backward(y, [this, a, b](TensorId dy) {
        Attributes right;
        right.set("transB", std::int64_t{1});
        contribute(a, [&] { return emit("Gemm", {dy, b}, shape(a), right); });
        Attributes left;
        left.set("transA", std::int64_t{1});
        contribute(b, [&] { return emit("Gemm", {a, dy}, shape(b), left); });
    });
    return y;
}

TensorId TrainingTape::add(TensorId a, TensorId b) {
    const TensorId y = emit("Add", {a, b}, shape(a));
    on_backward(y, [this, a, b](TensorId dy) {
        contribute(a, [&] { return dy; });
        contribute(b, [&] { return shape(a) == shape(b) ? dy : sum_over(dy, {0}, shape(b)); });
    });
    return y;
}

TensorId TrainingTape::multiply(TensorId a, TensorId b) {
    const TensorId y = emit("Mul", {a, b}, shape(a));
    on_backward(y, [this, a, b](TensorId dy) {
        contribute(a, [&] { return emit("Mul", {dy, b}, shape(a)); });
        contribute(b, [&] { return emit("Mul", {dy, a}, shape(b)); });
    });
    return y;
}

TensorId TrainingTape::unary(const char* type, TensorId a) {
    const TensorId y = emit(type, {a}, shape(a));
    // The gradients of Relu, Sigmoid and Tanh need the result alone: one elementwise op.
    on_backward(y, [this, a, y](TensorId dy) {
        contribute(a, [&] { return emit("Mul", {dy, y}, shape(a)); });
    });
    return y;
}

TensorId TrainingTape::concat(TensorId a, TensorId b) {
    Attributes attributes;
    attributes.set("axis", std::int64_t{1});
    const TensorId y = emit("Concat", {a, b}, {shape(a)[0], shape(a)[1] + shape(b)[1]}, attributes);
    on_backward(y, [this, a, b](TensorId dy) {
        Attributes split;
        split.set("axis", std::int64_t{1});
        split.set("split", std::vector<std::int64_t>{shape(a)[1], shape(b)[1]});
        const auto parts = emit_all("Split", {dy}, {shape(a), shape(b)}, std::move(split));
        contribute(a, [&] { return parts[0]; });
        contribute(b, [&] { return parts[1]; });
    });
    return y;
}

std::vector<TensorId> TrainingTape::split(TensorId a, int parts) {
    const Shape part{shape(a)[0], shape(a)[1] / parts};
    Attributes attributes;
    attributes.set("axis", std::int64_t{1});
    attributes.set("split", std::vector<std::int64_t>(static_cast<std::size_t>(parts), part[1]));
    const auto results = emit_all(
        "Split", {a}, std::vector<Shape>(static_cast<std::size_t>(parts), part), attributes);
    // Played when the first part's turn comes; the others lie later on the tape.
    on_backward(results[0], [this, a, results](TensorId /*first*/) {
        std::vector<TensorId> gradients;
        for (const TensorId t : results) gradients.push_back(gradient_[t.index()]);
        Attributes join;
        join.set("axis", std::int64_t{1});
        contribute(a, [&] { return emit("Concat", gradients, shape(a), join); });
    });
    return results;
}

TensorId TrainingTape::convolve(TensorId x, TensorId w) {
    const std::int64_t kernel = shape(w)[2];
    const auto padded = [](std::int64_t pad) {
        Attributes attributes;
        attributes.set("pads", std::vector<std::int64_t>(4, pad));
        return attributes;
    };
    const std::int64_t pad = kernel / 2;
    const TensorId y =
        emit("Conv", {x, w}, {shape(x)[0], shape(w)[0], shape(x)[2], shape(x)[3]}, padded(pad));
    on_backward(y, [this, x, w, pad, padded](TensorId dy) {
        contribute(x, [&] { return emit("ConvTranspose", {dy, w}, shape(x), padded(pad)); });
        // dW[f c] is the convolution of x with dy over batch and positions.
        const TensorId inputs = transpose_first_two(x);
        const TensorId errors = transpose_first_two(dy);
        Shape swapped = shape(w);
        std::swap(swapped[0], swapped[1]);
        const TensorId dw = emit("Conv", {inputs, errors}, swapped, padded(pad));
        contribute(w, [&] { return transpose_first_two(dw); });
    });
    return y;
}

TensorId TrainingTape::add_channel_bias(TensorId x, TensorId bias) {
    const TensorId y = emit("Add", {x, bias}, shape(x));
    on_backward(y, [this, x, bias](TensorId dy) {
        contribute(x, [&] { return dy; });
        const TensorId sum = sum_over(dy, {0, 2, 3}, {shape(bias)[0]});
        contribute(bias, [&] { return reshape(sum, shape(bias)); });
    });
    return y;
}

TensorId TrainingTape::max_pool(TensorId x) {
    Attributes attributes;
    attributes.set("kernel_shape", std::vector<std::int64_t>{2, 2});
    attributes.set("strides", std::vector<std::int64_t>{2, 2});
    const Shape& full = shape(x);
    const TensorId y =
        emit("MaxPool", {x}, {full[0], full[1], full[2] / 2, full[3] / 2}, std::move(attributes));
    // No standard operator is its gradient: priced by the bytes it moves.
    on_backward(y, [this, x, y](TensorId dy) {
        contribute(x, [&] { return emit("MaxPoolGrad", {dy, x, y}, shape(x)); });
    });
    return y;
}

TensorId TrainingTape::flatten(TensorId x) {
    const Shape& full = shape(x);
    const std::int64_t width =
        std::accumulate(full.begin() + 1, full.end(), std::int64_t{1}, std::multiplies<>());
    const TensorId y = reshape(x, {full[0], width});
    on_backward(y,
                [this, x](TensorId dy) { contribute(x, [&] { return reshape(dy, shape(x)); }); });
    return y;
}

TensorId TrainingTape::select(TensorId mask, TensorId fresh, TensorId old) {
    const TensorId y = emit("Where", {mask, fresh, old}, shape(fresh));
    on_backward(y, [this, mask, fresh, old](TensorId dy) {
        contribute(fresh, [&] { return emit("Where", {mask, dy, old}, shape(fresh)); });
        contribute(old, [&] { return emit("Where", {mask, old, dy}, shape(old)); });
    });
    return y;
}

GeneratedModel TrainingTape::finish(TensorId logits) {
    const TensorId labels = input("labels", shape(logits));
    Attributes axis;
    axis.set("axis", std::int64_t{1});
    const TensorId probabilities = emit("Softmax", {logits}, shape(logits), axis);
    const TensorId logarithms = emit("Log", {probabilities}, shape(logits));
    const TensorId entropies = emit("Mul", {logarithms, labels}, shape(logits));
    model_.graph.add_output("loss", sum_over(entropies, {0, 1}, {}));
    contribute(logits, [&] { return emit("Sub", {probabilities, labels}, shape(logits)); });

    for (std::size_t i = tape_.size(); i-- > 0;) {
        const TensorId result = tape_[i].result;
        const bool reached = result.index() < gradient_.size() && gradient_[result.index()].valid();
        if (reached) tape_[i].make(gradient_[result.index()]);
    }
    for (const TensorId v : variables_) {
        const std::string& name = model_.graph.tensor(v).name;
        const TensorId updated = emit("Sub", {v, gradient_[v.index()]}, shape(v));
        const OpId output = model_.graph.add_output(name + ".next", updated);
        model_.constraints.together.push_back(
            {model_.graph.tensor(v).producer, model_.graph.tensor(updated).producer, output});
    }
    return std::move(model_);
}

}  // namespace partita::bench
