// SPDX-License-Identifier: Apache-2.0
#include "cost/work_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "graph/dtype.h"

namespace partita::cost {

namespace {

/// Of one family whether or not other cores are at work: neighbours that were measured otherwise
/// say more than a roofline.
WorkSignature signature_of(const std::string& prefix, const graph::PartSignature& part,
                           int beside) {
    WorkSignature signature{.family = prefix + part.family, .text = prefix + part.text};
    if (beside > 0) signature.text += fmt::format(" beside {}", beside);
    return signature;
}

std::string digits_of(std::span<const char> wanted) {
    std::string digits;
    for (const char operand : wanted) digits += operand != 0 ? '1' : '0';
    return digits;
}

}  // namespace

WorkSignature forward_signature(const graph::PartSignature& part, std::span<const char> wanted,
                                int beside) {
    const bool none = std::ranges::all_of(wanted, [](char operand) { return operand == 0; });
    return signature_of(none ? "forward " : "forward " + digits_of(wanted) + ' ', part, beside);
}

WorkSignature backward_signature(const graph::PartSignature& part, std::span<const char> wanted,
                                 int beside) {
    return signature_of("backward " + digits_of(wanted) + ' ', part, beside);
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
