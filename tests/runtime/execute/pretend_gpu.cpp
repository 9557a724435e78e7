// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/execute/pretend_gpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "tests/runtime/execute/stream_clocks.h"

namespace partita::runtime {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Stream;
using Stack = torch::jit::Stack;

constexpr auto kKind = c10::DeviceType::PrivateUse1;

StreamClocks& clocks() {
    static auto* const kClocks = new StreamClocks;  // tensors may outlive static objects
    return *kClocks;
}

// Devices, streams and events.

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<std::int64_t, kPretendGpus> current_stream{};
std::atomic<std::int64_t> streams_made{0};

StreamId id_of(const Stream& stream) {
    return {stream.device_index(), stream.id()};
}

StreamId current_of(c10::Device device) {
    return {device.index(), current_stream.at(static_cast<std::size_t>(device.index()))};
}

struct PretendEvent {
    VectorClock clock;
    std::chrono::steady_clock::time_point time;
};

struct PretendGuard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kKind; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return {kKind, current_device}; }
    void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        current_device = device.index();
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
        auto& current = current_stream.at(static_cast<std::size_t>(stream.device_index()));
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

// Memory.

class PretendAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(std::size_t bytes) override {
        constexpr std::size_t kAlignment = 64;
        const c10::Device device(kKind, current_device);
        const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment;
        void* const block = std::aligned_alloc(kAlignment, whole * kAlignment);
        if (block == nullptr) throw std::bad_alloc();
        clocks().allocated(reinterpret_cast<std::uintptr_t>(block), whole * kAlignment,
                           current_of(device));
        return {block, block, &give_back, device};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        std::memcpy(to, from, bytes);
    }

private:
    static void give_back(void* block) {
        clocks().given_back(reinterpret_cast<std::uintptr_t>(block));
        std::free(block);
    }
};

PretendAllocator& allocator() {
    static auto* const kAllocator = new PretendAllocator;
    return *kAllocator;
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                      c10::Device device) {
    const c10::DeviceGuard guard(device);
    return at::detail::empty_strided_generic(sizes, strides, &allocator(),
                                             DispatchKeySet(DispatchKey::PrivateUse1), type);
}

// Operators.

/// The same memory as a tensor on the CPU.
at::Tensor on_host(const at::Tensor& tensor) {
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                         at::TensorOptions().dtype(tensor.scalar_type()));
}

Access access_of(const at::Tensor& tensor, bool writes) {
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        last += (tensor.size(d) - 1) * tensor.stride(d);
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
    const auto elements = tensor.numel() == 0 ? 0 : static_cast<std::uintptr_t>(last) + 1;
    Access access{begin, begin + elements * tensor.element_size(), writes, tensor.sizes().vec(),
                  tensor.strides().vec()};
    for (std::int64_t& stride : access.strides) {
        stride *= static_cast<std::int64_t>(tensor.element_size());
    }
    return access;
}

bool is_pretend(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == kKind;
}

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
        const bool has_others =
            std::ranges::any_of(others_, [](const at::Tensor& other) { return other.dim() > 0; });
        TORCH_CHECK(!has_others, name(), ": mixes tensors on ", *device_, " and on the CPU");
    }

    void run() {
        clocks().run(current_of(*device_), name(), accesses_);
        op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack_);
        bool is_for_host = true;
        for (c10::IValue& value : stack_) is_for_host = !give(value) && is_for_host;
        if (is_for_host) clocks().wait_on_host(current_of(*device_));
    }

private:
    [[nodiscard]] std::string name() const { return op_.schema().name(); }

    at::Tensor taken(const at::Tensor& tensor, bool writes) {
        if (!tensor.defined()) return tensor;
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

    at::Tensor moved(const at::Tensor& host) const {
        at::Tensor own = new_tensor(host.sizes(), host.strides(), host.scalar_type(), *device_);
        std::memcpy(own.data_ptr(), host.const_data_ptr(), span_of(host));
        clocks().run(current_of(*device_), name(), {access_of(own, true)});
        return own;
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
                if (host.sizes() != own.sizes()) become(own, moved(host));
                return own;
            }
            TORCH_CHECK(!result.is_alias_of(host), name(), ": is a view, and not known to be one");
        }
        return moved(result);
    }

    static std::size_t span_of(const at::Tensor& tensor) {
        const Access all = access_of(tensor, false);
        return all.end - all.begin;
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
    const c10::DeviceGuard guard(device.value_or(c10::Device(kKind, current_device)));
    return at::detail::empty_generic(sizes, &allocator(), DispatchKeySet(DispatchKey::PrivateUse1),
                                     type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pin_memory*/) {
    return new_tensor(sizes, strides, type.value_or(at::kFloat),
                      device.value_or(c10::Device(kKind, current_device)));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
    const at::Tensor source = is_pretend(from) ? on_host(from) : from;
    const at::Tensor target = is_pretend(to) ? on_host(to) : to;
    const auto run = [&](StreamId stream, const std::vector<Access>& accesses) {
        clocks().run(stream, "copy", accesses);
        target.copy_(source);
    };
    if (!is_pretend(from)) {
        run(current_of(to.device()), {access_of(to, true)});
        clocks().wait_on_host(current_of(to.device()));
    } else if (!is_pretend(to)) {
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
    return {(gates[3] * at::tanh(next)).to(cell.device()), next.to(cell.device()),
            at::cat(gates, 1).to(cell.device())};
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
    const at::Device device = cell.device();
    return {d_gates.to(device), (d_next * g[1]).to(device),
            has_bias ? at::sum(d_gates, 0).to(device) : at::Tensor()};
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
    std::vector<Access> accesses = {access_of(x, false), access_of(weight, false)};
    std::optional<at::Tensor> own_bias;
    if (bias && bias->defined()) {
        accesses.push_back(access_of(*bias, false));
        own_bias = on_host(*bias);
    }
    clocks().run(current_of(x.device()), "convolution", accesses);
    return at::convolution(on_host(x), on_host(weight), own_bias, stride, padding, dilation,
                           transposed, output_padding, groups)
        .to(x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
    clocks().run(current_of(x.device()), "convolution_backward",
                 {access_of(gradient, false), access_of(x, false), access_of(weight, false)});
    const std::vector<std::int64_t> bias_sizes = {gradient.size(1)};
    auto [dx, dw, db] = at::convolution_backward(
        on_host(gradient), on_host(x), on_host(weight), at::OptionalIntArrayRef(bias_sizes), stride,
        padding, dilation, transposed, output_padding, groups, wanted);
    const auto given = [&](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.to(x.device()) : tensor;
    };
    return {given(dx), given(dw), given(db)};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", &empty);
    m.impl("empty_strided", &empty_strided);
    m.impl("_copy_from", &copy_from);
    m.impl("_copy_from_and_resize", &copy_from_and_resize);
    m.impl("as_strided", &at::cpu::as_strided);
    m.impl("view", &at::native::view);
    m.impl("_reshape_alias", &at::native::_reshape_alias);
    m.impl("unfold", &at::cpu::unfold);
    m.impl("_thnn_fused_lstm_cell", &lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
    m.impl("convolution_overrideable", &convolution);
    m.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace

void install_pretend_gpus() {
    static const bool kInstalled = [] {
        c10::register_privateuse1_backend("pretend");
        at::RegisterPrivateUse1HooksInterface(new PretendHooks);
        c10::SetAllocator(kKind, &allocator());
        return true;
    }();
    static_cast<void>(kInstalled);
    clocks().forget();
}

at::Device pretend_gpu(int index) {
    return {kKind, static_cast<c10::DeviceIndex>(index)};
}

std::vector<std::string> races() {
    return clocks().take_races();
}

PretendWork pretend_work() {
    return {.operators = clocks().take_operators(), .waits = clocks().take_waits()};
}

}  // namespace partita::runtime
