// SPDX-License-Identifier: Apache-2.0
//
// A trace or a table of operators is InputError or read, and matched with works, whatever it holds.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/traces/traced_works.h"
#include "cost/traces/work_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace partita;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)cost::parse_work_text(text);
    std::vector<cost::MeasuredWork> works(3);
    works[0].signature.text =
        "forward 11 MatMul.13 (float32[8,64], float32[64,32]) -> (float32[8,32])";
    works[1].signature.text = "accumulate float32 256";
    works[2].signature.text = text;
    try {
        const cost::OperatorTimes times = cost::read_operator_times(text, "trace");
        (void)cost::traced_works(works, times);
        for (const cost::OperatorCalls& calls : times.calls) (void)cost::text_of(calls);
    } catch (const InputError&) {
    }
    return 0;
}
