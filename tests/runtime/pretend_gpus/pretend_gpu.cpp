// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "tests/runtime/pretend_gpus/gpu_rules.h"
#include "tests/runtime/pretend_gpus/stream_clocks.h"

namespace partita::runtime {

namespace {

using c10::Stream;

// Not one of ATen's other spare types: autograd keeps to the streams of accelerators, and only this one can be.
constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr auto kKey = c10::DispatchKey::PrivateUse1;

bool is_here(const at::Tensor& tensor) {
    return tensor.device().type() == kType;
}

StreamClocks& clocks() {
    static auto* const kClocks = new StreamClocks;  // tensors may outlive static objects
    return *kClocks;
}

// --- streams and events ------------------------------------------------------------------------

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

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kType; }
    c10::Device exchangeDevice(c10::Device device) const override {
        return {kType, std::exchange(current_device, device.index())};
    }
    c10::Device getDevice() const override { return {kType, current_device}; }
    void setDevice(c10::Device device) const override { current_device = device.index(); }
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
    clocks().wait_on_host(current_of(device));
    const std::lock_guard lock(waits().mutex);
    waits().names.push_back(std::move(name));
}

// --- memory ------------------------------------------------------------------------------------
//
// Pointers to elements are moved to where no program has memory: who reads or writes there ends by a signal.

constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 52U;

void* hidden(void* data) {
    return data == nullptr ? nullptr : static_cast<char*>(data) + kNowhere;
}

void* found(c10::StorageImpl& storage) {
    void* const data = storage._mutable_data_ptr_no_checks().get();
    return data == nullptr ? nullptr : static_cast<char*>(data) - kNowhere;
}

/// The memory of a CPU storage, which lives as long.
struct Held {
    c10::Storage storage;
    std::uintptr_t begin = 0;  ///< hidden; 0: of no bytes
};

void give_back(void* context) {
    const std::unique_ptr<Held> held(static_cast<Held*>(context));
    if (held->begin != 0) clocks().given_back(held->begin);
}

c10::DataPtr held(c10::Storage storage, c10::Device device) {
    void* const data = hidden(storage.mutable_data());
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    if (data != nullptr) clocks().allocated(begin, storage.nbytes(), current_of(device));
    return {data, new Held{std::move(storage), begin}, &give_back, device};
}

c10::StorageImpl* storage_in(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
}

at::Tensor tensor_in(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
    at::Tensor tensor = at::detail::make_tensor<at::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), like.dtype());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                        like.storage_offset());
    return tensor;
}

/// Of a tensor here.
Access access_of(const at::Tensor& tensor, bool writes) {
    const auto size = static_cast<std::int64_t>(tensor.element_size());
    const auto base =
        reinterpret_cast<std::uintptr_t>(storage_in(tensor)->_mutable_data_ptr_no_checks().get());
    Access access{.begin = base + tensor.storage_offset() * size,
                  .writes = writes,
                  .sizes = tensor.sizes().vec(),
                  .strides = tensor.strides().vec()};
    std::int64_t bytes = tensor.numel() == 0 ? 0 : size;
    for (std::size_t d = 0; d < access.sizes.size(); ++d) {
        access.strides[d] *= size;
        if (tensor.numel() != 0) bytes += (access.sizes[d] - 1) * access.strides[d];
    }
    access.end = access.begin + bytes;
    return access;
}

at::Tensor unwritten(const at::Tensor& cpu, c10::Device device) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), cpu.storage().nbytes(),
                         held(cpu.storage(), device), /*allocator=*/nullptr, /*resizable=*/false);
    return tensor_in(std::move(storage), kKey, cpu);
}

/// A new tensor on the device from one of the CPU that nobody else holds.
at::Tensor moved(const at::Tensor& cpu, c10::Device device, const std::string& by) {
    at::Tensor tensor = unwritten(cpu.resolve_conj().resolve_neg(), device);
    clocks().run(current_of(device), by, {access_of(tensor, true)});
    return tensor;
}

/// CPU tensors in the memory of a device's, for one call.
class Lent {
public:
    explicit Lent(std::string name) : name_(std::move(name)) {}

    at::Tensor of(const at::Tensor& tensor) {
        if (!tensor.defined() || !is_here(tensor)) return tensor;
        at::Tensor alias = tensor_in(storage_of(tensor), c10::DispatchKey::CPU, tensor);
        alias._set_conj(tensor.is_conj());
        alias._set_neg(tensor.is_neg());
        tensors_.push_back({tensor, alias});
        return alias;
    }

    /// What an operator gave: an operand of its own, a view of one, or something new.
    at::Tensor back(const at::Tensor& result, c10::Device device) const {
        if (!result.defined()) return result;
        for (const Pair& each : tensors_) {
            if (each.alias.is_same(result)) return each.tensor;
        }
        for (const Pair& each : tensors_) {
            if (storage_in(each.alias) != storage_in(result)) continue;
            return tensor_in(each.tensor.storage(), kKey, result);
        }
        return moved(result, device, name_);
    }

    /// Operands that the operator has resized.
    void settle() const {
        for (const auto& [tensor, alias] : tensors_) {
            c10::StorageImpl& storage = *storage_in(tensor);
            if (alias.storage().data() != found(storage)) {
                storage.set_nbytes(alias.storage().nbytes());
                storage.set_data_ptr_noswap(held(alias.storage(), tensor.device()));
            }
            if (tensor.sizes() == alias.sizes() && tensor.strides() == alias.strides()) continue;
            tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(),
                                                                alias.storage_offset());
        }
    }

private:
    struct Pair {
        at::Tensor tensor;
        at::Tensor alias;
    };

    /// Tensors that share memory share it here too.
    c10::Storage storage_of(const at::Tensor& tensor) const {
        for (const Pair& each : tensors_) {
            if (storage_in(each.tensor) == storage_in(tensor)) return each.alias.storage();
        }
        c10::StorageImpl& storage = *storage_in(tensor);
        return {c10::Storage::use_byte_size_t(), storage.nbytes(),
                c10::DataPtr(found(storage), c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
                /*resizable=*/true};
    }

    std::string name_;  ///< of the operator
    std::vector<Pair> tensors_;
};

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
            if (!is_here(tensor)) return tensor;
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
    clocks().run(current_of(device), name, use.accesses);
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
    return device && device->has_index() ? *device : c10::Device(kType, current_device);
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

/// Of any two devices: what Tensor::copy_() comes to. Between two of these it runs on the stream of the
/// first, which waits for that of the second and is waited for by it.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    std::vector<Access> accesses;
    if (is_here(from)) accesses.push_back(access_of(from, false));
    if (is_here(to)) accesses.push_back(access_of(to, true));
    const StreamId stream = current_of(is_here(from) ? from.device() : to.device());
    const bool is_between = is_here(from) && is_here(to) && from.device() != to.device();
    if (is_between) clocks().wait(stream, clocks().now(current_of(to.device())));
    clocks().run(stream, "copy", accesses);
    if (is_between) clocks().wait(current_of(to.device()), clocks().now(stream));
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
        : all(kKind, "_", kKey, __FILE__, __LINE__), own(kKind, "aten", kKey, __FILE__, __LINE__) {
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
    c10::impl::DeviceGuardImplRegistrar guard{kType, new Guard};  // lives as long as the program
};

// Before main(): autograd counts devices when it is first used.
const Registration kRegistration;  // NOLINT(cert-err58-cpp)

}  // namespace

at::Device pretend_gpu(int index) {
    return {kType, static_cast<c10::DeviceIndex>(index)};
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
