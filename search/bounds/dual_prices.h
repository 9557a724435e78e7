// SPDX-License-Identifier: Apache-2.0
//
// Good weights for the linear program of search/bounds/lower_bound.h, number 2: an approximate
// solution of its dual by multiplicative weights. Any weights give a sound bound; these give a
// tight one.
//
// Time and memory of every class are rows of one packing problem, row weights sum to 1:
//
//     row of time   load(c)  / (devices(c) * T)        row of bytes   used(c) / capacity(c)
//
// In each iteration every unit chooses where its weighted use of the rows is least (softly at
// first, a fraction here and there, harder and harder towards the end), and the weight of a row
// grows with exp(step * use). T is the best bound so far, so the rows' limits tighten as the bound
// grows.
//
// Exact: no; within about 1 % on random problems of 2 to 4 classes. Ends: after a fixed number of
// iterations that depends on the size alone.
// Source: Plotkin, Shmoys, Tardos, Math. Oper. Res. 20(2), 1995, doi:10.1287/moor.20.2.257.
// Differs: soft choices, and keeping the best dual point instead of the average.
#pragma once

#include <vector>

#include "base/units.h"

namespace partita::search {

/// Units times classes.
struct WorkTable {
    std::size_t classes = 0;
    std::vector<int> devices;     ///< per class
    std::vector<Bytes> capacity;  ///< per class
    std::vector<Time> time;       ///< units x classes
    std::vector<Bytes> bytes;     ///< units x classes
    std::vector<char> open;       ///< units x classes: may the unit use the class?

    [[nodiscard]] std::size_t units() const { return classes == 0 ? 0 : time.size() / classes; }
    [[nodiscard]] std::size_t at(std::size_t u, std::size_t c) const { return u * classes + c; }
};

/// Prices per class, all >= 0.
struct DualPrices {
    std::vector<double> time;   ///< w, per ps; not all 0
    std::vector<double> bytes;  ///< z, per byte, in the scale of `time`
};

DualPrices dual_prices(const WorkTable& table);

}  // namespace partita::search
