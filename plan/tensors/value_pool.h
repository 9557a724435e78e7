// SPDX-License-Identifier: Apache-2.0
//
// Where values of the tensor at hand lie. Private to plan/tensors.
//
//     instance   the tensor, or its gradient, in one layout: one piece per piece of the layout
//     piece      locations that together hold it: one unless copies of fragments met, none where
//                the layout has nothing of the tensor
//     location   a buffer on a device, and the task that puts the value there
//
// A search lowers tensors by the hundred thousand, so all locations lie in one list and all pieces
// in another, which are kept for their memory: a piece is a run of locations, an instance a run of
// pieces, and both are handles that stay valid until clear(). Spans of locations stay valid until
// the next one is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

struct Location {
    std::int32_t device = 0;
    TaskRef task = -1;
    std::int32_t buffer = -1;  ///< -1: not allocated yet
};

/// A run of ValuePool's locations.
struct Locations {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

struct Instance {
    std::int32_t layout = -1;       ///< of LayoutTable
    std::uint32_t first_piece = 0;  ///< of ValuePool's
};

/// Few, nearly always.
using Instances = SmallVector<Instance, 4>;

class ValuePool {
public:
    void clear() {
        locations_.clear();
        pieces_.clear();
    }

    Locations add_location(const Location& location) {
        const std::uint32_t begin = location_count();
        locations_.push_back(location);
        return {begin, begin + 1};
    }
    [[nodiscard]] std::uint32_t location_count() const {
        return static_cast<std::uint32_t>(locations_.size());
    }
    /// Adds these once more, at the end of all locations.
    void append(Locations locations) {
        for (std::uint32_t i = locations.begin; i < locations.end; ++i)
            locations_.push_back(locations_[i]);
    }
    [[nodiscard]] std::span<const Location> operator[](Locations locations) const {
        return {locations_.data() + locations.begin, locations.size()};
    }
    [[nodiscard]] std::span<Location> operator[](Locations locations) {
        return {locations_.data() + locations.begin, locations.size()};
    }

    void add_piece(Locations locations) { pieces_.push_back(locations); }
    [[nodiscard]] std::uint32_t piece_count() const {
        return static_cast<std::uint32_t>(pieces_.size());
    }
    [[nodiscard]] Locations piece(std::size_t number) const { return pieces_[number]; }

    /// Its pieces are those that are added next.
    [[nodiscard]] Instance next_instance(std::int32_t layout) const {
        return {.layout = layout, .first_piece = piece_count()};
    }
    [[nodiscard]] Locations piece(const Instance& instance, std::size_t number) const {
        return pieces_[instance.first_piece + number];
    }

private:
    std::vector<Location> locations_;
    std::vector<Locations> pieces_;
};

}  // namespace partita::plan
