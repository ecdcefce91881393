// SPDX-License-Identifier: Apache-2.0
// VexRiscv (SpinalHDL), with caches of 4 KiB for instructions and data, behind the ports of the testbench, see
// machine.hpp. Its buses follow Wishbone. Each word of a burst is a transfer of its own, as from RAM without bursts.
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
  assign takes_errors = 1'b0;  // it ignores the error inputs of its buses

  // A Wishbone request stays until it is answered, a request of the testbench until it is granted.
  logic fetch_active, data_active, fetch_pending, data_pending;
  assign fetch_request = fetch_active && !fetch_pending;
  assign data_request  = data_active && !data_pending;
  always_ff @(posedge clk) begin
    fetch_pending <= reset_n && ((fetch_request && fetch_grant) || (fetch_pending && !fetch_valid));
    data_pending  <= reset_n && ((data_request && data_grant) || (data_pending && !data_valid));
  end

  logic fetch_cycle, fetch_strobe, data_cycle, data_strobe;
  assign fetch_active = fetch_cycle && fetch_strobe;
  assign data_active  = data_cycle && data_strobe;

  // It runs from its cache without a sign on its buses, so these do not tell that it sleeps. A WFI behind a taken
  // branch is in its pipeline for a few cycles, too.
  logic [3:0] waited;
  always_ff @(posedge clk) begin
    if (!reset_n || !cpu.CsrPlugin_inWfi || fetch_cycle || data_cycle) waited <= 4'd0;
    else if (!asleep) waited <= waited + 4'd1;
  end
  assign asleep = waited == 4'd15;

  assign fetch_address[1:0] = 2'b00;
  assign data_address[1:0]  = 2'b00;
  VexRiscv cpu (
      .externalResetVector   (BOOT),
      .timerInterrupt        (1'b0),
      .softwareInterrupt     (1'b0),
      .externalInterruptArray({31'd0, irq}),
      .iBusWishbone_CYC      (fetch_cycle),
      .iBusWishbone_STB      (fetch_strobe),
      .iBusWishbone_ACK      (fetch_pending && fetch_valid),
      .iBusWishbone_WE       (),
      .iBusWishbone_ADR      (fetch_address[31:2]),
      .iBusWishbone_DAT_MISO (fetch_data),
      .iBusWishbone_DAT_MOSI (),
      .iBusWishbone_SEL      (),
      .iBusWishbone_ERR      (fetch_pending && fetch_error),
      .iBusWishbone_CTI      (),
      .iBusWishbone_BTE      (),
      .dBusWishbone_CYC      (data_cycle),
      .dBusWishbone_STB      (data_strobe),
      .dBusWishbone_ACK      (data_pending && data_valid),
      .dBusWishbone_WE       (data_write),
      .dBusWishbone_ADR      (data_address[31:2]),
      .dBusWishbone_DAT_MISO (data_in),
      .dBusWishbone_DAT_MOSI (data_out),
      .dBusWishbone_SEL      (data_bytes),
      .dBusWishbone_ERR      (data_pending && data_error),
      .dBusWishbone_CTI      (),
      .dBusWishbone_BTE      (),
      .clk                   (clk),
      .reset                 (!reset_n)
  );
endmodule
