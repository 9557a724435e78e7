// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_tensors.h"

#include <cstdint>
#include <memory>

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>

namespace partita::runtime {

namespace {

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

c10::DataPtr kept(c10::Storage storage, c10::Device device) {
    void* const data = hidden(storage.mutable_data());
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    if (data != nullptr) clocks().allocated(begin, storage.nbytes(), current_stream(device));
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

}  // namespace

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
                         kept(cpu.storage(), device), /*allocator=*/nullptr, /*resizable=*/false);
    return tensor_in(std::move(storage), kPretendKey, cpu);
}

at::Tensor moved(const at::Tensor& cpu, c10::Device device, const std::string& by) {
    at::Tensor tensor = unwritten(cpu.resolve_conj().resolve_neg(), device);
    clocks().run(current_stream(device), by, {access_of(tensor, true)});
    return tensor;
}

at::Tensor Lent::of(const at::Tensor& tensor) {
    if (!tensor.defined() || !is_pretend(tensor)) return tensor;
    at::Tensor alias = tensor_in(storage_of(tensor), c10::DispatchKey::CPU, tensor);
    alias._set_conj(tensor.is_conj());
    alias._set_neg(tensor.is_neg());
    tensors_.push_back({tensor, alias});
    return alias;
}

at::Tensor Lent::back(const at::Tensor& result, c10::Device device) const {
    if (!result.defined()) return result;
    for (const Pair& each : tensors_) {
        if (each.alias.is_same(result)) return each.tensor;
    }
    for (const Pair& each : tensors_) {
        if (storage_in(each.alias) != storage_in(result)) continue;
        return tensor_in(each.tensor.storage(), kPretendKey, result);
    }
    return moved(result, device, name_);
}

void Lent::settle() const {
    for (const auto& [tensor, alias] : tensors_) {
        c10::StorageImpl& storage = *storage_in(tensor);
        if (alias.storage().data() != found(storage)) {
            storage.set_nbytes(alias.storage().nbytes());
            storage.set_data_ptr_noswap(kept(alias.storage(), tensor.device()));
        }
        if (tensor.sizes() == alias.sizes() && tensor.strides() == alias.strides()) continue;
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(),
                                                            alias.storage_offset());
    }
}

c10::Storage Lent::storage_of(const at::Tensor& tensor) const {
    for (const Pair& each : tensors_) {
        if (storage_in(each.tensor) == storage_in(tensor)) return each.alias.storage();
    }
    c10::StorageImpl& storage = *storage_in(tensor);
    return {c10::Storage::use_byte_size_t(), storage.nbytes(),
            c10::DataPtr(found(storage), c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
            /*resizable=*/true};
}

}  // namespace partita::runtime
