// SPDX-License-Identifier: Apache-2.0
// What FlatBuffers' own verifier and the code that flatc generates make of a file with one bit flipped, for
// many bits: `reference etdump|program <file>`, told on standard input which bits, one a line; -1 flips none.
// Prints a line for each: "refused", or the CRC-32 of the content, as test_flatbuffers_verifier.py
// packs it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "etdump_schema_flatcc_generated.h"
#include "program_generated.h"

namespace fb = flatbuffers;
namespace et = executorch_flatbuffer;

namespace {

constexpr uint32_t ABSENT = 0xFFFFFFFF;

// Content, packed little-endian without gaps.
class Content {
  public:
    template <typename T> void number(T value) {
        put(&value, sizeof value);
    }
    void real(double value) {
        number(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
    }
    void text(const fb::String *string) {
        number(string ? string->size() : ABSENT);
        if (string) {
            put(string->data(), string->size());
        }
    }
    // An absent one is as an empty one.
    void name(const fb::String *string) {
        number(string ? string->size() : 0U);
        if (string) {
            put(string->data(), string->size());
        }
    }
    void bytes(const fb::Vector<uint8_t> *vector) {
        number(vector ? vector->size() : ABSENT);
        if (vector) {
            put(vector->data(), vector->size());
        }
    }
    // Numbers as 64 bits; absent is as empty.
    template <typename T> void numbers(const fb::Vector<T> *vector) {
        number(vector ? vector->size() : 0U);
        for (fb::uoffset_t i = 0; vector && i < vector->size(); i++) {
            number(int64_t(vector->Get(i)));
        }
    }
    uint32_t crc() const {
        uint32_t crc = 0xFFFFFFFF;
        for (const uint8_t byte : packed_) {
            crc = table()[(crc ^ byte) & 0xFF] ^ crc >> 8;
        }
        return ~crc;
    }

  private:
    std::vector<uint8_t> packed_;

    void put(const void *from, size_t size) {
        const auto *first = static_cast<const uint8_t *>(from);
        packed_.insert(packed_.end(), first, first + size);
    }
    static const std::vector<uint32_t> &table() {
        static const auto made = [] {
            std::vector<uint32_t> entries(256);
            for (uint32_t i = 0; i < 256; i++) {
                entries[i] = i;
                for (int bit = 0; bit < 8; bit++) {
                    entries[i] = entries[i] >> 1 ^ (entries[i] & 1 ? 0xEDB88320 : 0);
                }
            }
            return entries;
        }();
        return made;
    }
};

template <typename T> fb::uoffset_t count(const fb::Vector<T> *vector) {
    return vector ? vector->size() : 0;
}

void put_tensor(Content &content, const etdump::Tensor &tensor) {
    content.number(int8_t(tensor.scalar_type()));
    content.numbers(tensor.sizes());
    content.numbers(tensor.strides());
    content.number(tensor.offset());
}

void put_value(Content &content, const etdump::Value &value) {
    content.number(int8_t(value.val()));
    const uint8_t there = (value.tensor() != nullptr) | (value.tensor_list() != nullptr) << 1 |
                          (value.int_value() != nullptr) << 2 | (value.float_value() != nullptr) << 3 |
                          (value.double_value() != nullptr) << 4 | (value.bool_value() != nullptr) << 5;
    // By type: Null, Int, Bool, Float, Double, Tensor, TensorList, String.
    static const uint8_t fields[] = {0, 4, 32, 8, 16, 1, 2, 0};
    const int8_t type = int8_t(value.val());
    const uint8_t stated = type >= 0 && type < 8 ? fields[type] : 0;
    // Which contents are read: beside that of its type others are unused; alone our reader refuses them.
    const uint8_t used = (there & stated) != 0 ? stated : there;
    content.number(used);
    if (used & 1) {
        put_tensor(content, *value.tensor());
    }
    if (used & 2) {
        const auto *tensors = value.tensor_list()->tensors();
        content.number(count(tensors));
        for (fb::uoffset_t i = 0; i < count(tensors); i++) {
            put_tensor(content, *tensors->Get(i));
        }
    }
    if (used & 4) {
        content.number(value.int_value()->int_val());
    }
    if (used & 8) {
        content.real(value.float_value()->float_val());
    }
    if (used & 16) {
        content.real(value.double_value()->double_val());
    }
    if (used & 32) {
        content.number(uint8_t(value.bool_value()->bool_val()));
    }
    content.number(uint8_t(value.output() ? value.output()->bool_val() : 2));
}

void put_event(Content &content, const etdump::Event &event) {
    content.number(uint8_t((event.profile_event() != nullptr) | (event.allocation_event() != nullptr) << 1 |
                           (event.debug_event() != nullptr) << 2));
    if (const auto *profile = event.profile_event()) {
        content.text(profile->name());
        content.number(int64_t(profile->chain_index()));
        content.number(profile->instruction_id());
        content.number(profile->delegate_debug_id_int());
        content.text(profile->delegate_debug_id_str());
        content.bytes(profile->delegate_debug_metadata());
        content.number(profile->start_time());
        content.number(profile->end_time());
    }
    if (const auto *allocation = event.allocation_event()) {
        content.number(allocation->allocator_id());
        content.number(allocation->allocation_size());
    }
    if (const auto *debug = event.debug_event()) {
        content.text(debug->name());
        content.number(debug->chain_index());
        content.number(debug->instruction_id());
        content.number(debug->delegate_debug_id_int());
        content.text(debug->delegate_debug_id_str());
        content.number(uint8_t(debug->debug_entry() != nullptr));
        if (debug->debug_entry()) {
            put_value(content, *debug->debug_entry());
        }
    }
}

void put_dump(Content &content, const etdump::ETDump &dump) {
    content.number(dump.version());
    content.number(count(dump.run_data()));
    for (fb::uoffset_t i = 0; i < count(dump.run_data()); i++) {
        const auto &run = *dump.run_data()->Get(i);
        content.name(run.name());
        content.number(run.bundled_input_index());
        content.number(count(run.allocators()));
        for (fb::uoffset_t j = 0; j < count(run.allocators()); j++) {
            content.name(run.allocators()->Get(j)->name());
        }
        content.number(count(run.events()));
        for (fb::uoffset_t j = 0; j < count(run.events()); j++) {
            put_event(content, *run.events()->Get(j));
        }
    }
}

void put_list(Content &content, char kind, fb::uoffset_t items) {
    content.number(items ? kind : 'L'); // an empty list is of no type
    content.number(items);
}

template <typename T> void put_numbers(Content &content, const fb::Vector<T> *numbers) {
    put_list(content, 'L', count(numbers));
    for (fb::uoffset_t i = 0; i < count(numbers); i++) {
        content.number(int64_t(numbers->Get(i)));
    }
}

void put_planned(Content &content, const et::Tensor &tensor) {
    const auto *place = tensor.allocation_info();
    const auto *extra = tensor.extra_tensor_info();
    const uint32_t pool = place ? place->memory_id() : 0;
    const bool stored = tensor.data_buffer_idx() > 0;
    const bool external = extra && extra->location() == et::TensorDataLocation::EXTERNAL;
    content.number(int8_t(tensor.scalar_type()));
    content.numbers(tensor.sizes());
    content.numbers(tensor.dim_order());
    content.number(int8_t(tensor.shape_dynamism()));
    content.number(uint8_t((stored || external) && pool == 0));
    content.number(pool);
    content.number(place ? int64_t(uint64_t(place->memory_offset_high()) << 32 | place->memory_offset_low())
                         : int64_t(-1));
    content.number(uint8_t(stored && pool != 0));
    content.name(extra ? extra->fully_qualified_name() : nullptr);
}

void put_evalue(Content &content, const et::EValue &value) {
    if (!value.val()) {
        content.number('?');
        return;
    }
    switch (value.val_type()) {
    case et::KernelTypes::Null:
        content.number('N');
        break;
    case et::KernelTypes::Int:
        content.number('I');
        content.number(value.val_as_Int()->int_val());
        break;
    case et::KernelTypes::Bool:
        content.number('B');
        content.number(uint8_t(value.val_as_Bool()->bool_val()));
        break;
    case et::KernelTypes::Double:
        content.number('D');
        content.real(value.val_as_Double()->double_val());
        break;
    case et::KernelTypes::String:
        content.number('S');
        content.name(value.val_as_String()->string_val());
        break;
    case et::KernelTypes::Tensor:
        content.number('T');
        put_planned(content, *value.val_as_Tensor());
        break;
    case et::KernelTypes::IntList:
        put_numbers(content, value.val_as_IntList()->items());
        break;
    case et::KernelTypes::TensorList:
        put_numbers(content, value.val_as_TensorList()->items());
        break;
    case et::KernelTypes::OptionalTensorList:
        put_numbers(content, value.val_as_OptionalTensorList()->items());
        break;
    case et::KernelTypes::DoubleList: {
        const auto *items = value.val_as_DoubleList()->items();
        put_list(content, 'E', count(items));
        for (fb::uoffset_t i = 0; i < count(items); i++) {
            content.real(items->Get(i));
        }
        break;
    }
    case et::KernelTypes::BoolList: {
        const auto *items = value.val_as_BoolList()->items();
        put_list(content, 'F', count(items));
        for (fb::uoffset_t i = 0; i < count(items); i++) {
            content.number(uint8_t(items->Get(i) != 0));
        }
        break;
    }
    default:
        content.number('?');
    }
}

void put_instruction(Content &content, const et::ExecutionPlan &plan, const et::Instruction &step) {
    content.number(uint8_t(step.instr_args_type()));
    if (!step.instr_args()) {
        content.number('?');
        return;
    }
    if (const auto *call = step.instr_args_as_KernelCall()) {
        content.numbers(call->args()); // which operator it calls comes by name
    } else if (const auto *delegate = step.instr_args_as_DelegateCall()) {
        content.number(delegate->delegate_index());
        content.numbers(delegate->args());
        const auto known = uint32_t(delegate->delegate_index()) < count(plan.delegates());
        content.name(known ? plan.delegates()->Get(fb::uoffset_t(delegate->delegate_index()))->id()
                           : nullptr);
    } else if (const auto *move = step.instr_args_as_MoveCall()) {
        content.number(move->move_from());
        content.number(move->move_to());
    } else if (const auto *jump = step.instr_args_as_JumpFalseCall()) {
        content.number(jump->cond_value_index());
        content.number(jump->destination_instruction());
    } else if (const auto *free = step.instr_args_as_FreeCall()) {
        content.number(free->value_index());
    }
}

// As an instruction calls it: the operator's overload counts only when it has one.
void put_kernel(Content &content, const et::ExecutionPlan &plan, const et::Instruction &step) {
    const auto *call = step.instr_args_as_KernelCall();
    if (!call || uint32_t(call->op_index()) >= count(plan.operators())) {
        return;
    }
    const auto *called = plan.operators()->Get(fb::uoffset_t(call->op_index()));
    std::string name = called->name() ? called->name()->str() : "";
    if (called->overload() && called->overload()->size()) {
        name += "." + called->overload()->str();
    }
    content.number(uint32_t(name.size()));
    for (const char letter : name) {
        content.number(letter);
    }
}

void put_program(Content &content, const et::Program &program) {
    content.number(count(program.execution_plan()));
    for (fb::uoffset_t i = 0; i < count(program.execution_plan()); i++) {
        const auto &plan = *program.execution_plan()->Get(i);
        content.name(plan.name());
        content.number(count(plan.values()));
        for (fb::uoffset_t j = 0; j < count(plan.values()); j++) {
            put_evalue(content, *plan.values()->Get(j));
        }
        content.numbers(plan.inputs());
        content.numbers(plan.outputs());
        content.number(count(plan.chains()));
        for (fb::uoffset_t j = 0; j < count(plan.chains()); j++) {
            const auto *steps = plan.chains()->Get(j)->instructions();
            content.number(count(steps));
            for (fb::uoffset_t k = 0; k < count(steps); k++) {
                put_instruction(content, plan, *steps->Get(k));
                put_kernel(content, plan, *steps->Get(k));
            }
        }
        content.number(count(plan.delegates()));
        for (fb::uoffset_t j = 0; j < count(plan.delegates()); j++) {
            content.name(plan.delegates()->Get(j)->id());
        }
        content.numbers(plan.non_const_buffer_sizes());
    }
}

// The part of a program that is the FlatBuffer, as its extended header says.
size_t program_size(const std::vector<uint8_t> &data) {
    if (data.size() < 24 || std::memcmp(&data[8], "eh00", 4) != 0) {
        return data.size();
    }
    uint64_t size;
    std::memcpy(&size, &data[16], sizeof size);
    return size <= data.size() ? size_t(size) : 0;
}

bool read(bool is_program, const std::vector<uint8_t> &data, Content &content) {
    if (is_program) {
        const size_t size = program_size(data);
        fb::Verifier verifier(data.data(), size);
        if (size == 0 || !et::VerifyProgramBuffer(verifier)) {
            return false;
        }
        put_program(content, *et::GetProgram(data.data()));
        return true;
    }
    fb::Verifier verifier(data.data(), data.size());
    if (!etdump::VerifySizePrefixedETDumpBuffer(verifier)) {
        return false;
    }
    put_dump(content, *etdump::GetSizePrefixedETDump(data.data()));
    return true;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        return EXIT_FAILURE;
    }
    const bool is_program = std::string(argv[1]) == "program";
    std::ifstream file(argv[2], std::ios::binary);
    std::vector<uint8_t> data{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (long long bit; std::cin >> bit;) {
        const auto flip = [&] {
            if (bit >= 0) {
                data.at(size_t(bit / 8)) ^= uint8_t(1 << bit % 8);
            }
        };
        Content content;
        flip();
        if (read(is_program, data, content)) {
            std::printf("%u\n", content.crc());
        } else {
            std::puts("refused");
        }
        flip();
    }
    return EXIT_SUCCESS;
}
