// SPDX-License-Identifier: Apache-2.0
//
// Queues of the smallest in a vector: the algorithms of the standard library keep the largest on
// top.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

namespace partita {

template <class T>
void push_min(std::vector<T>& heap, const T& item) {
    heap.push_back(item);
    std::push_heap(heap.begin(), heap.end(), std::greater<>{});
}

/// The smallest; `heap` must not be empty.
template <class T>
T pop_min(std::vector<T>& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    const T top = heap.back();
    heap.pop_back();
    return top;
}

}  // namespace partita
