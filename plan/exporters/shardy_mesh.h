// SPDX-License-Identifier: Apache-2.0
//
// The meshes of a Shardy module: one per ordered list of devices, with axes that suit every config
// on them.
//
//     cuts of 12 devices                       kept: comparable to all others   axes
//     (2)(6)    1 2 - - 12                     1 2 12                            "a"=2 "b"=6
//     (2)(2)(3) 1 2 4 - 12                         4 does not divide 6, nor 6 it
//     (6)(2)    1 - - 6 12                         4 = "b":(1)2 and 6 = "b":(1)3
//
// Between two kept cuts all others are multiples of the lower and divide the upper, so every axis
// of a config is whole axes and at most a sub-axis at either end.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/strategy/strategy.h"

namespace partita::plan {

/// A run of digits of the devices: `size` steps of what `before` major parts leave.
struct MeshSpan {
    int before = 1;
    int size = 1;
};

class ShardyMesh {
public:
    ShardyMesh(std::string name, DeviceSet devices)
        : name_(std::move(name)), devices_(std::move(devices)) {}

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const DeviceSet& devices() const { return devices_; }
    [[nodiscard]] bool is_one_device() const { return devices_.size() == 1; }

    /// Every config of the mesh must be added before the first text is asked for.
    void add(const OpConfig& config);

    /// "sdy.mesh @mesh_0 = <["a"=2, "b"=4]>". Ids are positions in the rising list of its devices:
    /// the dialect wants 0 to n - 1. A maximal mesh names its device.
    [[nodiscard]] std::string definition() const;

    /// ["a", "b":(1)2] as `"a", "b":(1)2`: the spans, major to minor, neighbours joined.
    [[nodiscard]] std::string axes(const std::vector<MeshSpan>& spans) const;

private:
    [[nodiscard]] std::vector<int> kept() const;

    std::string name_;
    DeviceSet devices_;
    std::vector<int> cuts_;  ///< rising
};

/// Where each axis of a config lies.
std::vector<MeshSpan> spans_of(const OpConfig& config);

}  // namespace partita::plan
