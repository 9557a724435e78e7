// SPDX-License-Identifier: Apache-2.0
#include "cost/work_signature.h"

#include <fmt/format.h>

#include <cassert>

#include "graph/dtype.h"

namespace partita::cost {

namespace {

WorkSignature with_prefix(const std::string& prefix, const graph::PartSignature& part) {
    return {.family = prefix + part.family, .text = prefix + part.text};
}

}  // namespace

WorkSignature forward_signature(const graph::PartSignature& part) {
    return with_prefix("forward ", part);
}

WorkSignature backward_signature(const graph::PartSignature& part, std::span<const char> wanted) {
    std::string prefix = "backward ";
    for (const char operand : wanted) prefix += operand != 0 ? '1' : '0';
    return with_prefix(prefix + ' ', part);
}

WorkSignature element_signature(const Work& work) {
    assert(work.elements >= 0);
    std::string family(work.phase == Phase::backward ? "loss" : name_of(work.phase));
    for (const std::string_view word : {work.variant, name_of(work.dtype)}) {
        if (!word.empty()) family.append(1, ' ').append(word);
    }
    std::string text = fmt::format("{} {}", family, work.elements);
    return {.family = std::move(family), .text = std::move(text)};
}

}  // namespace partita::cost
