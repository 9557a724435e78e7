// SPDX-License-Identifier: Apache-2.0
//
// Strict reading of JSON files. A JsonField is a value that knows its place, so that every error
// names it:
//
//     lab.json: links[3].bandwidth: expected a number of bytes/s > 0, got "300 GB/s".
//     Write 300000000000.
//
// Refused while parsing: broken syntax, a name twice in one object, more than 32 levels, numbers
// beyond a double. What is built takes a small multiple of the text's size.
//
// A missing field is a JsonField too ("got nothing"), so that reading it says what was expected.
// Fields point into their JsonFile and must not outlive it. Threads: const access from any number.
// Errors: InputError only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partita {

struct JsonNode;

/// For error messages: what a field must be, and what to do when it is not.
struct JsonExpectation {
    std::string_view what;         ///< "a number of bytes/s > 0"
    std::string_view remedy = {};  ///< a sentence, "Write 300000000000."; empty: what read() adds
};

class JsonField {
public:
    [[nodiscard]] bool present() const { return node_ != nullptr; }
    [[nodiscard]] bool is_null() const;
    [[nodiscard]] bool is_text() const;
    [[nodiscard]] bool is_number() const;
    [[nodiscard]] bool is_object() const;

    /// The member `key` of an object, present or not. Throws when this is no object.
    [[nodiscard]] JsonField operator[](std::string_view key) const;
    /// Names of the members of an object, sorted.
    [[nodiscard]] std::vector<std::string> keys() const;
    /// Throws when an object has a member in neither list.
    void allow_only(std::initializer_list<std::string_view> known,
                    std::span<const std::string_view> more = {}) const;

    /// The elements of an array.
    [[nodiscard]] std::vector<JsonField> items() const;

    /// A whole number in [least, most]; 3e9 counts as one.
    [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most,
                                       const JsonExpectation& expected) const;
    /// A finite number in [least, most].
    [[nodiscard]] double number(double least, double most, const JsonExpectation& expected) const;
    /// `most_characters` bytes at most.
    [[nodiscard]] std::string text(const JsonExpectation& expected,
                                   std::size_t most_characters = 1'000) const;
    [[nodiscard]] bool boolean() const;

    /// Throws "<file>: <place>: expected <what>, got <this value>. <remedy>".
    [[noreturn]] void fail(const JsonExpectation& expected) const;
    /// Throws "<file>: <place>: <message>".
    [[noreturn]] void reject(std::string_view message) const;

    /// The same value with " note" behind its place: "nodes[3] (id 7)".
    [[nodiscard]] JsonField called(std::string_view note) const;

    /// "links[3].bandwidth"; empty at the root.
    [[nodiscard]] const std::string& place() const { return place_; }

private:
    friend class JsonFile;
    JsonField(const JsonNode* node, std::string place, const std::string* file)
        : node_(node), place_(std::move(place)), file_(file) {}

    const JsonNode* node_;  ///< null: missing
    std::string place_;
    const std::string* file_;
};

class JsonFile {
public:
    /// `name` stands in front of every message.
    JsonFile(std::string_view text, std::string name);
    ~JsonFile();
    JsonFile(const JsonFile&) = delete;
    JsonFile& operator=(const JsonFile&) = delete;

    [[nodiscard]] JsonField root() const;

private:
    std::string name_;
    std::unique_ptr<const JsonNode> root_;
};

/// A JSON string literal with its quotes. `text` should be UTF-8; other bytes are replaced.
std::string json_quoted(std::string_view text);

/// The shortest JSON number that reads back as `value`, which must be finite.
std::string json_number(double value);

}  // namespace partita
