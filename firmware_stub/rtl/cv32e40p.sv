// SPDX-License-Identifier: Apache-2.0
// CV32E40P (OpenHW Group) behind the ports of the testbench, see machine.hpp. Its buses follow OBI, as these ports do.
// It has no input for bus errors.
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
  assign takes_errors = 1'b0;

  // Eight event counters cost the simulator nothing that could be measured, all 29 an eighth of its speed.
  cv32e40p_top #(
      .NUM_MHPMCOUNTERS(8)
  ) top (
      .clk_i              (clk),
      .rst_ni             (reset_n),
      .pulp_clock_en_i    (1'b1),
      .scan_cg_en_i       (1'b0),
      .boot_addr_i        (BOOT),
      .mtvec_addr_i       (BOOT),
      .dm_halt_addr_i     (BOOT),
      .dm_exception_addr_i(BOOT),
      .hart_id_i          (32'd0),
      .instr_req_o        (fetch_request),
      .instr_gnt_i        (fetch_grant),
      .instr_rvalid_i     (fetch_valid),
      .instr_addr_o       (fetch_address),
      .instr_rdata_i      (fetch_data),
      .data_req_o         (data_request),
      .data_gnt_i         (data_grant),
      .data_rvalid_i      (data_valid),
      .data_we_o          (data_write),
      .data_be_o          (data_bytes),
      .data_addr_o        (data_address),
      .data_wdata_o       (data_out),
      .data_rdata_i       (data_in),
      .irq_i              ({20'd0, irq, 11'd0}),
      .irq_ack_o          (),
      .irq_id_o           (),
      .debug_req_i        (1'b0),
      .debug_havereset_o  (),
      .debug_running_o    (),
      .debug_halted_o     (),
      .fetch_enable_i     (1'b1),
      .core_sleep_o       (asleep)
  );
endmodule
