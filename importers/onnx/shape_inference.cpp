// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/shape_inference.h"

#include <map>
#include <stdexcept>

#include "importers/onnx/node_checks.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

namespace {

/// Hands a body of the node to whoever reads graphs, and keeps the types alive for the caller.
class BodyInferencer final : public onnx::GraphInferencer {
public:
    BodyInferencer(std::string attribute, BodyTyper& bodies)
        : attribute_(std::move(attribute)), bodies_(bodies) {}

    std::vector<const onnx::TypeProto*> doInferencing(
        const std::vector<const onnx::TypeProto*>& input_types,
        const std::vector<const onnx::TensorProto*>& /*input_data*/) override {
        types_ = bodies_.body_types(attribute_, input_types);
        std::vector<const onnx::TypeProto*> pointers;
        pointers.reserve(types_.size());
        for (const onnx::TypeProto& type : types_) pointers.push_back(&type);
        return pointers;
    }

private:
    std::string attribute_;
    BodyTyper& bodies_;
    std::vector<onnx::TypeProto> types_;
};

class NodeContext final : public onnx::InferenceContext {
public:
    NodeContext(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                std::span<const InferenceOperand> operands, BodyTyper& bodies,
                std::size_t& elements_read)
        : node_(node),
          schema_(schema),
          operands_(operands),
          bodies_(bodies),
          elements_read_(elements_read),
          data_(operands.size()),
          results_(static_cast<std::size_t>(node.output_size())) {
        for (const auto& attribute : node.attribute()) {
            if (node.op_type() != "Einsum" || attribute.name() != "equation") continue;
            equation_ = attribute;
            equation_.set_s(without_spaces(attribute.s()));
        }
    }

    const onnx::AttributeProto* getAttribute(const std::string& name) const override {
        if (name == "equation" && equation_.has_s()) return &equation_;
        for (const auto& attribute : node_.attribute()) {
            if (attribute.name() == name) return &attribute;
        }
        // Some inference functions forget the default that their schema states (onesided of STFT).
        const auto known = schema_.attributes().find(name);
        const bool has_default =
            known != schema_.attributes().end() &&
            known->second.default_value.type() != onnx::AttributeProto::UNDEFINED;
        return has_default ? &known->second.default_value : nullptr;
    }
    size_t getNumInputs() const override { return operands_.size(); }
    const onnx::TypeProto* getInputType(size_t index) const override {
        const onnx::TypeProto* type = operand(index).type;
        const bool known = type != nullptr && type->value_case() != onnx::TypeProto::VALUE_NOT_SET;
        return known ? type : nullptr;
    }
    bool hasInput(size_t index) const override {
        return index < operands_.size() && operands_[index].given;
    }
    const onnx::TensorProto* getInputData(size_t index) const override {
        const InferenceOperand& given = operand(index);
        if (given.data != nullptr) elements_read_ += given.data->ByteSizeLong();
        if (given.data != nullptr || given.literal == nullptr) return given.data;
        elements_read_ += given.literal->size();
        if (!data_[index]) {
            data_[index] = std::make_unique<onnx::TensorProto>(to_proto(*given.literal));
        }
        return data_[index].get();
    }
    size_t getNumOutputs() const override { return results_.size(); }
    onnx::TypeProto* getOutputType(size_t index) override {
        if (index >= results_.size()) throw std::out_of_range("the node has too few results");
        return &results_[index];
    }
    bool hasOutput(size_t index) override {
        return index < results_.size() && !node_.output(static_cast<int>(index)).empty();
    }
    onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
        auto& inferencer = inferencers_[name];
        if (!inferencer) inferencer = std::make_unique<BodyInferencer>(name, bodies_);
        return inferencer.get();
    }
    const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
    // Partial contents are never needed: what is known is known in full.
    const onnx::TensorShapeProto* getSymbolicInput(size_t) const override { return nullptr; }

    std::vector<onnx::TypeProto> take_results() { return std::move(results_); }

private:
    const InferenceOperand& operand(size_t index) const {
        if (index >= operands_.size()) throw std::out_of_range("the node has too few operands");
        return operands_[index];
    }

    const onnx::NodeProto& node_;
    const onnx::OpSchema& schema_;
    std::span<const InferenceOperand> operands_;
    BodyTyper& bodies_;
    std::size_t& elements_read_;
    onnx::AttributeProto equation_;                                 // Einsum's, without spaces
    mutable std::vector<std::unique_ptr<onnx::TensorProto>> data_;  // made when asked for
    std::vector<onnx::TypeProto> results_;
    std::map<std::string, std::unique_ptr<BodyInferencer>> inferencers_;
};

}  // namespace

std::vector<onnx::TypeProto> infer_types(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                                         std::span<const InferenceOperand> operands,
                                         BodyTyper& bodies, std::size_t& elements_read) {
    NodeContext context(node, schema, operands, bodies, elements_read);
    if (schema.has_type_and_shape_inference_function()) {
        schema.GetTypeAndShapeInferenceFunction()(context);
    }
    return context.take_results();
}

}  // namespace partita::importers
