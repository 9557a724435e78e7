// SPDX-License-Identifier: Apache-2.0
//
// What a collective costs: one virtual function, several models behind it.
//
//     alpha-beta     one formula per algorithm over the machine's routes   collective_algorithms.h
//     NCCL           NCCL's tuning formulas, constants fitted per machine  nccl_model.h
//     tables         measured times, interpolated                          collective_table.h
//
// A machine names its model (collective_file.h); tables win over formulas, formulas over routes.
// The cheapest algorithm is chosen for each call, and its name goes into the plan.
//
// One rank costs nothing. Prices never fall when bytes grow: a property test of every model.
// Threads: price() is const and thread-safe. Errors: "I do not know" is nullopt; OverflowError when
// a time leaves the range of its unit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"

namespace partita::cost {

enum class Collective : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    reduce,
    scatter,
    gather
};
inline constexpr int kCollectiveCount = 8;

enum class Algorithm : std::uint8_t {
    ring,
    tree,
    pipelined_tree,
    butterfly,
    halving_doubling,
    one_shot,
    all_to_all,
    parameter_server,
    master_worker,
    round_robin,
    direct,
    hierarchical,
    torus,
    nvls,
    nvls_tree,
    collnet_direct,
    collnet_chain,
    pat,
    library  ///< measured, and the log does not say what the library chose
};
inline constexpr int kAlgorithmCount = 19;

/// How NCCL moves data: LL sends a flag with every 4 bytes, LL128 with every 120, Simple none.
enum class Protocol : std::uint8_t { none, simple, ll, ll128 };

/// Do its results combine what the ranks give, instead of only moving it?
constexpr bool reduces(Collective collective) {
    return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
           collective == Collective::reduce;
}

std::string_view name_of(Collective collective);  ///< "all-reduce"
std::string_view name_of(Algorithm algorithm);    ///< "halving-doubling"
std::string_view name_of(Protocol protocol);      ///< "ll128"; "" for none

struct CollectiveCall {
    Collective kind = Collective::all_reduce;
    /// Distinct, in the order of ranks; the first is the root of broadcast, reduce, scatter,
    /// gather.
    std::span<const int> devices;
    /// As nccl-tests counts: all-reduce, broadcast, reduce: the buffer; all-gather, reduce-scatter,
    /// scatter, gather: the whole (gathered) buffer; all-to-all: the buffer of one rank. >= 0.
    /// Uneven parts are padded by the caller.
    Bytes bytes;
};

struct CollectivePrice {
    Time time;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::none;
    CostSource source = CostSource::analytic;
    friend bool operator==(CollectivePrice, CollectivePrice) = default;
};

class CollectiveModel {
public:
    virtual ~CollectiveModel() = default;
    [[nodiscard]] virtual std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                               const Machine& machine) const = 0;
    /// Of a copy from one device to another; nullopt: as the machine's links say.
    [[nodiscard]] virtual std::optional<Price> copy_price(int /*from*/, int /*to*/, Bytes /*bytes*/,
                                                          const Machine& /*machine*/) const {
        return std::nullopt;
    }
    /// Identifies model and calibration in a plan's costs.sources.
    [[nodiscard]] virtual std::string name() const = 0;
};

/// The first model that knows. Throws std::invalid_argument when `models` is empty.
class FirstCollectiveMatch final : public CollectiveModel {
public:
    explicit FirstCollectiveMatch(std::vector<std::shared_ptr<const CollectiveModel>> models);
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::optional<Price> copy_price(int from, int to, Bytes bytes,
                                                  const Machine& machine) const override;
    [[nodiscard]] std::string name() const override;

private:
    /// Shared: one model may stand in several chains.
    std::vector<std::shared_ptr<const CollectiveModel>> models_;
};

/// What the machine names (collective_file.h), then alpha-beta over its routes, which knows every
/// collective on every machine. Reads files: call it once per machine. Throws InputError.
std::shared_ptr<const CollectiveModel> collective_model_of(const Machine& machine);

}  // namespace partita::cost
