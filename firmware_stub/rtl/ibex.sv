// SPDX-License-Identifier: Apache-2.0
// Ibex (lowRISC) behind the ports of the testbench, see machine.hpp. Its buses follow OBI, as these ports do.
module core #(
    parameter logic [31:0] BOOT = 32'h0000_1000
) (
    input  logic        clk,
    input  logic        reset_n,
    input  logic        irq,
    output logic        asleep,
    output logic        takes_errors,

    output logic        fetch_request,
    output logic [31:0] fetch_address,
    input  logic        fetch_grant,
    input  logic        fetch_valid,
    input  logic [31:0] fetch_data,
    input  logic        fetch_error,

    output logic        data_request,
    output logic        data_write,
    output logic [ 3:0] data_bytes,
    output logic [31:0] data_address,
    output logic [31:0] data_out,
    input  logic        data_grant,
    input  logic        data_valid,
    input  logic [31:0] data_in,
    input  logic        data_error
);
  assign takes_errors = 1'b1;

  // lowRISC's configuration "small", which is the default of all parameters but the counters: two pipeline stages, a
  // multiplier of three cycles, no cache.
  ibex_top #(
      .RV32M           (ibex_pkg::RV32MFast),
      .BranchTargetALU (1'b0),
      .WritebackStage  (1'b0),
      .ICache          (1'b0),
      .MHPMCounterNum  (10),
      .MHPMCounterWidth(40)
  ) top (
      .clk_i                 (clk),
      .rst_ni                (reset_n),
      .test_en_i             (1'b0),
      .ram_cfg_i             ('0),
      .hart_id_i             (32'd0),
      .boot_addr_i           (BOOT),
      .instr_req_o           (fetch_request),
      .instr_gnt_i           (fetch_grant),
      .instr_rvalid_i        (fetch_valid),
      .instr_addr_o          (fetch_address),
      .instr_rdata_i         (fetch_data),
      .instr_rdata_intg_i    ('0),
      .instr_err_i           (fetch_error),
      .data_req_o            (data_request),
      .data_gnt_i            (data_grant),
      .data_rvalid_i         (data_valid),
      .data_we_o             (data_write),
      .data_be_o             (data_bytes),
      .data_addr_o           (data_address),
      .data_wdata_o          (data_out),
      .data_wdata_intg_o     (),
      .data_rdata_i          (data_in),
      .data_rdata_intg_i     ('0),
      .data_err_i            (data_error),
      .irq_software_i        (1'b0),
      .irq_timer_i           (1'b0),
      .irq_external_i        (irq),
      .irq_fast_i            ('0),
      .irq_nm_i              (1'b0),
      .scramble_key_valid_i  (1'b0),
      .scramble_key_i        ('0),
      .scramble_nonce_i      ('0),
      .scramble_req_o        (),
      .debug_req_i           (1'b0),
      .crash_dump_o          (),
      .double_fault_seen_o   (),
      .fetch_enable_i        (ibex_pkg::IbexMuBiOn),
      .alert_minor_o         (),
      .alert_major_internal_o(),
      .alert_major_bus_o     (),
      .core_sleep_o          (asleep),
      .scan_rst_ni           (1'b1)
  );
endmodule
