// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "etd_bytes.h"
#include "loader.h"
#include "program_fields.h"

static etd_vector plan_values(etd_loader *loader) {
    return etd_read_vector(&loader->reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
}

uint32_t etd_count_tensors(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_vector values = plan_values(loader);
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < values.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        etd_table value = etd_read_table_at(reader, values, i, "value");
        if (etd_read_u8(reader, value, EVALUE_VAL_TYPE, "value type") == KERNEL_TYPES_TENSOR) {
            tensors++;
        }
    }
    return tensors;
}

static void load_list(etd_loader *loader, etd_table content, uint8_t kind, uint32_t element_size,
                      etd_value *value) {
    etd_vector items = etd_read_vector(&loader->reader, content, VALUE_CONTENT, element_size, "items");
    value->kind = kind;
    value->as.list.items = loader->reader.data + items.at;
    value->as.list.count = items.count;
}

static double load_double(etd_reader *reader, etd_table content) {
    uint64_t bits = etd_read_u64(reader, content, VALUE_CONTENT, "double_val");
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void load_tensor_value(etd_loader *loader, etd_table content, etd_value *value) {
    value->kind = ETD_VALUE_TENSOR;
    value->as.tensor = &loader->tensors[loader->tensor_count++];
    etd_load_tensor(loader, content, value->as.tensor);
}

static void load_value(etd_loader *loader, etd_table table, etd_value *value) {
    etd_reader *reader = &loader->reader;
    uint8_t type = etd_read_u8(reader, table, EVALUE_VAL_TYPE, "value type");
    etd_table content = etd_read_table(reader, table, EVALUE_VAL, "value");
    memset(value, 0, sizeof *value);
    if (content.at == 0 && type > KERNEL_TYPES_NULL) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "value", "missing content");
        return;
    }
    switch (type) {
    case KERNEL_TYPES_NONE:
    case KERNEL_TYPES_NULL:
        break;
    case KERNEL_TYPES_INT:
        value->kind = ETD_VALUE_INT;
        value->as.integer = (int64_t)etd_read_u64(reader, content, VALUE_CONTENT, "int_val");
        break;
    case KERNEL_TYPES_BOOL:
        value->kind = ETD_VALUE_BOOL;
        value->as.boolean = etd_read_u8(reader, content, VALUE_CONTENT, "bool_val") != 0;
        break;
    case KERNEL_TYPES_DOUBLE:
        value->kind = ETD_VALUE_DOUBLE;
        value->as.number = load_double(reader, content);
        break;
    case KERNEL_TYPES_TENSOR:
        load_tensor_value(loader, content, value);
        break;
    case KERNEL_TYPES_STRING: {
        etd_string text = etd_read_string(reader, content, VALUE_CONTENT, "string_val");
        value->kind = ETD_VALUE_STRING;
        value->as.string.bytes = text.bytes;
        value->as.string.length = text.length;
        break;
    }
    case KERNEL_TYPES_INT_LIST:
        load_list(loader, content, ETD_VALUE_INT_LIST, 8, value);
        break;
    case KERNEL_TYPES_DOUBLE_LIST:
        load_list(loader, content, ETD_VALUE_DOUBLE_LIST, 8, value);
        break;
    case KERNEL_TYPES_BOOL_LIST:
        load_list(loader, content, ETD_VALUE_BOOL_LIST, 1, value);
        break;
    case KERNEL_TYPES_TENSOR_LIST:
    case KERNEL_TYPES_OPTIONAL_TENSOR_LIST:
        load_list(loader, content, ETD_VALUE_TENSOR_LIST, 4, value);
        break;
    default:
        etd_reader_fail(reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "value", "unknown type");
        break;
    }
}

/* Returns true if item i of a list refers to a value of the right type. */
static bool is_item_valid(const etd_method *method, const etd_value *list, uint32_t i) {
    if (list->kind == ETD_VALUE_INT_LIST) {
        uint64_t number = etd_get_u64(list->as.list.items + 8u * i);
        return number < method->value_count && method->values[number].kind == ETD_VALUE_INT;
    }
    uint32_t number = etd_get_u32(list->as.list.items + 4u * i);
    return number == UINT32_MAX ||
           (number < method->value_count && method->values[number].kind == ETD_VALUE_TENSOR);
}

/* Lists may refer to later values, so they are checked after all values are loaded. */
static void check_list(etd_loader *loader, const etd_value *list) {
    if (list->kind != ETD_VALUE_INT_LIST && list->kind != ETD_VALUE_TENSOR_LIST) {
        return;
    }
    for (uint32_t i = 0; i < list->as.list.count; i++) {
        if (!is_item_valid(loader->method, list, i)) {
            uint32_t offset = (uint32_t)(list->as.list.items - loader->reader.data);
            etd_reader_fail(&loader->reader, ETD_LINK_STATUS_BAD_PROGRAM, offset, "items", "no such value");
            return;
        }
    }
}

void etd_load_values(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_method *method = loader->method;
    etd_vector values = plan_values(loader);
    loader->tensor_count = 0;
    for (uint32_t i = 0; i < method->value_count && reader->status == ETD_LINK_STATUS_OK; i++) {
        load_value(loader, etd_read_table_at(reader, values, i, "value"), &method->values[i]);
    }
    for (uint32_t i = 0; i < method->value_count && reader->status == ETD_LINK_STATUS_OK; i++) {
        check_list(loader, &method->values[i]);
    }
}

const uint32_t *etd_load_value_numbers(etd_loader *loader, etd_table table, uint32_t number,
                                       const char *field, uint32_t *count) {
    etd_reader *reader = &loader->reader;
    etd_vector numbers = etd_read_vector(reader, table, number, 4, field);
    const uint8_t *bytes = reader->data + numbers.at;
    if ((uintptr_t)bytes % sizeof(uint32_t) != 0) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, numbers.at, field, "not aligned");
    }
    for (uint32_t i = 0; i < numbers.count; i++) {
        if (etd_u32_at(reader, numbers, i) >= loader->method->value_count) {
            etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, numbers.at + 4u * i, field, "no such value");
            break;
        }
    }
    *count = reader->status == ETD_LINK_STATUS_OK ? numbers.count : 0;
    return (const uint32_t *)(const void *)bytes;
}
