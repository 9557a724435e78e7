// SPDX-License-Identifier: Apache-2.0
#include "rl/policy_file.h"

#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "plan/files/plan_file.h"
#include "rl/walk.h"

namespace partita::rl {

using torch::Tensor;

namespace {

constexpr std::string_view kFirstLine = "partita-policy 2\n";
constexpr std::string_view kDigest = "digest ";
constexpr std::string_view kWeights = "weights\n";
constexpr std::int64_t kMostHidden = 1'024;
constexpr std::int64_t kMostGroups = 1'024;

std::string digest_of(std::string_view body) {
    return Sha256().add(body).finish();
}

std::string shape_text(const Tensor& tensor) {
    std::string text;
    for (const std::int64_t extent : tensor.sizes()) text += " " + std::to_string(extent);
    return text;
}

class Reader {
public:
    Reader(const std::filesystem::path& file, std::string_view text) : file_(file), left_(text) {}

    [[noreturn]] void fail(const std::string& why) const {
        throw InputError(file_.string() + ": " + why +
                         " Give a file that --save-policy of this version wrote.");
    }
    std::string_view line() {
        const std::size_t end = left_.find('\n');
        if (end == std::string_view::npos) fail("the policy ends too early.");
        const std::string_view line = left_.substr(0, end);
        left_.remove_prefix(end + 1);
        return line;
    }
    /// The number after `name`, from `low` to `high`.
    std::int64_t number(std::string_view name, std::int64_t low, std::int64_t high) {
        const std::string text(line());
        std::istringstream words(text);
        std::string word;
        std::int64_t value = 0;
        std::string rest;
        if (!(words >> word >> value) || word != name || (words >> rest)) {
            fail("expected '" + std::string(name) + " N', found '" + text + "'.");
        }
        if (value < low || value > high) {
            fail(std::string(name) + " " + std::to_string(value) + " is out of range.");
        }
        return value;
    }
    [[nodiscard]] std::string_view left() const { return left_; }

private:
    const std::filesystem::path& file_;
    std::string_view left_;
};

/// Everything after the line of the digest, which it must have.
std::string_view checked_body(const std::filesystem::path& file, std::string_view text) {
    Reader reader(file, text);
    if (!text.starts_with(kFirstLine)) reader.fail("this is no policy of this version.");
    static_cast<void>(reader.line());
    const std::string_view digest = reader.line();
    if (!digest.starts_with(kDigest) || digest.substr(kDigest.size()) != digest_of(reader.left())) {
        reader.fail("the policy is corrupt: its digest does not match.");
    }
    return reader.left();
}

NetOptions read_options(Reader& reader) {
    constexpr std::int64_t kMostVersions = 1'000'000;
    const std::int64_t version = reader.number("features", 0, kMostVersions);
    if (version != kFeatureVersion) {
        reader.fail("its features have version " + std::to_string(version) + ", here they have " +
                    std::to_string(kFeatureVersion) + ".");
    }
    NetOptions options;
    options.hidden = reader.number("hidden", 2, kMostHidden);
    options.groups = reader.number("groups", 0, kMostGroups);
    if (options.hidden % 2 != 0) reader.fail("hidden is odd.");
    return options;
}

}  // namespace

void write_policy(const std::filesystem::path& file, const PolicyNet& net) {
    std::string body = "features " + std::to_string(kFeatureVersion) + "\nhidden " +
                       std::to_string(net.options().hidden) + "\ngroups " +
                       std::to_string(net.options().groups) + "\n";
    std::string weights;
    for (const auto& named : net.named_parameters()) {
        const Tensor tensor = named.value().detach().contiguous();
        body += "tensor " + named.key() + shape_text(tensor) + "\n";
        weights.append(reinterpret_cast<const char*>(tensor.const_data_ptr<float>()),
                       static_cast<std::size_t>(tensor.numel()) * sizeof(float));
    }
    body += std::string(kWeights) + weights;
    write_file(file,
               std::string(kFirstLine) + std::string(kDigest) + digest_of(body) + "\n" + body);
}

std::shared_ptr<PolicyNet> read_policy(const std::filesystem::path& file) {
    return parse_policy(read_text_file(file), file);
}

std::shared_ptr<PolicyNet> parse_policy(std::string_view text, const std::filesystem::path& file) {
    Reader reader(file, checked_body(file, text));
    auto net = std::make_shared<PolicyNet>(read_options(reader));
    const at::NoGradGuard no_grad;
    const auto parameters = net->named_parameters();
    std::size_t bytes = 0;
    for (const auto& named : parameters) {
        const std::string expected = "tensor " + named.key() + shape_text(named.value());
        const std::string found(reader.line());
        if (found != expected) reader.fail("expected '" + expected + "', found '" + found + "'.");
        bytes += static_cast<std::size_t>(named.value().numel()) * sizeof(float);
    }
    if (reader.line() != kWeights.substr(0, kWeights.size() - 1))
        reader.fail("expected 'weights'.");
    if (reader.left().size() != bytes) reader.fail("the weights are of another size.");
    const char* at = reader.left().data();
    for (const auto& named : parameters) {
        const std::size_t size = static_cast<std::size_t>(named.value().numel()) * sizeof(float);
        std::memcpy(named.value().mutable_data_ptr<float>(), at, size);
        at += size;
        if (!named.value().isfinite().all().item<bool>()) {
            reader.fail(named.key() + " holds numbers that are not finite.");
        }
    }
    return net;
}

}  // namespace partita::rl
