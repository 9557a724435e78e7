// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/communicate/conformance.h"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace partita::runtime {
namespace {

using graph::Combine;

constexpr std::array kTypes = {
    at::kByte,
    at::kChar,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kHalf,
    at::kFloat,
    at::kDouble,
    at::kComplexHalf,
    at::kComplexFloat,
    at::kComplexDouble,
    at::kBool,
    at::kBFloat16,
    at::kUInt16,
    at::kUInt32,
    at::kUInt64,
    at::kFloat8_e4m3fn,
    at::kFloat8_e5m2,
    at::kFloat8_e4m3fnuz,
    at::kFloat8_e5m2fnuz,
    at::kFloat8_e8m0fnu,
    at::kFloat4_e2m1fn_x2,
};
constexpr std::array<std::int64_t, 4> kLengths = {0, 1, 7, 40'003};
constexpr std::int64_t kLong = 1'000;  // above, two types suffice: slow to check

// Any bytes that differ by seed; as numbers they need not make sense.
at::Tensor pattern(at::ScalarType type, std::int64_t count, int seed) {
    at::Tensor tensor = at::empty({count}, type);
    auto* const bytes = static_cast<unsigned char*>(tensor.data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
        const unsigned value = (seed * 2654435761U + static_cast<unsigned>(i) * 40503U) >> 7U;
        bytes[i] = static_cast<unsigned char>(type == at::kBool ? value & 1U : value);
    }
    return tensor;
}

void expect_same(const at::Tensor& got, const at::Tensor& expected, std::string_view what) {
    ASSERT_EQ(got.nbytes(), expected.nbytes()) << what;
    if (got.nbytes() == 0) return;
    EXPECT_EQ(std::memcmp(got.data_ptr(), expected.data_ptr(), got.nbytes()), 0)
        << what << ' ' << c10::toString(got.scalar_type()) << " of " << got.numel();
}

// Uneven: rank 1 has nothing, and the others differ.
std::vector<std::int64_t> uneven_counts(int ranks) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank == 1 ? 0 : 5 + 3 * rank);
    return counts;
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += count;
    return sum;
}

at::Tensor all_parts(at::ScalarType type, const std::vector<std::int64_t>& counts, int seed) {
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        parts.push_back(pattern(at::kByte, counts[rank] * c10::elementSize(type),
                                seed + static_cast<int>(rank)));
        if (type == at::kBool)
            parts.back() =
                pattern(type, counts[rank], seed + static_cast<int>(rank)).view(at::kByte);
    }
    const at::Tensor bytes = at::cat(parts);
    at::Tensor whole = at::empty({sum_of(counts)}, type);
    if (whole.nbytes() > 0) std::memcpy(whole.data_ptr(), bytes.data_ptr(), whole.nbytes());
    return whole;
}

void moves_between_neighbours(Communicator& c, at::ScalarType type) {
    const int next = (c.rank() + 1) % c.size();
    const int before = (c.rank() + c.size() - 1) % c.size();
    if (c.size() == 1) return;
    for (const std::int64_t length : kLengths) {
        const at::Tensor in = pattern(type, length, -1);
        c.exchange(pattern(type, length, c.rank()), next, in, before);
        expect_same(in, pattern(type, length, before), "exchange");
    }
    // In a chain, so that nobody waits in a circle.
    const at::Tensor baton = pattern(type, 7, 0);
    if (c.rank() > 0) c.receive(baton, before);
    if (c.rank() + 1 < c.size()) c.send(pattern(type, 7, c.rank() + 1), next);
    expect_same(baton, pattern(type, 7, c.rank()), "send and receive");
}

void matches_several_messages_in_order(Communicator& c, at::ScalarType type) {
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (int round = 0; round < 3; ++round) {
        for (int peer = 0; peer < c.size(); ++peer) {
            if (peer == c.rank()) continue;
            sends.push_back({pattern(type, 3 + round, 100 * c.rank() + 10 * peer + round), peer});
            receives.push_back({pattern(type, 3 + round, -1), peer});
        }
    }
    c.transfer(sends, receives);
    for (std::size_t i = 0; i < receives.size(); ++i) {
        const int round = static_cast<int>(i) / (c.size() - 1);
        const int seed = 100 * receives[i].peer + 10 * c.rank() + round;
        expect_same(receives[i].tensor, pattern(type, 3 + round, seed), "transfer");
    }
}

void broadcasts(Communicator& c, at::ScalarType type) {
    for (const std::int64_t length : kLengths) {
        for (int root = 0; root < c.size(); ++root) {
            const at::Tensor tensor = pattern(type, length, c.rank());
            c.broadcast(tensor, root);
            expect_same(tensor, pattern(type, length, root), "broadcast");
        }
    }
}

void scatters_and_gathers(Communicator& c, at::ScalarType type) {
    const std::vector<std::int64_t> counts = uneven_counts(c.size());
    const std::int64_t own = counts[c.rank()];
    for (int root = 0; root < c.size(); ++root) {
        const bool is_root = c.rank() == root;
        const at::Tensor whole = is_root ? all_parts(type, counts, root) : at::Tensor();
        const at::Tensor part = pattern(type, own, -1);
        c.scatter(part, whole, counts, root);
        expect_same(part, pattern(type, own, root + c.rank()), "scatter");

        const at::Tensor back = is_root ? pattern(type, sum_of(counts), -1) : at::Tensor();
        c.gather(back, part, counts, root);
        if (is_root) expect_same(back, whole, "gather");
    }
}

void gathers_everywhere(Communicator& c, at::ScalarType type) {
    const std::vector<std::int64_t> counts = uneven_counts(c.size());
    const at::Tensor expected = all_parts(type, counts, 3);
    const at::Tensor out = pattern(type, sum_of(counts), -1);
    c.all_gather(out, pattern(type, counts[c.rank()], 3 + c.rank()), counts);
    expect_same(out, expected, "all-gather");
}

// Rank s sends r + 2 s elements to rank r.
void exchanges_all_with_all(Communicator& c, at::ScalarType type) {
    std::vector<std::int64_t> in_counts;
    std::vector<std::int64_t> out_counts;
    for (int peer = 0; peer < c.size(); ++peer) {
        in_counts.push_back(peer + 2 * c.rank());
        out_counts.push_back(c.rank() + 2 * peer);
    }
    const at::Tensor in = all_parts(type, in_counts, 50 * c.rank());
    const at::Tensor out = pattern(type, sum_of(out_counts), -1);
    c.all_to_all(out, out_counts, in, in_counts);
    std::int64_t begin = 0;
    for (int peer = 0; peer < c.size(); ++peer) {
        expect_same(out.narrow(0, begin, out_counts[peer]),
                    pattern(type, out_counts[peer], 50 * peer + c.rank()), "all-to-all");
        begin += out_counts[peer];
    }
}

// Small numbers; their sums and products stay in the range of every type.
double value(at::ScalarType type, Combine how, int rank, std::int64_t index) {
    if (type == at::kBool) return (rank + index) % 3 == 0 ? 1 : 0;
    if (how == Combine::product) return (rank + index) % 4 == 0 ? 2 : 1;
    const auto positive = static_cast<double>((5 * rank + 3 * index) % 7);
    const bool is_signed = c10::isSignedType(type) && type != at::kFloat8_e8m0fnu;
    return is_signed ? positive - 3 : positive;
}

double combined(Combine how, double a, double b) {
    switch (how) {
    case Combine::sum: return a + b;
    case Combine::product: return a * b;
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    case Combine::log_sum_exp: return std::log(std::exp(a) + std::exp(b));
    case Combine::none: break;
    }
    return 0;
}

at::Tensor tensor_of(at::ScalarType type, std::int64_t count,
                     const std::function<double(std::int64_t)>& value_at) {
    const at::Tensor tensor = at::empty({count}, at::kFloat);
    for (std::int64_t i = 0; i < count; ++i) {
        tensor.data_ptr<float>()[i] = static_cast<float>(value_at(i));
    }
    return tensor.to(type);
}

at::Tensor values(at::ScalarType type, Combine how, int rank, std::int64_t count) {
    return tensor_of(type, count, [&](std::int64_t i) { return value(type, how, rank, i); });
}

// Of what the ranks have after it was rounded to the type.
at::Tensor all_values(at::ScalarType type, Combine how, int ranks, std::int64_t count) {
    std::vector<at::Tensor> given;
    for (int rank = 0; rank < ranks; ++rank) {
        given.push_back(
            at::real(values(type, how, rank, count).to(at::kComplexDouble)).contiguous());
    }
    return tensor_of(type, count, [&](std::int64_t i) {
        double result = given[0].data_ptr<double>()[i];
        for (int rank = 1; rank < ranks; ++rank) {
            result = combined(how, result, given[rank].data_ptr<double>()[i]);
        }
        return result;
    });
}

bool can_combine(at::ScalarType type, Combine how) {
    if (type == at::kFloat4_e2m1fn_x2) return false;
    return !c10::isComplexType(type) || how == Combine::sum || how == Combine::product;
}

constexpr std::array kCombines = {Combine::sum, Combine::max, Combine::min, Combine::product};

using Reducing = std::function<void(const at::Tensor&, Combine)>;

void check_all_reduce_of(Communicator& c, at::ScalarType type, const Reducing& all_reduce) {
    for (const Combine how : kCombines) {
        if (!can_combine(type, how)) continue;
        for (const std::int64_t length : kLengths) {
            if (length > kLong && type != at::kFloat && type != at::kHalf) continue;
            const at::Tensor tensor = values(type, how, c.rank(), length);
            all_reduce(tensor, how);
            expect_same(tensor, all_values(type, how, c.size(), length), "all-reduce");
        }
    }
}

void all_reduces(Communicator& c, at::ScalarType type) {
    check_all_reduce_of(c, type,
                        [&](const at::Tensor& tensor, Combine how) { c.all_reduce(tensor, how); });
}

void reduces_to_parts(Communicator& c, at::ScalarType type) {
    const std::vector<std::int64_t> counts = uneven_counts(c.size());
    std::int64_t begin = 0;
    for (int rank = 0; rank < c.rank(); ++rank) begin += counts[rank];
    for (const Combine how : kCombines) {
        if (!can_combine(type, how)) continue;
        const at::Tensor in = values(type, how, c.rank(), sum_of(counts));
        const at::Tensor before = in.clone();
        const at::Tensor out = pattern(type, counts[c.rank()], 0);
        c.reduce_scatter(out, in, counts, how);
        const at::Tensor all = all_values(type, how, c.size(), sum_of(counts));
        expect_same(out, all.narrow(0, begin, counts[c.rank()]), "reduce-scatter");
        expect_same(in, before, "reduce-scatter's input");

        const at::Tensor own = in.narrow(0, begin, counts[c.rank()]);
        c.reduce_scatter(own, in, counts, how);
        expect_same(own, out, "reduce-scatter in place");
    }
}

void reduces_to_a_root(Communicator& c, at::ScalarType type) {
    for (const Combine how : kCombines) {
        if (!can_combine(type, how)) continue;
        for (int root = 0; root < c.size(); ++root) {
            const at::Tensor tensor = values(type, how, c.rank(), 19);
            const at::Tensor before = tensor.clone();
            c.reduce(tensor, how, root);
            const bool is_root = c.rank() == root;
            expect_same(tensor, is_root ? all_values(type, how, c.size(), 19) : before, "reduce");
        }
    }
}

// 2048 + 1 rounds to 2048 in half precision: added one by one, nothing would remain of the ones.
void rounds_sums_once(Communicator& c, at::ScalarType type) {
    if (type != at::kHalf) return;
    const at::Tensor tensor = at::full({7}, c.rank() == 0 ? 2048 : 1, type);
    c.all_reduce(tensor, Combine::sum);
    expect_same(tensor, at::full({7}, 2047 + c.size(), at::kFloat).to(type), "all-reduce");
}

// Of sums of exponentials; rank 0 has some of nothing.
void combines_logarithms(Communicator& c, at::ScalarType type) {
    if (type != at::kFloat && type != at::kDouble && type != at::kHalf) return;
    const auto of = [type](int rank) {
        const at::Tensor tensor = values(type, Combine::log_sum_exp, rank, 19);
        const double nothing = -std::numeric_limits<double>::infinity();
        return rank == 0 ? tensor.masked_fill(tensor.gt(1), nothing) : tensor;
    };
    at::Tensor expected = of(0).to(at::kDouble);
    for (int rank = 1; rank < c.size(); ++rank) {
        expected = at::logaddexp(expected, of(rank).to(at::kDouble));
    }
    const at::Tensor tensor = of(c.rank());
    c.all_reduce(tensor, Combine::log_sum_exp);
    EXPECT_TRUE(at::allclose(tensor.to(at::kDouble), expected, type == at::kHalf ? 2e-3 : 1e-6))
        << tensor << expected;
}

void meets_at_a_barrier(Communicator& c, at::ScalarType /*type*/) {
    c.barrier();
    c.barrier();
    c.wait();
}

constexpr std::array kChecks = {
    Conformance{"MovesBetweenNeighbours", moves_between_neighbours},
    Conformance{"MatchesSeveralMessagesInOrder", matches_several_messages_in_order},
    Conformance{"Broadcasts", broadcasts},
    Conformance{"ScattersAndGathers", scatters_and_gathers},
    Conformance{"GathersEverywhere", gathers_everywhere},
    Conformance{"ExchangesAllWithAll", exchanges_all_with_all},
    Conformance{"AllReduces", all_reduces},
    Conformance{"ReducesToParts", reduces_to_parts},
    Conformance{"ReducesToARoot", reduces_to_a_root},
    Conformance{"RoundsSumsOnce", rounds_sums_once},
    Conformance{"CombinesLogarithms", combines_logarithms},
    Conformance{"MeetsAtABarrier", meets_at_a_barrier},
};

}  // namespace

std::span<const Conformance> conformance_checks() {
    return kChecks;
}

std::span<const at::ScalarType> all_types() {
    return kTypes;
}

void check_all_reduce(Communicator& communicator, const Reducing& all_reduce) {
    for (const at::ScalarType type : kTypes) {
        check_all_reduce_of(communicator, type, all_reduce);
    }
}

void check_conformance(Communicator& communicator, const Conformance& row) {
    for (const at::ScalarType type : kTypes) {
        communicator.set_label(c10::toString(type));
        row.check(communicator, type);
        if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace partita::runtime
