// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "tests/runtime/pretend_gpus/gpu_rules.h"
#include "tests/runtime/pretend_gpus/pretend_tensors.h"
#include "tests/runtime/pretend_gpus/stream_clocks.h"

namespace partita::runtime {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Stream;
using Stack = torch::jit::Stack;

struct Waits {
    std::mutex mutex;
    std::vector<std::string> names;
};
Waits& waits() {
    static auto* const kWaits = new Waits;
    return *kWaits;
}

void note_wait(std::string name) {
    const std::lock_guard lock(waits().mutex);
    waits().names.push_back(std::move(name));
}

// Devices, streams and events.

std::atomic<std::int64_t> streams_made{0};

StreamId id_of(const Stream& stream) {
    return {stream.device_index(), stream.id()};
}

struct PretendEvent {
    VectorClock clock;
    std::chrono::steady_clock::time_point time;
};

struct PretendGuard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kPretendKind; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return {kPretendKind, current_gpu()}; }
    void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        current_gpu() = device.index();
    }
    Stream getStream(c10::Device device) const override {
        return Stream(Stream::UNSAFE, device, current_of(device).second);
    }
    Stream getDefaultStream(c10::Device device) const override {
        return Stream(Stream::DEFAULT, device);
    }
    Stream getStreamFromGlobalPool(c10::Device device, bool /*isHighPriority*/) const override {
        return Stream(Stream::UNSAFE, device, ++streams_made);
    }
    Stream exchangeStream(Stream stream) const override {
        auto& current = current_stream(stream.device_index());
        return Stream(Stream::UNSAFE, stream.device(), std::exchange(current, stream.id()));
    }
    c10::DeviceIndex deviceCount() const noexcept override { return kPretendGpus; }

    void record(void** event, const Stream& stream, const c10::DeviceIndex /*device_index*/,
                const c10::EventFlag /*flag*/) const override {
        if (*event == nullptr) *event = new PretendEvent;
        *static_cast<PretendEvent*>(*event) = {clocks().now(id_of(stream)),
                                               std::chrono::steady_clock::now()};
    }
    void block(void* event, const Stream& stream) const override {
        clocks().wait(id_of(stream), static_cast<PretendEvent*>(event)->clock);
    }
    bool queryEvent(void* event) const override {
        clocks().seen_by_host(static_cast<PretendEvent*>(event)->clock);
        return true;
    }
    void synchronizeEvent(void* event) const override { queryEvent(event); }
    void synchronizeStream(const Stream& stream) const override {
        clocks().wait_on_host(id_of(stream));
    }
    void synchronizeDevice(const c10::DeviceIndex device_index) const override {
        clocks().seen_by_host(device_index);
    }
    void destroyEvent(void* event,
                      const c10::DeviceIndex /*device_index*/) const noexcept override {
        delete static_cast<PretendEvent*>(event);
    }
    double elapsedTime(void* from, void* to, const c10::DeviceIndex /*index*/) const override {
        const auto passed =
            static_cast<PretendEvent*>(to)->time - static_cast<PretendEvent*>(from)->time;
        return std::chrono::duration<double, std::milli>(passed).count();
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
        clocks().used_by(reinterpret_cast<std::uintptr_t>(data.get()), id_of(stream));
    }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, PretendGuard)

struct PretendHooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex /*device_index*/) const override { return true; }
};

// Operators.

/// An operator's tensors, replaced by their memory on the CPU.
class Call {
public:
    Call(const c10::OperatorHandle& op, Stack& stack) : op_(op), stack_(stack) {
        const auto& arguments = op.schema().arguments();
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            c10::IValue& value = stack[stack.size() - arguments.size() + i];
            const auto* const alias = arguments[i].alias_info();
            replace(value, alias != nullptr && alias->isWrite());
        }
        TORCH_CHECK(device_, name(), ": no tensor lies on a pretend GPU");
        for (const at::Tensor& other : others_) check_device(name(), other, *device_);
        check_types(name(), types_);
    }

    void run() {
        if (waits_on_gpus(name())) note_wait(name());
        if (!is_view()) clocks().run(current_of(*device_), name(), accesses_);
        op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack_);
        bool is_for_host = true;
        for (c10::IValue& value : stack_) is_for_host = !give(value) && is_for_host;
        if (is_for_host) clocks().wait_on_host(current_of(*device_));
    }

private:
    [[nodiscard]] std::string name() const { return op_.schema().name(); }

    /// Does it say that its result is a view? Then nothing runs on a stream.
    [[nodiscard]] bool is_view() const {
        const auto& returns = op_.schema().returns();
        if (returns.empty() || returns[0].alias_info() == nullptr) return false;
        return !returns[0].alias_info()->isWrite();
    }

    at::Tensor taken(const at::Tensor& tensor, bool writes) {
        if (!tensor.defined()) return tensor;
        types_.push_back(tensor.scalar_type());
        if (!is_pretend(tensor)) {
            others_.push_back(tensor);
            return tensor;
        }
        TORCH_CHECK(!device_ || *device_ == tensor.device(), name(), ": mixes tensors on ",
                    *device_, " and ", tensor.device());
        device_ = tensor.device();
        accesses_.push_back(access_of(tensor, writes));
        // Results that are still empty are resized by the operator.
        const bool is_open = writes && tensor.numel() == 0;
        replaced_.emplace_back(
            is_open ? at::empty(tensor.sizes(), tensor.scalar_type()) : on_host(tensor), tensor);
        return replaced_.back().first;
    }

    void replace(c10::IValue& value, bool writes) {
        if (value.isTensor()) {
            value = taken(value.toTensor(), writes);
        } else if (value.isTensorList()) {
            std::vector<at::Tensor> all;
            for (const at::Tensor& each : value.toTensorVector())
                all.push_back(taken(each, writes));
            value = all;
        } else if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> all;
            for (const std::optional<at::Tensor> each : value.toOptionalTensorList()) {
                all.push_back(each ? std::optional(taken(*each, writes)) : std::nullopt);
            }
            value = all;
        } else if (value.isDevice()) {
            value = c10::Device(c10::kCPU);
        }
    }

    /// Of the same memory, as `host` sees it.
    static at::Tensor view_of(const at::Tensor& own, const at::Tensor& host) {
        const auto begin = own.storage_offset() * static_cast<std::int64_t>(own.element_size()) /
                           static_cast<std::int64_t>(host.element_size());
        at::Tensor view = at::detail::make_tensor<at::TensorImpl>(
            at::Storage(own.storage()), DispatchKeySet(DispatchKey::PrivateUse1), host.dtype());
        view.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                          begin + host.storage_offset());
        return view;
    }

    static void become(const at::Tensor& tensor, const at::Tensor& other) {
        auto* const impl = tensor.unsafeGetTensorImpl();
        impl->set_storage_keep_dtype(other.storage());
        impl->set_sizes_and_strides(other.sizes(), other.strides());
    }

    /// Back to the device.
    at::Tensor given(const at::Tensor& result) {
        if (!result.defined()) return result;
        for (const auto& [host, own] : replaced_) {
            if (result.is_same(host)) {
                if (host.sizes() != own.sizes()) become(own, moved(host, *device_, name()));
                return own;
            }
            if (result.is_alias_of(host)) return view_of(own, result);
        }
        return moved(result, *device_, name());
    }

    /// Is it a tensor, or several?
    bool give(c10::IValue& value) {
        if (value.isTensor()) {
            value = given(value.toTensor());
            return true;
        }
        if (!value.isTensorList()) return false;
        std::vector<at::Tensor> all;
        for (const at::Tensor& each : value.toTensorVector()) all.push_back(given(each));
        value = all;
        return true;
    }

    const c10::OperatorHandle& op_;
    Stack& stack_;
    std::optional<c10::Device> device_;
    std::vector<at::Tensor> others_;
    std::vector<at::ScalarType> types_;  ///< of all, in their order
    std::vector<Access> accesses_;
    std::vector<std::pair<at::Tensor, at::Tensor>> replaced_;  ///< on the CPU, own
};

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
    const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    Stack own(stack->end() - count, stack->end());
    stack->erase(stack->end() - count, stack->end());
    Call(op, own).run();
    stack->insert(stack->end(), own.begin(), own.end());
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
    const c10::DeviceGuard guard(device.value_or(c10::Device(kPretendKind, current_gpu())));
    return at::detail::empty_generic(sizes, &pretend_allocator(),
                                     DispatchKeySet(DispatchKey::PrivateUse1),
                                     type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pin_memory*/) {
    return new_tensor(sizes, strides, type.value_or(at::kFloat),
                      device.value_or(c10::Device(kPretendKind, current_gpu())));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    const at::Tensor source = is_pretend(from) ? on_host(from) : from;
    const at::Tensor target = is_pretend(to) ? on_host(to) : to;
    const auto run = [&](StreamId stream, const std::vector<Access>& accesses) {
        clocks().run(stream, "copy", accesses);
        target.copy_(source);
    };
    if (!is_pretend(from)) {
        run(current_of(to.device()), {access_of(to, true)});
        if (non_blocking) return to;
        note_wait("copy from the host");
        clocks().wait_on_host(current_of(to.device()));
    } else if (!is_pretend(to)) {
        note_wait("copy to the host");
        const StreamId stream = current_of(from.device());
        run(stream, {access_of(from, false)});
        clocks().wait_on_host(stream);
    } else {
        const StreamId source_stream = current_of(from.device());
        const StreamId target_stream = current_of(to.device());
        if (source_stream != target_stream) {
            clocks().wait(source_stream, clocks().now(target_stream));
        }
        run(source_stream, {access_of(from, false), access_of(to, true)});
        if (source_stream != target_stream) {
            clocks().wait(target_stream, clocks().now(source_stream));
        }
    }
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
    TORCH_CHECK(from.sizes() == to.sizes(), "pretend GPUs do not resize tensors");
    return copy_from(from, to, false);
}

/// Gates by rows: input, forget, new, output.
std::vector<at::Tensor> gates_of(const at::Tensor& sums) {
    std::vector<at::Tensor> gates = at::chunk(sums, 4, 1);
    for (std::size_t i = 0; i < gates.size(); ++i) {
        gates[i] = i == 2 ? at::tanh(gates[i]) : at::sigmoid(gates[i]);
    }
    return gates;
}

at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
    const at::Tensor host = on_host(gates);
    return bias && bias->defined() ? host + on_host(*bias) : host.clone();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& of_input,
                                                         const at::Tensor& of_hidden,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& bias,
                                                         const std::optional<at::Tensor>& bias2) {
    clocks().run(current_of(cell.device()), "lstm_cell",
                 {access_of(of_input, false), access_of(of_hidden, false), access_of(cell, false)});
    const auto gates = gates_of(with_bias(of_input, bias) + with_bias(of_hidden, bias2));
    const at::Tensor next = gates[1] * on_host(cell) + gates[0] * gates[2];
    const auto given = [&](const at::Tensor& made) {
        return moved(made, cell.device(), "lstm_cell");
    };
    return {given(gates[3] * at::tanh(next)), given(next), given(at::cat(gates, 1))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& of_hidden, const std::optional<at::Tensor>& of_next,
    const at::Tensor& cell, const at::Tensor& next, const at::Tensor& gates, bool has_bias) {
    clocks().run(current_of(cell.device()), "lstm_cell_backward",
                 {access_of(cell, false), access_of(next, false), access_of(gates, false)});
    const auto host = [&](const std::optional<at::Tensor>& tensor) {
        return tensor && tensor->defined() ? on_host(*tensor) : at::zeros_like(on_host(cell));
    };
    const auto g = at::chunk(on_host(gates), 4, 1);
    const at::Tensor squashed = at::tanh(on_host(next));
    const at::Tensor d_next = host(of_next) + host(of_hidden) * g[3] * (1 - squashed * squashed);
    const at::Tensor d_gates =
        at::cat({d_next * g[2] * g[0] * (1 - g[0]), d_next * on_host(cell) * g[1] * (1 - g[1]),
                 d_next * g[0] * (1 - g[2] * g[2]), host(of_hidden) * squashed * g[3] * (1 - g[3])},
                1);
    const auto given = [&](const at::Tensor& made) {
        return moved(made, cell.device(), "lstm_cell_backward");
    };
    return {given(d_gates), given(d_next * g[1]),
            has_bias ? given(at::sum(d_gates, 0)) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", &empty);
    m.impl("empty_strided", &empty_strided);
    m.impl("_copy_from", &copy_from);
    m.impl("_copy_from_and_resize", &copy_from_and_resize);
    m.impl("as_strided", &at::cpu::as_strided);  // its offset counts from the storage's begin
    m.impl("_thnn_fused_lstm_cell", &lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
    // ATen would look for a library that convolves on this device.
    m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

void install_pretend_gpus() {
    static const bool kInstalled = [] {
        c10::register_privateuse1_backend("pretend");
        at::RegisterPrivateUse1HooksInterface(new PretendHooks);
        c10::SetAllocator(kPretendKind, &pretend_allocator());
        return true;
    }();
    static_cast<void>(kInstalled);
    clocks().forget();
}

at::Device pretend_gpu(int index) {
    return {kPretendKind, static_cast<c10::DeviceIndex>(index)};
}

std::vector<std::string> races() {
    return clocks().take_races();
}

std::vector<std::string> waits_of_host() {
    const std::lock_guard lock(waits().mutex);
    return std::exchange(waits().names, {});
}

PretendWork pretend_work() {
    return {.operators = clocks().take_operators(), .waits = clocks().take_waits()};
}

}  // namespace partita::runtime
