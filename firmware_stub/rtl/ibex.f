// SPDX-License-Identifier: Apache-2.0
// Sources of Ibex, in the order of their dependencies. ETD_RTL is the folder of the package's sources. The wrappers of
// lowRISC's primitives are those of its verification environment, as FuseSoC generates them otherwise.
+define+SYNTHESIS
+incdir+${ETD_RTL}/rtl
+incdir+${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl
+incdir+${ETD_RTL}/vendor/lowrisc_ip/dv/sv/dv_utils
${ETD_RTL}/dv/uvm/core_ibex/common/prim/prim_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_util_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_count_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_secded_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_mubi_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_cipher_pkg.sv
${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl/prim_ram_1p_pkg.sv
${ETD_RTL}/rtl/ibex_pkg.sv
-y ${ETD_RTL}/dv/uvm/core_ibex/common/prim
-y ${ETD_RTL}/vendor/lowrisc_ip/ip/prim/rtl
-y ${ETD_RTL}/vendor/lowrisc_ip/ip/prim_generic/rtl
-y ${ETD_RTL}/rtl
