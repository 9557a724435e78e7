// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) of what is fed to it, by OpenSSL's libcrypto. Digests tie a plan to its
// model, machine, costs and task graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace partita {

class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    /// Lengths are fed too, so that ("ab", "c") and ("a", "bc") differ.
    Sha256& add(std::string_view text);
    Sha256& add(std::int64_t number);  ///< as 8 little-endian bytes

    /// 64 lower-case hexadecimal digits. Ends the computation.
    [[nodiscard]] std::string finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace partita
