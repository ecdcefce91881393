#include "elementwise.h"
#include "kernels.h"

/* minimum and maximum(self, other, *, out), where NaN is both */
#define CHOICE(name, sign)                                                                                   \
    ET_LINE_FN(name##_floats, float, a sign b || a != a ? a : b)                                             \
    ET_LINE_FN(name##_int32s, int32_t, a sign b ? a : b)                                                     \
    ET_LINE_FN(name##_int64s, int64_t, a sign b ? a : b)                                                     \
    static const char *name(const et_call *call) {                                                           \
        static const et_operation operation = {ET_NUMBER_FNS(name)};                                         \
        return et_run_binary(call, &operation);                                                              \
    }                                                                                                        \
    const et_kernel et_aten_##name = {"aten::" #name, "out", "native_call_" #name ".out", 3, name};

CHOICE(minimum, <)
CHOICE(maximum, >)
