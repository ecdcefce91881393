// Runs an image in the RAM of rp2040js's RP2040 and prints what it prints: node rp2040.mjs IMAGE NODE_MODULES
// SysTick counts cycles of the core, as rp2040js accounts them for a Cortex-M0+; there are no wait states.
import fs from 'node:fs';
import { createRequire } from 'node:module';

const { RP2040 } = createRequire(`${process.argv[3]}/`)('rp2040js');

const RAM = 0x20000000;
const SEMIHOSTING = 0xab; // of BKPT
const WRITE0 = 4;
const SYSTICK_VALUE = 0x18;
const LIMIT = 500e6; // cycles

const image = fs.readFileSync(process.argv[2]);
const chip = new RP2040();
const core = chip.core;
const read = chip.ppb.readUint32.bind(chip.ppb);
chip.ppb.readUint32 = (at) => (at === SYSTICK_VALUE ? (0xffffff - core.cycles) & 0xffffff : read(at));

const headers = image.readUInt32LE(28);
for (let i = 0; i < image.readUInt16LE(44); i++) {
  const at = headers + 32 * i;
  const [type, offset, , address, size] = [0, 4, 8, 12, 16].map((field) => image.readUInt32LE(at + field));
  if (type === 1 && size > 0) chip.sram.set(image.subarray(offset, offset + size), address - RAM);
}

let ended = false;
chip.onBreak = (code) => {
  if (code !== SEMIHOSTING) throw new Error(`bkpt ${code}`);
  if (core.registers[0] !== WRITE0) {
    ended = true;
    return;
  }
  let at = core.registers[1];
  let text = '';
  for (let byte; (byte = chip.readUint8(at)) !== 0; at++) text += String.fromCharCode(byte);
  process.stdout.write(text);
};
core.VTOR = RAM;
core.SP = chip.readUint32(RAM);
core.PC = chip.readUint32(RAM + 4) & ~1;
while (!ended) {
  core.executeInstruction();
  if (core.cycles > LIMIT) throw new Error(`still runs after ${LIMIT} cycles, at ${core.PC.toString(16)}`);
}
