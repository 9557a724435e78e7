// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_tensors.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {

namespace {

constexpr std::size_t kNowhere = std::size_t{1} << 52U;

void* hidden(void* data) {
    return static_cast<char*>(data) + kNowhere;
}

void* found(void* data) {
    return data == nullptr ? nullptr : static_cast<char*>(data) - kNowhere;
}

class PretendAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(std::size_t bytes) override {
        constexpr std::size_t kAlignment = 64;
        const c10::Device device(kPretendKind, current_gpu());
        const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment;
        void* const block = std::aligned_alloc(kAlignment, whole * kAlignment);
        if (block == nullptr) throw std::bad_alloc();
        void* const data = hidden(block);
        clocks().allocated(reinterpret_cast<std::uintptr_t>(data), whole * kAlignment,
                           current_of(device));
        return {data, data, &give_back, device};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        std::memcpy(found(to), found(const_cast<void*>(from)), bytes);
    }

private:
    static void give_back(void* data) {
        clocks().given_back(reinterpret_cast<std::uintptr_t>(data));
        std::free(found(data));
    }
};

}  // namespace

StreamClocks& clocks() {
    static auto* const kClocks = new StreamClocks;  // tensors may outlive static objects
    return *kClocks;
}

c10::DeviceIndex& current_gpu() {
    thread_local c10::DeviceIndex current = 0;
    return current;
}

std::int64_t& current_stream(c10::DeviceIndex gpu) {
    thread_local std::array<std::int64_t, kPretendGpus> current{};
    return current.at(static_cast<std::size_t>(gpu));
}

StreamId current_of(c10::Device device) {
    return {device.index(), current_stream(device.index())};
}

bool is_pretend(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == kPretendKind;
}

c10::Allocator& pretend_allocator() {
    static auto* const kAllocator = new PretendAllocator;
    return *kAllocator;
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                      c10::Device device) {
    const c10::DeviceGuard guard(device);
    return at::detail::empty_strided_generic(sizes, strides, &pretend_allocator(),
                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                             type);
}

at::Tensor on_host(const at::Tensor& tensor) {
    return at::from_blob(found(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
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

at::Tensor moved(const at::Tensor& host, c10::Device device, const std::string& name) {
    at::Tensor own = new_tensor(host.sizes(), host.strides(), host.scalar_type(), device);
    const Access all = access_of(own, true);
    std::memcpy(found(own.data_ptr()), host.const_data_ptr(), all.end - all.begin);
    clocks().run(current_of(device), name, {all});
    return own;
}

}  // namespace partita::runtime
