/* All kernels, one file each, listed in registry.c. */
#ifndef ET_KERNELS_H
#define ET_KERNELS_H

#include "et_kernel.h"

extern const et_kernel et_aten_addmm;
extern const et_kernel et_aten_batch_norm;
extern const et_kernel et_aten_convolution;
extern const et_kernel et_aten_mean;
extern const et_kernel et_aten_permute_copy;
extern const et_kernel et_aten_relu;
extern const et_kernel et_aten_softmax;
extern const et_kernel et_aten_view_copy;
extern const et_kernel et_cortex_m_avg_pool2d;
extern const et_kernel et_cortex_m_conv2d;
extern const et_kernel et_cortex_m_depthwise_conv2d;
extern const et_kernel et_cortex_m_dequantize;
extern const et_kernel et_cortex_m_linear;
extern const et_kernel et_cortex_m_quantize;
extern const et_kernel et_cortex_m_softmax;

#endif
