// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/nccl_communicator.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "base/error.h"
#include "runtime/communicate/nccl_operation.h"

namespace partita::runtime {
namespace {

using graph::Combine;

static_assert(kNcclIdBytes == sizeof(ncclUniqueId));

constexpr auto kNcclNap = std::chrono::microseconds(20);

// Types in which NCCL adds; bytes of all others can still be moved.
std::optional<ncclDataType_t> nccl_type(at::ScalarType type) {
    switch (type) {
    case at::kFloat: return ncclFloat32;
    case at::kDouble: return ncclFloat64;
    case at::kHalf: return ncclFloat16;
    case at::kBFloat16: return ncclBfloat16;
    case at::kByte: return ncclUint8;
    case at::kChar: return ncclInt8;
    case at::kInt: return ncclInt32;
    case at::kLong: return ncclInt64;
    case at::kUInt32: return ncclUint32;
    case at::kUInt64: return ncclUint64;
    default: return std::nullopt;  // ATen's types, not ours: most have no counterpart
    }
}

static_assert(static_cast<int>(NcclOperation::sum) == ncclSum);
static_assert(static_cast<int>(NcclOperation::product) == ncclProd);
static_assert(static_cast<int>(NcclOperation::max) == ncclMax);
static_assert(static_cast<int>(NcclOperation::min) == ncclMin);

std::optional<ncclRedOp_t> operation_of(Combine how) {
    const auto operation = nccl_operation(how);
    if (!operation) return std::nullopt;
    return static_cast<ncclRedOp_t>(*operation);
}

class NcclCommunicator final : public Communicator {
public:
    NcclCommunicator(std::string_view unique_id, int rank, int size, at::Device device,
                     const CommunicatorOptions& options);
    ~NcclCommunicator() override;

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override;
    void do_broadcast(const at::Tensor& tensor, int root) override;
    void do_all_gather(const at::Tensor& out, Counts counts) override;
    void do_all_reduce(const at::Tensor& tensor, Combine how) override;
    void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                           Combine how) override;
    void do_reduce(const at::Tensor& tensor, Combine how, int root) override;
    void do_barrier() override;
    void do_wait() override;

private:
    template <class Call>
    void enqueue(const Call& call);
    void connect();
    void all_reduce_log_sum_exp(const at::Tensor& tensor);
    void await(ncclResult_t result);
    void check_device(cudaError_t error);
    void drop();
    [[noreturn]] void time_out_all();

    ncclUniqueId unique_id_{};
    at::Device device_;
    ncclComm_t comm_ = nullptr;
    cudaEvent_t ended_ = nullptr;
};

NcclCommunicator::NcclCommunicator(std::string_view unique_id, int rank, int size,
                                   at::Device device, const CommunicatorOptions& options)
    : Communicator(rank, size, options), device_(device) {
    assert(unique_id.size() == sizeof unique_id_ && device.is_cuda());
    std::memcpy(&unique_id_, unique_id.data(), sizeof unique_id_);
}

NcclCommunicator::~NcclCommunicator() {
    if (ended_ != nullptr) cudaEventDestroy(ended_);
    if (comm_ == nullptr) return;
    if (is_aborted()) {
        ncclCommAbort(comm_);
    } else {
        ncclCommDestroy(comm_);
    }
}

// After a failure nothing more is asked of it.
void NcclCommunicator::drop() {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
}

// NCCL does not say for whom it waits.
void NcclCommunicator::time_out_all() {
    drop();
    std::vector<int> peers;
    for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank()) peers.push_back(peer);
    }
    time_out(peers);
}

void NcclCommunicator::check_device(cudaError_t error) {
    if (error == cudaSuccess) return;
    drop();
    fail(std::string("CUDA: ") + cudaGetErrorString(error));
}

// A call that returned `result` goes on in the background while it says ncclInProgress.
void NcclCommunicator::await(ncclResult_t result) {
    while (result == ncclInProgress) {
        if (is_aborted()) drop();
        stop_if_aborted();
        if (is_late()) time_out_all();
        const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
        if (asked != ncclSuccess) result = asked;
        if (result == ncclInProgress) std::this_thread::sleep_for(kNcclNap);
    }
    if (result == ncclSuccess) return;
    const std::string what = std::string(ncclGetErrorString(result)) + ": " +
                             (comm_ == nullptr ? "" : ncclGetLastError(comm_));
    drop();
    fail("NCCL: " + what);
}

void NcclCommunicator::connect() {
    if (comm_ != nullptr) return;
    check_device(cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    await(ncclCommInitRankConfig(&comm_, size(), unique_id_, rank(), &config));
}

template <class Call>
void NcclCommunicator::enqueue(const Call& call) {
    const c10::cuda::CUDAGuard guard(device_);
    connect();
    await(call(c10::cuda::getCurrentCUDAStream(device_.index()).stream()));
}

void NcclCommunicator::do_transfer(std::span<const Message> sends,
                                   std::span<const Message> receives) {
    enqueue([&](cudaStream_t stream) {
        ncclResult_t result = ncclGroupStart();
        const auto add = [&](ncclResult_t next) {
            if (result == ncclSuccess || result == ncclInProgress) result = next;
        };
        for (const auto& [tensor, peer] : sends) {
            add(ncclSend(tensor.const_data_ptr(), tensor.nbytes(), ncclUint8, peer, comm_, stream));
        }
        for (const auto& [tensor, peer] : receives) {
            add(ncclRecv(tensor.data_ptr(), tensor.nbytes(), ncclUint8, peer, comm_, stream));
        }
        add(ncclGroupEnd());
        return result;
    });
}

void NcclCommunicator::do_broadcast(const at::Tensor& tensor, int root) {
    enqueue([&](cudaStream_t stream) {
        return ncclBroadcast(tensor.const_data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclUint8,
                             root, comm_, stream);
    });
}

bool all_equal(Counts counts) {
    return std::ranges::adjacent_find(counts, std::not_equal_to<>()) == counts.end();
}

void NcclCommunicator::do_all_gather(const at::Tensor& out, Counts counts) {
    if (!all_equal(counts)) return Communicator::do_all_gather(out, counts);
    const std::size_t bytes = out.nbytes() / size();
    enqueue([&](cudaStream_t stream) {
        char* const all = static_cast<char*>(out.data_ptr());
        return ncclAllGather(all + rank() * bytes, all, bytes, ncclUint8, comm_, stream);
    });
}

// log(sum exp(x - m)) + m, where m is the largest x.
void NcclCommunicator::all_reduce_log_sum_exp(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAGuard guard(device_);
    at::Tensor most = tensor.clone();
    do_all_reduce(most, Combine::max);
    most.masked_fill_(at::isinf(most), 0);  // nothing, or all of it
    at::Tensor sum = at::exp(tensor - most);
    do_all_reduce(sum, Combine::sum);
    at::Tensor result = tensor;
    result.copy_(at::log(sum).add_(most));
}

void NcclCommunicator::do_all_reduce(const at::Tensor& tensor, Combine how) {
    if (how == Combine::log_sum_exp) return all_reduce_log_sum_exp(tensor);
    const auto type = nccl_type(tensor.scalar_type());
    const auto operation = operation_of(how);
    if (!type || !operation) return Communicator::do_all_reduce(tensor, how);
    enqueue([&](cudaStream_t stream) {
        return ncclAllReduce(tensor.const_data_ptr(), tensor.data_ptr(), tensor.numel(), *type,
                             *operation, comm_, stream);
    });
}

void NcclCommunicator::do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                                         Combine how) {
    const auto type = nccl_type(in.scalar_type());
    const auto operation = operation_of(how);
    if (!type || !operation || !all_equal(counts)) {
        return Communicator::do_reduce_scatter(out, in, counts, how);
    }
    enqueue([&](cudaStream_t stream) {
        return ncclReduceScatter(in.const_data_ptr(), out.data_ptr(), out.numel(), *type,
                                 *operation, comm_, stream);
    });
}

void NcclCommunicator::do_reduce(const at::Tensor& tensor, Combine how, int root) {
    const auto type = nccl_type(tensor.scalar_type());
    const auto operation = operation_of(how);
    if (!type || !operation) return Communicator::do_reduce(tensor, how, root);
    enqueue([&](cudaStream_t stream) {
        return ncclReduce(tensor.const_data_ptr(), tensor.data_ptr(), tensor.numel(), *type,
                          *operation, root, comm_, stream);
    });
}

void NcclCommunicator::do_barrier() {
    do_all_reduce(at::zeros({1}, at::TensorOptions(at::kInt).device(device_)), Combine::sum);
    do_wait();
}

void NcclCommunicator::do_wait() {
    if (comm_ == nullptr) return;
    const c10::cuda::CUDAGuard guard(device_);
    check_device(
        cudaEventRecord(ended_, c10::cuda::getCurrentCUDAStream(device_.index()).stream()));
    cudaError_t state = cudaEventQuery(ended_);
    while (state == cudaErrorNotReady) {
        ncclResult_t failure = ncclSuccess;
        ncclCommGetAsyncError(comm_, &failure);
        if (failure != ncclSuccess) await(failure);
        if (is_aborted()) drop();
        stop_if_aborted();
        if (is_late()) time_out_all();
        std::this_thread::sleep_for(kNcclNap);
        state = cudaEventQuery(ended_);
    }
    check_device(state);
}

}  // namespace

bool has_nccl() {
    return true;
}

std::string nccl_unique_id() {
    ncclUniqueId id;
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
        throw DeviceError(std::string("NCCL: ") + ncclGetErrorString(result) + ": " +
                          ncclGetLastError(nullptr));
    }
    return {static_cast<const char*>(static_cast<const void*>(&id)), sizeof id};
}

std::unique_ptr<Communicator> nccl_communicator(std::string_view unique_id, int rank, int size,
                                                at::Device device,
                                                const CommunicatorOptions& options) {
    return std::make_unique<NcclCommunicator>(unique_id, rank, size, device, options);
}

}  // namespace partita::runtime
