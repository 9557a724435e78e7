// SPDX-License-Identifier: Apache-2.0
//
// A communicator whose tensors lie on a device, for tests that have theirs on the CPU.
#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "runtime/communicate/combine.h"
#include "runtime/communicate/communicator.h"

namespace partita::runtime {

class OnDevice final : public Communicator {
public:
    OnDevice(std::unique_ptr<Communicator> inner, at::Device device)
        : Communicator(inner->rank(), inner->size(), {}),
          inner_(std::move(inner)),
          device_(device) {}

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override {
        std::vector<Message> given;
        for (const auto& [tensor, peer] : sends) given.push_back({there(tensor), peer});
        std::vector<Message> got;
        for (const auto& [tensor, peer] : receives) got.push_back({there(tensor), peer});
        inner_->transfer(given, got);
        for (std::size_t i = 0; i < got.size(); ++i) {
            copy_tensor(receives[i].tensor, got[i].tensor);
        }
    }
    void do_broadcast(const at::Tensor& tensor, int root) override {
        with(tensor, [&](const at::Tensor& own) { inner_->broadcast(own, root); });
    }
    void do_all_gather(const at::Tensor& out, Counts counts) override {
        with(out,
             [&](const at::Tensor& own) { inner_->all_gather(own, part(own, counts), counts); });
    }
    void do_all_reduce(const at::Tensor& tensor, graph::Combine how) override {
        with(tensor, [&](const at::Tensor& own) { inner_->all_reduce(own, how); });
    }
    void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in, Counts counts,
                           graph::Combine how) override {
        const at::Tensor all = there(in);
        const bool is_part = out.data_ptr() == part(in, counts).data_ptr();
        const at::Tensor own = is_part ? part(all, counts) : there(out);
        inner_->reduce_scatter(own, all, counts, how);
        copy_tensor(out, own);
    }
    void do_reduce(const at::Tensor& tensor, graph::Combine how, int root) override {
        with(tensor, [&](const at::Tensor& own) { inner_->reduce(own, how, root); });
    }
    void do_barrier() override { inner_->barrier(); }
    void do_wait() override { inner_->wait(); }

private:
    [[nodiscard]] at::Tensor there(const at::Tensor& tensor) const {
        const at::Tensor own = at::empty(tensor.sizes(), tensor.options().device(device_));
        copy_tensor(own, tensor);
        return own;
    }
    template <class Use>
    void with(const at::Tensor& tensor, const Use& use) const {
        const at::Tensor own = there(tensor);
        use(own);
        copy_tensor(tensor, own);
    }
    [[nodiscard]] at::Tensor part(const at::Tensor& all, Counts counts) const {
        const auto before = counts.first(static_cast<std::size_t>(rank()));
        const std::int64_t begin = std::accumulate(before.begin(), before.end(), std::int64_t{0});
        return all.view(-1).narrow(0, begin, counts[static_cast<std::size_t>(rank())]);
    }

    std::unique_ptr<Communicator> inner_;
    at::Device device_;
};

}  // namespace partita::runtime
