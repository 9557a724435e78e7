// SPDX-License-Identifier: Apache-2.0
//
// Nodes that are alike, and routes that look at three of them.
#include "cost/machine/equal_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cost/machine/machine.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<NodeRun> runs_of(const Machine& machine) {
    return runs_of_nodes(machine.devices(), machine.switches(), machine.links());
}

std::vector<int> lengths(const std::vector<NodeRun>& runs) {
    std::vector<int> lengths;
    for (const NodeRun& run : runs) lengths.push_back(run.count);
    return lengths;
}

TEST(EqualNodes, OfPresetsAreThoseOfAKind) {
    EXPECT_THAT(lengths(runs_of(load_machine("dgx-h100:64"))), ElementsAre(64));
    EXPECT_THAT(lengths(runs_of(load_machine("dgx-h100:64x3"))), ElementsAre(64));
    EXPECT_THAT(lengths(runs_of(load_machine("cpu:16"))), ElementsAre(1));
    EXPECT_THAT(lengths(runs_of(load_machine("p3-g4dn"))), ElementsAre(3, 1));
}

TEST(EqualNodes, AreOtherOnesWithOneFigureChanged) {
    const Machine machine = load_machine("dgx-a100:4");
    std::vector<Device> devices(machine.devices().begin(), machine.devices().end());
    std::vector<Link> links(machine.links().begin(), machine.links().end());
    const auto found = [&] { return lengths(runs_of_nodes(devices, machine.switches(), links)); };
    devices[17].vector_flops += 1;
    EXPECT_THAT(found(), ElementsAre(2, 1, 1));
    devices[17].vector_flops -= 1;
    links[33].latency += picoseconds(1);
    EXPECT_THAT(found(), ElementsAre(2, 1, 1));
    links[33].latency -= picoseconds(1);
    std::swap(links[1], links[2]);
    EXPECT_THAT(found(), ElementsAre(1, 3));
    std::swap(links[1], links[20]);  // of another node
    EXPECT_THAT(found(), IsEmpty());
    std::swap(links[1], links[20]);
    devices.back().node = 2'000'000'000;
    EXPECT_THAT(found(), IsEmpty());
}

/// Clusters of up to three kinds of nodes in up to seven runs. Few figures: many routes are equal.
class RandomCluster {
public:
    Machine machine() {
        const int kinds = *rc::gen::inRange(1, 4);
        shared_ = *rc::gen::inRange(1, 4);
        for (int kind = 0; kind < kinds; ++kind) make_kind();
        for (int run = *rc::gen::inRange(1, 5); run > 0; --run) {
            const Kind& kind = kinds_[static_cast<std::size_t>(*rc::gen::inRange(0, kinds))];
            for (int i = *rc::gen::inRange(1, 8); i > 0; --i) add_node(kind);
        }
        std::vector<std::string> names;
        for (int i = 0; i < shared_ + switches_; ++i) names.push_back(fmt::format("s{}", i));
        // Now that the number of devices is known: switches follow.
        for (Link& link : links_) {
            for (int* end : {&link.from, &link.to}) {
                if (*end < 0) *end = static_cast<int>(devices_.size()) - 1 - *end;
            }
        }
        return {"random", devices_, std::move(names), links_};
    }

private:
    struct Kind {
        int devices = 0;
        int switches = 0;
        std::vector<Link> links{};  ///< ends: devices, then switches, then shared switches
    };

    Link random_link(int from, int to) {
        Link link;
        link.from = from;
        link.to = to;
        link.bandwidth = *rc::gen::element(1 << 20, 1 << 20, 1 << 21);
        link.latency = milliseconds(*rc::gen::element(0, 0, 500));
        link.mode = *rc::gen::element(LinkMode::duplex, LinkMode::shared);
        return link;
    }

    void make_kind() {
        Kind kind{.devices = *rc::gen::inRange(1, 4), .switches = *rc::gen::inRange(0, 3)};
        const int own = kind.devices + kind.switches;
        for (int i = 0; i < own; ++i) {  // everything reaches a shared switch, which reaches all
            kind.links.push_back(
                random_link(i, own + (i == 0 ? 0 : *rc::gen::inRange(0, shared_))));
            if (i > 0) kind.links.push_back(random_link(i, *rc::gen::inRange(0, i)));
        }
        for (int s = 0; s < shared_; ++s) kind.links.push_back(random_link(0, own + s));
        for (int more = *rc::gen::inRange(0, 4); more > 0; --more) {
            const int from = *rc::gen::inRange(0, own);
            const int to = *rc::gen::inRange(0, own + shared_);
            if (from == to) continue;
            kind.links.push_back(random_link(from, to));
            if (*rc::gen::arbitrary<bool>()) kind.links.back().mode = LinkMode::directed;
        }
        kinds_.push_back(std::move(kind));
    }

    void add_node(const Kind& kind) {
        const int first_device = static_cast<int>(devices_.size());
        const auto vertex = [&](int end) {
            if (end < kind.devices) return first_device + end;
            const int number = end - kind.devices;  // switches as -1, -2, ... for now
            return number < kind.switches ? -1 - (shared_ + switches_ + number)
                                          : -1 - (number - kind.switches);
        };
        for (Link link : kind.links) {
            link.from = vertex(link.from);
            link.to = vertex(link.to);
            links_.push_back(std::move(link));
        }
        for (int i = 0; i < kind.devices; ++i) {
            Device device;
            device.name = fmt::format("d{}", devices_.size());
            device.model = "test";
            device.node = nodes_;
            device.memory = Bytes{1000};
            device.memory_bandwidth = 1000;
            device.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = 1000;
            device.vector_flops = 1000;
            devices_.push_back(std::move(device));
        }
        switches_ += kind.switches;
        ++nodes_;
    }

    int shared_ = 0;
    int switches_ = 0;
    int nodes_ = 0;
    std::vector<Kind> kinds_{};
    std::vector<Device> devices_{};
    std::vector<Link> links_{};
};

void expect_routes_of_the_whole(const Machine& machine) {
    std::vector<Device> in_one_node(machine.devices().begin(), machine.devices().end());
    for (Device& device : in_one_node) device.node = 0;  // which no route depends on
    const Machine whole("whole", in_one_node,
                        {machine.switches().begin(), machine.switches().end()},
                        {machine.links().begin(), machine.links().end()});
    RC_ASSERT(runs_of(whole).size() <= 1);
    for (int from = 0; from < machine.device_count(); ++from) {
        for (int to = 0; to < machine.device_count(); ++to) {
            if (from == to) continue;
            RC_ASSERT(machine.route(from, to).channels == whole.route(from, to).channels);
        }
    }
}

// Twenty a case: of 600 clusters one has a route through a third node that is as good as another.
RC_GTEST_PROP(EqualNodesProperty, RoutesAreThoseOfTheWholeMachine, ()) {
    for (int i = 0; i < 20; ++i) {
        expect_routes_of_the_whole(RandomCluster().machine());
    }
}

}  // namespace
}  // namespace partita::cost
