// SPDX-License-Identifier: Apache-2.0
#include "search/support/random.h"

#include <bit>
#include <cassert>

namespace partita::search {

namespace {

__extension__ typedef unsigned __int128 UInt128;

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t mix(std::uint64_t word) {
    word += kGolden;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

Random::Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
        word = mix(seed);
        seed += kGolden;
    }
}

Random Random::stream(std::uint64_t seed, std::uint64_t index) {
    return Random(mix(seed) ^ mix(mix(index)));
}

std::uint64_t Random::next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
    assert(bound >= 1);
    // The high half of a product is uniform once the low halves that occur once too often are
    // drawn again; 2^64 mod bound of them.
    UInt128 product = static_cast<UInt128>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
        const std::uint64_t surplus = (0 - bound) % bound;
        while (static_cast<std::uint64_t>(product) < surplus) {
            product = static_cast<UInt128>(next()) * bound;
        }
    }
    return static_cast<std::uint64_t>(product >> 64);
}

double Random::uniform() {
    return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

}  // namespace partita::search
