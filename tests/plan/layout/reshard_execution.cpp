// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/layout/reshard_execution.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "plan/layout/reshard_planner.h"

namespace partita::plan {

using cost::Collective;

namespace {

void expect(bool promise, const std::string& what) {
    if (!promise) throw std::logic_error(what);
}

bool is_disjoint(const std::vector<std::int32_t>& pieces, RegionTable& regions) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (!intersection(regions[pieces[i]], regions[pieces[j]]).empty()) return false;
        }
    }
    return true;
}

/// One transfer between two layouts, seen by region numbers.
class Promises {
public:
    Promises(const Layout& from, const Transfer& transfer, RegionTable& regions)
        : from_(from), transfer_(transfer), regions_(regions) {
        for (const std::int32_t i : transfer.sources) {
            const Piece& piece = from.pieces.at(static_cast<std::size_t>(i));
            expect(piece.region >= 0, "a source that holds nothing");
            given_.push_back(piece.region);
            givers_.push_back(piece.device);
            summands_.insert(piece.summand);
        }
        for (const Delivery& delivery : transfer.results) {
            gotten_.push_back(delivery.region);
            getters_.push_back(delivery.device);
        }
    }

    void check() {
        expect(!given_.empty() && !gotten_.empty(), "gives or gets nothing");
        const std::set<int> ranks(transfer_.devices.begin(), transfer_.devices.end());
        std::set<int> involved(givers_.begin(), givers_.end());
        involved.insert(getters_.begin(), getters_.end());
        expect(ranks.size() == transfer_.devices.size(), "a device with two ranks");
        expect(ranks == involved, "ranks are not those that give or get");
        expect(ranks.size() > 1, "a device talks to itself");
        expect(std::set<int>(givers_.begin(), givers_.end()).size() == givers_.size(),
               "a device gives two pieces");
        expect(std::set<int>(getters_.begin(), getters_.end()).size() == getters_.size(),
               "a device gets two pieces");
        if (transfer_.collective) {
            check_collective();
        } else {
            expect(given_.size() == 1 && gotten_.size() == 1, "a copy of more than one piece");
            expect(in_order() == std::vector{givers_[0], getters_[0]}, "a copy elsewhere");
            expect(is_inside(gotten_[0], given_[0]), "a copy of what is not there");
            expect_elements(volume(gotten_[0]));
        }
    }

private:
    [[nodiscard]] std::vector<int> in_order() const {
        return {transfer_.devices.begin(), transfer_.devices.end()};
    }
    [[nodiscard]] std::int64_t volume(std::int32_t region) const { return regions_.volume(region); }
    [[nodiscard]] std::int64_t largest(const std::vector<std::int32_t>& pieces) const {
        std::int64_t most = 0;
        for (const std::int32_t region : pieces) most = std::max(most, volume(region));
        return most;
    }
    [[nodiscard]] bool is_inside(std::int32_t inner, std::int32_t outer) const {
        return contains(regions_[outer], regions_[inner]);
    }
    /// The pieces are disjoint, lie in `whole` and cover it.
    [[nodiscard]] bool partition(const std::vector<std::int32_t>& pieces,
                                 std::int32_t whole) const {
        std::int64_t sum = 0;
        for (const std::int32_t region : pieces) {
            if (!is_inside(region, whole)) return false;
            sum += volume(region);
        }
        return is_disjoint(pieces, regions_) && sum == volume(whole);
    }

    void expect_elements(std::int64_t elements) const {
        expect(transfer_.elements == elements,
               fmt::format("counts {} elements, not {}", transfer_.elements, elements));
    }
    void expect_everybody() const {
        expect(std::set<int>(givers_.begin(), givers_.end()) ==
                   std::set<int>(getters_.begin(), getters_.end()),
               "somebody only gives or only gets");
        expect(in_order() == givers_, "ranks are not in the order of the pieces");
    }
    void expect_same(const std::vector<std::int32_t>& pieces, std::int32_t region) const {
        for (const std::int32_t piece : pieces) expect(piece == region, "regions differ");
    }
    void expect_addends() const {
        expect_same(given_, given_[0]);
        expect(summands_.size() == given_.size(), "an addend twice");
        for (const Piece& piece : from_.pieces) {
            const bool adds =
                piece.region >= 0 &&
                std::any_of(gotten_.begin(), gotten_.end(), [&](std::int32_t result) {
                    return !intersection(regions_[piece.region], regions_[result]).empty();
                });
            expect(!adds || summands_.count(piece.summand) == 1, "an addend lacks");
        }
    }
    void expect_one_summand() const { expect(summands_.size() == 1, "pieces of several addends"); }
    void expect_parts() const {
        for (const std::int32_t part : gotten_) {
            expect(is_inside(part, given_[0]), "a part from elsewhere");
        }
    }
    void expect_root(const std::vector<int>& roots) const {
        expect(roots.size() == 1, "several roots");
        expect(transfer_.devices[0] == roots[0], "the root is not the first rank");
    }

    void check_collective() {
        const auto ranks = static_cast<std::int64_t>(transfer_.devices.size());
        switch (*transfer_.collective) {
        case Collective::all_reduce:
            expect_everybody();
            expect_addends();
            expect_same(gotten_, given_[0]);
            return expect_elements(volume(given_[0]));
        case Collective::reduce_scatter:
            expect_everybody();
            expect_addends();
            expect_parts();
            return expect_elements(ranks * largest(gotten_));
        case Collective::all_gather:
            expect_everybody();
            expect_one_summand();
            expect_same(gotten_, gotten_[0]);
            expect(partition(given_, gotten_[0]), "pieces do not make the result");
            return expect_elements(ranks * largest(given_));
        case Collective::all_to_all:
            expect_everybody();
            expect_one_summand();
            check_exchange();
            return expect_elements(std::max(largest(given_), largest(gotten_)));
        case Collective::broadcast:
            expect_root(givers_);
            expect_same(gotten_, given_[0]);
            return expect_elements(volume(given_[0]));
        case Collective::scatter:
            expect_root(givers_);
            expect_parts();
            return expect_elements(ranks * largest(gotten_));
        case Collective::reduce:
            expect_root(getters_);
            expect_addends();
            expect_same(gotten_, given_[0]);
            return expect_elements(volume(given_[0]));
        case Collective::gather:
            expect_root(getters_);
            expect_one_summand();
            expect(partition(given_, gotten_[0]), "pieces do not make the result");
            return expect_elements(ranks * largest(given_));
        }
    }

    /// Everybody gets something of everybody, and no rank gives or gets more than is counted.
    void check_exchange() const {
        expect(is_disjoint(given_, regions_), "pieces overlap");
        std::vector<std::int64_t> gets(gotten_.size(), 0);
        for (const std::int32_t piece : given_) {
            std::int64_t gives = 0;
            for (std::size_t i = 0; i < gotten_.size(); ++i) {
                const std::int64_t common =
                    intersection(regions_[piece], regions_[gotten_[i]]).volume();
                expect(common > 0, "a pair that exchanges nothing");
                gives += common;
                gets[i] += common;
            }
            expect(gives <= transfer_.elements, "a rank gives more than is counted");
        }
        expect(*std::max_element(gets.begin(), gets.end()) <= transfer_.elements,
               "a rank gets more than is counted");
    }

    const Layout& from_;
    const Transfer& transfer_;
    RegionTable& regions_;
    std::vector<std::int32_t> given_;   ///< regions
    std::vector<std::int32_t> gotten_;  ///< regions
    std::vector<int> givers_;
    std::vector<int> getters_;
    std::set<std::int32_t> summands_;
};

/// The combination of what the addends know of an element.
void add_known(SparseValue& sum, const SparseValue& addend, std::size_t element,
               graph::Combine combine) {
    if (!addend.knows(element)) return;
    const std::int64_t value = addend.data[element];
    sum.set(element, sum.knows(element) ? combined(combine, sum.data[element], value) : value);
}

std::string name_of(const Transfer& transfer) {
    return transfer.collective ? std::string(cost::name_of(*transfer.collective)) : "copy";
}

PieceValues run_transfer(const Layout& from, const Transfer& transfer, const PieceValues& values,
                         const graph::Shape& shape, const RegionTable& regions) {
    PieceValues results;
    for (const Delivery& delivery : transfer.results) {
        results.push_back(unknown(shape));
        for_each_element(regions[delivery.region], shape, [&](std::size_t e) {
            for (const std::int32_t source : transfer.sources) {
                add_known(results.back(), values[static_cast<std::size_t>(source)], e,
                          from.combine);
            }
        });
    }
    return results;
}

struct Execution {
    const Layout& from;
    const Layout& to;
    const PieceValues& values;
    const graph::Shape& shape;
    const Reshard& reshard;
    std::vector<PieceValues> delivered;  ///< per transfer
    std::set<std::pair<std::int32_t, std::int32_t>> used;

    [[nodiscard]] const SparseValue& take(const Supply::Item& item, int device) {
        const auto index = static_cast<std::size_t>(item.index);
        if (item.transfer < 0) {
            expect(from.pieces.at(index).device == device, "a local piece of another device");
            return values.at(index);
        }
        const auto transfer = static_cast<std::size_t>(item.transfer);
        expect(index < reshard.transfers.at(transfer).results.size(), "a result that is not there");
        expect(reshard.transfers[transfer].results[index].device == device,
               "a result that went to another device");
        used.insert({item.transfer, item.index});
        return delivered.at(transfer).at(index);
    }

    SparseValue supply(std::size_t target, const RegionTable& regions) {
        const Piece& piece = to.pieces[target];
        const Supply& supply = reshard.supplies.at(target);
        SparseValue value = unknown(shape);
        if (piece.region < 0) {
            expect(supply.items.empty(), "something for a part that needs nothing");
            return value;
        }
        for (const Supply::Item& item : supply.items) {
            const SparseValue& part = take(item, piece.device);
            for_each_element(regions[piece.region], shape, [&](std::size_t e) {
                expect(supply.sum || !(value.knows(e) && part.knows(e)),
                       fmt::format("element {} of device {} comes twice and is not combined", e,
                                   piece.device));
                add_known(value, part, e, from.combine);
            });
        }
        return value;
    }
};

}  // namespace

PieceValues run_reshard(const Layout& from, const Layout& to, const PieceValues& values,
                        const graph::Shape& shape, RegionTable& regions,
                        const cost::Machine& machine, TransferCounts& counts) {
    const Reshard reshard = ReshardPlanner().plan(from, to, regions, machine);
    if (reshard.through) {
        const Layout& through = *reshard.through;
        expect(through != to && !through.is_partial(), "going through it does not come closer");
        ++counts[from.is_partial() ? "resolved" : "sliced"];
        const PieceValues first =
            run_reshard(from, through, values, shape, regions, machine, counts);
        return run_reshard(through, to, first, shape, regions, machine, counts);
    }
    Execution execution{from, to, values, shape, reshard, {}, {}};
    std::size_t results = 0;
    for (const Transfer& transfer : reshard.transfers) {
        ++counts[name_of(transfer)];
        try {
            Promises(from, transfer, regions).check();
        } catch (const std::logic_error& error) {
            throw std::logic_error(name_of(transfer) + ": " + error.what());
        }
        execution.delivered.push_back(run_transfer(from, transfer, values, shape, regions));
        results += transfer.results.size();
    }
    PieceValues supplied;
    for (std::size_t i = 0; i < to.pieces.size(); ++i) {
        supplied.push_back(execution.supply(i, regions));
        const Supply& supply = reshard.supplies[i];
        if (supply.sum) ++counts["summed"];
        if (supply.items.size() == 1 && supply.items[0].transfer < 0) ++counts["local"];
    }
    expect(execution.used.size() == results, "something is delivered that nobody takes");
    return supplied;
}

}  // namespace partita::plan
