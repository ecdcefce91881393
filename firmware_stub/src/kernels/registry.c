#include "kernels.h"

const et_kernel *const et_kernels[] = {
    &et_aten_addmm,
    &et_aten_batch_norm,
    &et_aten_convolution,
    &et_aten_mean,
    &et_aten_permute_copy,
    &et_aten_relu,
    &et_aten_softmax,
    &et_aten_view_copy,
    &et_cortex_m_avg_pool2d,
    &et_cortex_m_conv2d,
    &et_cortex_m_depthwise_conv2d,
    &et_cortex_m_dequantize,
    &et_cortex_m_linear,
    &et_cortex_m_quantize,
    &et_cortex_m_softmax,
};

const uint32_t et_kernel_count = sizeof et_kernels / sizeof et_kernels[0];
