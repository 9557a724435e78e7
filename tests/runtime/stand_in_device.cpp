// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/stand_in_device.h"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "tests/runtime/gpu_rules.h"

namespace partita::runtime {

namespace {

constexpr auto kType = c10::DeviceType::MAIA;
constexpr auto kKey = c10::DispatchKey::MAIA;
constexpr c10::DeviceIndex kDevices = 2;

bool is_here(const at::Tensor& tensor) {
    return tensor.device().type() == kType;
}

// --- what the host waits for -------------------------------------------------------------------

struct Waits {
    std::mutex mutex;
    std::vector<std::string> names;
};
Waits& waits() {
    static Waits all;
    return all;
}

void note_wait(std::string name) {
    const std::lock_guard lock(waits().mutex);
    waits().names.push_back(std::move(name));
}

// --- memory ------------------------------------------------------------------------------------
//
// Pointers to elements are moved to where no program has memory: ATen may compare them, and who reads or
// writes there ends by a signal. Asking for one to write to is refused before.

constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 52U;

void* hidden(void* data) {
    return data == nullptr ? nullptr : static_cast<char*>(data) + kNowhere;
}

void* found(c10::StorageImpl& storage) {
    void* const data = storage._mutable_data_ptr_no_checks().get();
    return data == nullptr ? nullptr : static_cast<char*>(data) - kNowhere;
}

void give_back(void* held) {
    delete static_cast<c10::Storage*>(held);
}

/// The memory of a CPU storage, which lives as long.
c10::DataPtr held(c10::Storage storage, c10::Device device) {
    void* const data = hidden(storage.mutable_data());
    return {data, new c10::Storage(std::move(storage)), &give_back, device};
}

c10::Storage new_storage(const c10::Storage& cpu, c10::Device device) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), cpu.nbytes(), held(cpu, device),
                         /*allocator=*/nullptr, /*resizable=*/false);
    storage.unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
    return storage;
}

at::Tensor tensor_in(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
    at::Tensor tensor = at::detail::make_tensor<at::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), like.dtype());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                        like.storage_offset());
    return tensor;
}

c10::StorageImpl* storage_in(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
}

/// A new tensor on the device from one of the CPU that nobody else holds.
at::Tensor moved(const at::Tensor& cpu, c10::Device device) {
    const at::Tensor plain = cpu.resolve_conj().resolve_neg();
    return tensor_in(new_storage(plain.storage(), device), kKey, plain);
}

/// CPU tensors in the memory of a device's, for one call.
class Lent {
public:
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
        return moved(result, device);
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

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const std::string& name = op.schema().name();
    if (waits_on_gpus(name)) note_wait(name);
    const std::size_t first = stack->size() - op.schema().arguments().size();
    std::optional<c10::Device> device;
    std::vector<at::ScalarType> types;
    for (std::size_t i = first; i < stack->size(); ++i) {
        c10::IValue& value = (*stack)[i];
        visit_tensors(value, [&](const at::Tensor& tensor) {
            if (!tensor.defined()) return tensor;
            types.push_back(tensor.scalar_type());
            if (!device && is_here(tensor)) device = tensor.device();
            return tensor;
        });
        if (value.isDevice()) value = c10::Device(c10::kCPU);
    }
    TORCH_CHECK(device, name, " has no operand that says on which device it runs");
    check_types(name, types);
    Lent lent;
    for (std::size_t i = first; i < stack->size(); ++i) {
        visit_tensors((*stack)[i], [&](const at::Tensor& tensor) {
            check_device(name, tensor, *device);
            return lent.of(tensor);
        });
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    lent.settle();
    for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
        visit_tensors((*stack)[i],
                      [&](const at::Tensor& tensor) { return lent.back(tensor, *device); });
    }
}

// --- operators whose operands lie on several devices, or on none -------------------------------

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
    const auto options = at::TensorOptions().dtype(type.value_or(at::kFloat));
    return moved(at::empty(C10_AS_INTARRAYREF_SLOW(size), options, format),
                 device.value_or(stand_in_device()));
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>) {
    const auto options = at::TensorOptions().dtype(type.value_or(at::kFloat));
    return moved(
        at::empty_strided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), options),
        device.value_or(stand_in_device()));
}

/// Of any two devices: what Tensor::copy_() comes to.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    if (to.is_cpu()) note_wait("copy to the host");
    if (from.is_cpu() && !non_blocking) note_wait("copy from the host");
    Lent lent;
    lent.of(to).copy_(lent.of(from));
    return to;
}

// --- registration ------------------------------------------------------------------------------

thread_local c10::DeviceIndex current = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kType; }
    c10::Device exchangeDevice(c10::Device device) const override {
        return {kType, std::exchange(current, device.index())};
    }
    c10::Device getDevice() const override { return {kType, current}; }
    void setDevice(c10::Device device) const override { current = device.index(); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        current = device.index();
    }
    c10::Stream getStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::DEFAULT, device);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
    c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
};

struct Registration {
    Registration()
        : all(kKind, "_", kKey, __FILE__, __LINE__), own(kKind, "aten", kKey, __FILE__, __LINE__) {
        all.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
        own.impl("empty.memory_format", empty);
        own.impl("empty_strided", empty_strided);
        own.impl("_copy_from", copy_from);
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

c10::Device stand_in_device(int index) {
    return {kType, static_cast<c10::DeviceIndex>(index)};
}

std::vector<std::string> take_waits() {
    const std::lock_guard lock(waits().mutex);
    return std::exchange(waits().names, {});
}

}  // namespace partita::runtime
