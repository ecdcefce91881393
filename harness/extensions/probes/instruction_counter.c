/* A plugin of QEMU's translator that counts executed instructions at chosen code addresses.
 *
 * Arguments: spec=FILE,out=FILE. A line of the specification is
 *
 *     range SET BEGIN END     code of a function, or a piece of it; a set has one or more ranges
 *     point ADDRESS           an instruction
 *
 * with addresses in hexadecimal and sets numbered from 0. The output has records of 16 bytes. For a
 * set it tells when control comes in and when it goes out, whichever way, for a point each time
 * that it is executed. Counts are of instructions executed before: of all cores together.
 *
 * Debian's QEMU ships no header for plugins, so that what is used of version 1 of the interface
 * (docs/devel/tcg-plugins.rst of QEMU) is declared here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info {
    const char *target_name;
};

int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_atexit_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn *, void (*)(unsigned, void *), int flags, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn *, int operation, void *counter, uint64_t value);

enum { ENTER = 1, LEAVE = 2, RETURN = 3, POINT = 4 };
enum { MOST_SETS = 4096, MOST_RANGES = 8192, MOST_POINTS = 8192 };

struct record {
    uint64_t count;
    uint32_t address;
    uint32_t kind_and_set; /* the kind in the lowest 8 bits */
};

struct range {
    uint32_t begin, end;
    unsigned set;
};

/* Where control was last in a set: the instruction, and the count before it. */
struct set {
    uint64_t count;
    uint32_t address;
    bool inside;
};

/* What a callback needs to know of its instruction; lives as long as the machine. */
struct watched {
    uint32_t address;
    unsigned set;
    bool returns;
};

static uint64_t executed;
static struct set sets[MOST_SETS];
static struct range ranges[MOST_RANGES];
static uint32_t points[MOST_POINTS];
static size_t range_count, point_count;
static bool thumb;
static FILE *out;

static void emit(uint64_t count, uint32_t address, unsigned kind, unsigned set) {
    struct record record = {count, address, kind | set << 8};
    if (fwrite(&record, sizeof record, 1, out) != 1) {
        fprintf(stderr, "instruction counter: cannot write the output\n");
        exit(1);
    }
}

static void in_set(unsigned cpu, void *data) {
    const struct watched *at = data;
    struct set *set = &sets[at->set];
    (void)cpu;
    if (!set->inside || executed != set->count + 1) {
        if (set->inside) {
            emit(set->count + 1, set->address, LEAVE, at->set);
        }
        emit(executed, at->address, ENTER, at->set);
        set->inside = true;
    }
    set->count = executed;
    set->address = at->address;
    if (at->returns) {
        emit(executed + 1, at->address, RETURN, at->set);
        set->inside = false;
        fflush(out);
    }
}

static void at_point(unsigned cpu, void *data) {
    (void)cpu;
    emit(executed, (uint32_t)(uintptr_t)data, POINT, 0);
}

/* Returns whether an instruction returns from a function, as compilers write it. */
static bool is_return(const struct qemu_plugin_insn *instruction) {
    uint16_t half[2] = {0, 0};
    size_t size = qemu_plugin_insn_size(instruction);
    memcpy(half, qemu_plugin_insn_data(instruction), size < sizeof half ? size : sizeof half);
    if (thumb && size == 2) {
        return (half[0] & 0xFF00) == 0xBD00 /* pop {..., pc} */ || half[0] == 0x4770 /* bx lr */;
    }
    if (thumb) { /* ldmia.w sp!, {..., pc}; ldr.w pc, [sp], #4 */
        return (half[0] == 0xE8BD && half[1] & 0x8000) || (half[0] == 0xF85D && half[1] == 0xFB04);
    }
    return size == 2 ? half[0] == 0x8082 : half[0] == 0x8067 && half[1] == 0; /* ret of RISC-V */
}

static int compare_points(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_ranges(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->end <= y->begin ? -1 : x->begin >= y->end;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    size_t count = qemu_plugin_tb_n_insns(block);
    (void)id;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        uint32_t address = (uint32_t)qemu_plugin_insn_vaddr(instruction);
        struct range here = {address, address + 1, 0};
        const struct range *found =
            bsearch(&here, ranges, range_count, sizeof *ranges, compare_ranges);
        if (found) {
            struct watched *watched = malloc(sizeof *watched);
            if (!watched) {
                abort();
            }
            *watched = (struct watched){address, found->set, is_return(instruction)};
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, in_set, 0, watched);
        }
        if (bsearch(&address, points, point_count, sizeof *points, compare_points)) {
            qemu_plugin_register_vcpu_insn_exec_cb(
                instruction, at_point, 0, (void *)(uintptr_t)address);
        }
        /* After the callbacks, which see the instructions before this one. */
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &executed, 1);
    }
}

static void idle(qemu_plugin_id_t id, unsigned cpu) {
    (void)id, (void)cpu;
    fflush(out);
}

static void ended(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    for (unsigned i = 0; i < MOST_SETS; i++) {
        if (sets[i].inside) {
            emit(sets[i].count + 1, sets[i].address, LEAVE, i);
        }
    }
    fclose(out);
}

static bool read_specification(const char *path) {
    char line[128];
    FILE *file = fopen(path, "r");
    bool valid = file != NULL;
    while (valid && fgets(line, sizeof line, file)) {
        struct range *range = &ranges[range_count];
        if (range_count < MOST_RANGES
            && sscanf(line, "range %u %" SCNx32 " %" SCNx32, &range->set, &range->begin, &range->end)
                   == 3) {
            valid = range->set < MOST_SETS;
            range_count++;
        } else if (point_count < MOST_POINTS
                   && sscanf(line, "point %" SCNx32, &points[point_count]) == 1) {
            point_count++;
        } else {
            valid = false;
        }
    }
    if (file) {
        fclose(file);
    }
    qsort(ranges, range_count, sizeof *ranges, compare_ranges);
    qsort(points, point_count, sizeof *points, compare_points);
    return valid;
}

int qemu_plugin_install(
    qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv) {
    const char *specification = NULL;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "spec=", 5)) {
            specification = argv[i] + 5;
        } else if (!strncmp(argv[i], "out=", 4)) {
            out = fopen(argv[i] + 4, "wb");
        }
    }
    if (!out || !specification || !read_specification(specification)) {
        fprintf(stderr, "instruction counter: cannot read the specification or make the output\n");
        return 1;
    }
    thumb = !strcmp(info->target_name, "arm");
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_idle_cb(id, idle);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
