#include <stddef.h>
#include <string.h>

#include "et_bytes.h"
#include "loader.h"
#include "program_fields.h"

static et_vector plan_values(et_loader *loader) {
    return et_read_vector(&loader->reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
}

uint32_t et_count_tensors(et_loader *loader) {
    et_reader *reader = &loader->reader;
    et_vector values = plan_values(loader);
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < values.count && reader->status == ET_LINK_STATUS_OK; i++) {
        et_table value = et_read_table_at(reader, values, i, "value");
        if (et_read_u8(reader, value, EVALUE_VAL_TYPE, "value type") == KERNEL_TYPES_TENSOR) {
            tensors++;
        }
    }
    return tensors;
}

static void load_list(et_loader *loader, et_table content, uint8_t kind, uint32_t element_size,
                      et_value *value) {
    et_vector items = et_read_vector(&loader->reader, content, VALUE_CONTENT, element_size, "items");
    value->kind = kind;
    value->as.list.items = loader->reader.data + items.at;
    value->as.list.count = items.count;
}

static double load_double(et_reader *reader, et_table content) {
    uint64_t bits = et_read_u64(reader, content, VALUE_CONTENT, "double_val");
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void load_tensor_value(et_loader *loader, et_table content, et_value *value) {
    value->kind = ET_VALUE_TENSOR;
    value->as.tensor = &loader->tensors[loader->tensor_count++];
    et_load_tensor(loader, content, value->as.tensor);
}

static void load_value(et_loader *loader, et_table table, et_value *value) {
    et_reader *reader = &loader->reader;
    uint8_t type = et_read_u8(reader, table, EVALUE_VAL_TYPE, "value type");
    et_table content = et_read_table(reader, table, EVALUE_VAL, "value");
    memset(value, 0, sizeof *value);
    if (content.at == 0 && type > KERNEL_TYPES_NULL) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, table.at, "value", "without content");
        return;
    }
    switch (type) {
    case KERNEL_TYPES_NONE:
    case KERNEL_TYPES_NULL:
        break;
    case KERNEL_TYPES_INT:
        value->kind = ET_VALUE_INT;
        value->as.integer = (int64_t)et_read_u64(reader, content, VALUE_CONTENT, "int_val");
        break;
    case KERNEL_TYPES_BOOL:
        value->kind = ET_VALUE_BOOL;
        value->as.boolean = et_read_u8(reader, content, VALUE_CONTENT, "bool_val") != 0;
        break;
    case KERNEL_TYPES_DOUBLE:
        value->kind = ET_VALUE_DOUBLE;
        value->as.number = load_double(reader, content);
        break;
    case KERNEL_TYPES_TENSOR:
        load_tensor_value(loader, content, value);
        break;
    case KERNEL_TYPES_STRING: {
        et_string text = et_read_string(reader, content, VALUE_CONTENT, "string_val");
        value->kind = ET_VALUE_STRING;
        value->as.string.bytes = text.bytes;
        value->as.string.length = text.length;
        break;
    }
    case KERNEL_TYPES_INT_LIST:
        load_list(loader, content, ET_VALUE_INT_LIST, 8, value);
        break;
    case KERNEL_TYPES_DOUBLE_LIST:
        load_list(loader, content, ET_VALUE_DOUBLE_LIST, 8, value);
        break;
    case KERNEL_TYPES_BOOL_LIST:
        load_list(loader, content, ET_VALUE_BOOL_LIST, 1, value);
        break;
    case KERNEL_TYPES_TENSOR_LIST:
    case KERNEL_TYPES_OPTIONAL_TENSOR_LIST:
        load_list(loader, content, ET_VALUE_TENSOR_LIST, 4, value);
        break;
    default:
        et_reader_fail(reader, ET_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "value", "unknown type");
        break;
    }
}

/* Whether item i of a list of value numbers refers to a value of the right kind. */
static bool item_is_sound(const et_method *method, const et_value *list, uint32_t i) {
    if (list->kind == ET_VALUE_INT_LIST) {
        uint64_t number = et_get_u64(list->as.list.items + 8u * i);
        return number < method->value_count && method->values[number].kind == ET_VALUE_INT;
    }
    uint32_t number = et_get_u32(list->as.list.items + 4u * i);
    return number == UINT32_MAX ||
           (number < method->value_count && method->values[number].kind == ET_VALUE_TENSOR);
}

/* Lists refer to values behind them too, so they are checked when all values are there. */
static void check_list(et_loader *loader, const et_value *list) {
    if (list->kind != ET_VALUE_INT_LIST && list->kind != ET_VALUE_TENSOR_LIST) {
        return;
    }
    for (uint32_t i = 0; i < list->as.list.count; i++) {
        if (!item_is_sound(loader->method, list, i)) {
            uint32_t offset = (uint32_t)(list->as.list.items - loader->reader.data);
            et_reader_fail(&loader->reader, ET_LINK_STATUS_BAD_PROGRAM, offset, "items", "no such value");
            return;
        }
    }
}

void et_load_values(et_loader *loader) {
    et_reader *reader = &loader->reader;
    et_method *method = loader->method;
    et_vector values = plan_values(loader);
    loader->tensor_count = 0;
    for (uint32_t i = 0; i < method->value_count && reader->status == ET_LINK_STATUS_OK; i++) {
        load_value(loader, et_read_table_at(reader, values, i, "value"), &method->values[i]);
    }
    for (uint32_t i = 0; i < method->value_count && reader->status == ET_LINK_STATUS_OK; i++) {
        check_list(loader, &method->values[i]);
    }
}

const uint32_t *et_load_value_numbers(et_loader *loader, et_table table, uint32_t number, const char *field,
                                      uint32_t *count) {
    et_reader *reader = &loader->reader;
    et_vector numbers = et_read_vector(reader, table, number, 4, field);
    const uint8_t *bytes = reader->data + numbers.at;
    if ((uintptr_t)bytes % sizeof(uint32_t) != 0) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, numbers.at, field, "not aligned");
    }
    for (uint32_t i = 0; i < numbers.count; i++) {
        if (et_u32_at(reader, numbers, i) >= loader->method->value_count) {
            et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, numbers.at + 4u * i, field, "no such value");
            break;
        }
    }
    *count = reader->status == ET_LINK_STATUS_OK ? numbers.count : 0;
    return (const uint32_t *)(const void *)bytes;
}
