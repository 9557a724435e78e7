// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <array>
#include <new>

#include <openssl/evp.h>

namespace partita {

// Small pieces are gathered first: a call into libcrypto costs more than hashing a number does.
struct Sha256::State {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    std::string pending;

    State() {
        if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1) {
            EVP_MD_CTX_free(context);
            throw std::bad_alloc();
        }
    }
    ~State() { EVP_MD_CTX_free(context); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void feed(std::string_view bytes) {
        pending.append(bytes);
        if (pending.size() >= 4096) flush();
    }
    void flush() {
        EVP_DigestUpdate(context, pending.data(), pending.size());
        pending.clear();
    }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    state_->feed(text);
    return *this;
}

Sha256& Sha256::add(std::int64_t number) {
    std::array<char, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff);
    }
    state_->feed({bytes.data(), bytes.size()});
    return *this;
}

std::string Sha256::finish() {
    state_->flush();
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(state_->context, hash.data(), &size);
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
        text += kDigits[hash[i] >> 4];
        text += kDigits[hash[i] & 15];
    }
    return text;
}

}  // namespace partita
