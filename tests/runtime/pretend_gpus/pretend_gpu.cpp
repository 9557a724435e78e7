// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/library.h>

#include "tests/runtime/pretend_gpus/gpu_rules.h"
#include "tests/runtime/pretend_gpus/pretend_streams.h"
#include "tests/runtime/pretend_gpus/pretend_tensors.h"

namespace partita::runtime {

namespace {

// --- what the host waits for -------------------------------------------------------------------

struct Waits {
    std::mutex mutex;
    std::vector<std::string> names;
};
Waits& waits() {
    static Waits all;
    return all;
}

/// For the stream that the thread uses on a device.
void wait_for(c10::Device device, std::string name) {
    clocks().wait_on_host(current_stream(device));
    const std::lock_guard lock(waits().mutex);
    waits().names.push_back(std::move(name));
}

// --- every operator ----------------------------------------------------------------------------

/// Calls `visit` with every tensor of a value, and puts what it returns in its place.
template <class Visit>
void visit_tensors(c10::IValue& value, Visit visit) {
    if (value.isTensor()) {
        value = visit(value.toTensor());
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& each : value.toTensorVector()) list.push_back(visit(each));
        value = list;
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const auto& each : value.toOptionalTensorVector()) {
            list.push_back(each ? std::optional(visit(*each)) : std::nullopt);
        }
        value = list;
    }
}

/// What an operator uses on its device; throws where a GPU would refuse it.
struct Use {
    std::optional<c10::Device> device;
    std::vector<Access> accesses;
};

Use use_of(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const std::string& name = op.schema().name();
    const auto& arguments = op.schema().arguments();
    const std::size_t first = stack.size() - arguments.size();
    Use use;
    std::vector<at::ScalarType> types;
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto* const alias = arguments[i].alias_info();
        const bool writes = alias != nullptr && alias->isWrite();
        visit_tensors(stack[first + i], [&](const at::Tensor& tensor) {
            if (!tensor.defined()) return tensor;
            types.push_back(tensor.scalar_type());
            tensors.push_back(tensor);
            if (!is_pretend(tensor)) return tensor;
            if (!use.device) use.device = tensor.device();
            const bool is_viewed = alias != nullptr && !writes;  // no element is read
            if (!is_viewed) use.accesses.push_back(access_of(tensor, writes));
            return tensor;
        });
    }
    TORCH_CHECK(use.device, name, " has no operand that says on which device it runs");
    check_types(name, types);
    for (const at::Tensor& tensor : tensors) check_device(name, tensor, *use.device);
    return use;
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const std::string& name = op.schema().name();
    const Use use = use_of(op, *stack);
    const c10::Device device = *use.device;
    clocks().run(current_stream(device), name, use.accesses);
    if (waits_on_gpus(name)) wait_for(device, name);
    Lent lent(name);
    for (std::size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
        c10::IValue& value = (*stack)[i];
        visit_tensors(value, [&](const at::Tensor& tensor) { return lent.of(tensor); });
        if (value.isDevice()) value = c10::Device(c10::kCPU);
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    lent.settle();
    for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
        visit_tensors((*stack)[i],
                      [&](const at::Tensor& tensor) { return lent.back(tensor, device); });
    }
}

// --- operators whose operands lie on several devices, or on none -------------------------------

c10::Device or_current(std::optional<c10::Device> device) {
    return device && device->has_index() ? *device : current_device();
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pin_memory*/, std::optional<c10::MemoryFormat> format) {
    const auto options = at::TensorOptions().dtype(type.value_or(at::kFloat));
    return unwritten(at::empty(C10_AS_INTARRAYREF_SLOW(size), options, format), or_current(device));
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<c10::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pin_memory*/) {
    const auto options = at::TensorOptions().dtype(type.value_or(at::kFloat));
    return unwritten(
        at::empty_strided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), options),
        or_current(device));
}

/// Of any two devices: what Tensor::copy_() comes to. Between two of these it runs on the stream of
/// the first, which waits for that of the second and is waited for by it.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    std::vector<Access> accesses;
    if (is_pretend(from)) accesses.push_back(access_of(from, false));
    if (is_pretend(to)) accesses.push_back(access_of(to, true));
    const StreamId stream = current_stream(is_pretend(from) ? from.device() : to.device());
    const bool is_between = is_pretend(from) && is_pretend(to) && from.device() != to.device();
    if (is_between) clocks().wait(stream, clocks().now(current_stream(to.device())));
    clocks().run(stream, "copy", accesses);
    if (is_between) clocks().wait(current_stream(to.device()), clocks().now(stream));
    Lent lent("copy");
    lent.of(to).copy_(lent.of(from));
    if (to.is_cpu()) wait_for(from.device(), "copy to the host");
    if (from.is_cpu() && !non_blocking) wait_for(to.device(), "copy from the host");
    return to;
}

// --- what ATen has for accelerators and not for CPUs -------------------------------------------

at::Tensor with_bias(const at::Tensor& sums, const std::optional<at::Tensor>& bias) {
    return bias && bias->defined() ? at::add(sums, *bias) : sums;
}

/// Input, forget, new and output gate.
std::vector<at::Tensor> gates_of(const at::Tensor& sums) {
    std::vector<at::Tensor> gates = at::chunk(sums, 4, 1);
    for (std::size_t i = 0; i < gates.size(); ++i) {
        gates[i] = i == 2 ? at::tanh(gates[i]) : at::sigmoid(gates[i]);
    }
    return gates;
}

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three lstm_cell(const at::Tensor& of_input, const at::Tensor& of_hidden, const at::Tensor& cell,
                const std::optional<at::Tensor>& input_bias,
                const std::optional<at::Tensor>& hidden_bias) {
    const auto gates =
        gates_of(at::add(with_bias(of_input, input_bias), with_bias(of_hidden, hidden_bias)));
    const at::Tensor next = gates[1] * cell + gates[0] * gates[2];
    return {gates[3] * at::tanh(next), next, at::cat(gates, 1)};
}

Three lstm_cell_backward(const std::optional<at::Tensor>& of_hidden,
                         const std::optional<at::Tensor>& of_next, const at::Tensor& cell,
                         const at::Tensor& next, const at::Tensor& gates, bool has_bias) {
    const auto or_zeros = [&](const std::optional<at::Tensor>& tensor) {
        return tensor && tensor->defined() ? *tensor : at::zeros_like(cell);
    };
    const auto g = at::chunk(gates, 4, 1);
    const at::Tensor dh = or_zeros(of_hidden);
    const at::Tensor squashed = at::tanh(next);
    const at::Tensor dc = or_zeros(of_next) + dh * g[3] * (1 - squashed * squashed);
    const at::Tensor sums =
        at::cat({dc * g[2] * g[0] * (1 - g[0]), dc * cell * g[1] * (1 - g[1]),
                 dc * g[0] * (1 - g[2] * g[2]), dh * squashed * g[3] * (1 - g[3])},
                1);
    return {sums, dc * g[1], has_bias ? at::sum(sums, 0) : at::Tensor()};
}

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex /*device_index*/) const override { return true; }
};

// --- registration ------------------------------------------------------------------------------

struct Registration {
    Registration()
        : all(kKind, "_", kPretendKey, __FILE__, __LINE__),
          own(kKind, "aten", kPretendKey, __FILE__, __LINE__) {
        c10::register_privateuse1_backend("pretend");
        at::RegisterPrivateUse1HooksInterface(new Hooks);  // lives as long as the program
        all.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
        own.impl("empty.memory_format", empty);
        own.impl("empty_strided", empty_strided);
        own.impl("_copy_from", copy_from);
        own.impl("_thnn_fused_lstm_cell", lstm_cell);
        own.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
        // ATen would look for a library that convolves on this device.
        own.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
        own.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    }
    static constexpr auto kKind = torch::Library::IMPL;
    torch::Library all;
    torch::Library own;
    c10::impl::DeviceGuardImplRegistrar guard{kPretendType,
                                              new_pretend_guard()};  // lives as long as the program
};

bool tests_cuda() {
    return std::getenv("PARTITA_TEST_CUDA") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

// Before main(): autograd counts devices when it is first used.
const std::unique_ptr<Registration> kRegistration =  // NOLINT(cert-err58-cpp)
    tests_cuda() ? nullptr : std::make_unique<Registration>();

}  // namespace

int cuda_gpus() {
    if (!tests_cuda() || !at::hasCUDA()) return 0;
    return static_cast<int>(at::detail::getCUDAHooks().deviceCount());
}

at::Device pretend_gpu(int index) {
    return {kPretendType, static_cast<c10::DeviceIndex>(index)};
}

void reset_pretend_gpus() {
    clocks().forget();
    static_cast<void>(take_waits());
}

std::vector<std::string> races() {
    return clocks().take_races();
}

std::vector<std::string> take_waits() {
    const std::lock_guard lock(waits().mutex);
    return std::exchange(waits().names, {});
}

}  // namespace partita::runtime
