// Runs an image in rp2040js, a simulator of the RP2040:
//
//   node bridge.mjs IMAGE                    until it exits by semihosting; prints what it prints by that
//   node bridge.mjs IMAGE --link HOST:PORT   with its UART 0 as a connection to this address
//   node bridge.mjs --version
//
// rp2040js is looked for in the working directory, in $NODE_PATH, among npm's global packages, and where tools/setup
// puts it in a checkout of the project.
//
// Time is that of the core's clock, in the cycles that rp2040js counts for a Cortex-M0+: without wait states of
// flash, as if its cache always hit. While the core sleeps, time passes as on the host, at most.
//
// What rp2040js 1.4.1 gets wrong and is put right here:
//   - SysTick loses a tick at each of its wraps, and is as inexact as a double of nanoseconds: counted in cycles.
//   - A sleeping core with masked interrupts enters the handler at once: it only wakes.
//   - A core that sleeps while an interrupt is pending never wakes: it does.
//   - UDF stops nothing, and unknown instructions, addresses without memory and unaligned words are ignored:
//     they are hard faults, with the address of the instruction.
//   - A reset by AIRCR is ignored: it starts the image again, and keeps the RAM.
//   - The registers of the MPU read as ones: as zeros, as there is none.
//
// What stays wrong:
//   - There is no MPU, so an overflow of the stack is not detected.
//   - The UART sends at any rate at once, receives without overruns, and interrupts at each byte. Bytes arrive
//     at the rate that is set, but the host's rate is not compared with it.
//   - PLL and crystal are ready at once; the second core, the boot ROM and its second stage do not exist.
//   - SysTick raises no exception here.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const FLASH = 0x10000000;
const RAM = 0x20000000;
const HARD_FAULT = 3;
const SEMIHOSTING = 0xab; // of BKPT
const WRITE0 = 4;
const SYST_CVR = 0x18;
const AIRCR = 0xd0c;
const AIRCR_RESET = 4;
const MPU = [0xd90, 0xda0];
const BITS_PER_BYTE = 10;
const BATCH = 200000; // instructions between two looks at the connection
const LIMIT = 500e6; // cycles of an image without a connection
const REMEDY = 'npm install rp2040js@1.4.1';

function fail(message) {
  console.error(message);
  process.exit(1);
}

function findSimulator() {
  const global = path.join(path.dirname(process.execPath), '..', 'lib');
  const checkout = fileURLToPath(new URL('../../.venv-tools', import.meta.url));
  for (const folder of [process.cwd(), checkout, global, '/usr/local/lib', '/usr/lib']) {
    const require = createRequire(`${folder}/`);
    try {
      return { ...require('rp2040js'), main: require.resolve('rp2040js') };
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return fail(`rp2040js not found: ${REMEDY}, here or with -g`);
}

const { RP2040, main } = findSimulator();
const [image, ...options] = process.argv.slice(2);
if (image === '--version') {
  const file = path.join(main.slice(0, main.lastIndexOf(`${path.sep}dist${path.sep}`)), 'package.json');
  console.log(`rp2040js ${JSON.parse(fs.readFileSync(file)).version}`);
  process.exit(0);
}
// For tests: the boot loader has left VTOR at 0, or ("none") there is no such register.
const vtor = options[0] === '--vtor' ? options.splice(0, 2)[1] : undefined;
if (!image || (options.length && (options.length !== 2 || options[0] !== '--link'))) {
  fail('usage: node bridge.mjs IMAGE [--link HOST:PORT]');
}

class Fault extends Error {}

const chip = new RP2040();
const { core, clock } = chip;

// Time follows the cycles, so it need not be advanced after each instruction.
let changed = { nanos: 0, cycles: 0 }; // when the core's clock changed last
const nanos = (hz) => changed.nanos + ((core.cycles - changed.cycles) / hz) * 1e9;
Object.defineProperty(clock, 'nanos', { get: () => nanos(chip.clkSys) });
chip.addClockListener((_now, before) => {
  changed = { nanos: nanos(before), cycles: core.cycles };
});
function fireAlarms() {
  for (let alarm; (alarm = clock.nextAlarm) && alarm.nanos <= clock.nanos; alarm.callback()) clock.nextAlarm = alarm.next;
}

const faults = /not 32 bit aligned|invalid memory|undefined address|not implemented yet/;
const noticed = (_name, message) => {
  if (faults.test(message)) throw new Fault(message);
};
chip.logger = { debug() {}, info() {}, warn: noticed, error: noticed };

// Loads the image; returns the address of its first section, which begins with the vectors. (A segment may
// begin before that, with headers of the file.)
function load() {
  const elf = fs.readFileSync(image);
  const fields = (at, ...offsets) => offsets.map((offset) => elf.readUInt32LE(at + offset));
  const [segments, sections] = fields(0, 28, 32);
  for (let i = 0; i < elf.readUInt16LE(44); i++) {
    const [type, offset, address, size] = fields(segments + 32 * i, 0, 4, 12, 16);
    if (type !== 1 || size === 0) continue;
    const [memory, origin] = address >= RAM ? [chip.sram, RAM] : [chip.flash, FLASH];
    memory.set(elf.subarray(offset, offset + size), address - origin);
  }
  let first = Infinity;
  for (let i = 0; i < elf.readUInt16LE(48); i++) {
    const [type, flags, address, size] = fields(sections + 40 * i, 4, 8, 12, 20);
    if (type === 1 && (flags & 2) !== 0 && size > 0) first = Math.min(first, address);
  }
  return first;
}

const vectors = load();
if (vtor === 'none') Object.defineProperty(core, 'VTOR', { get: () => 0, set() {} });

// Starts the image as the boot loader does.
function start() {
  const unmasked = { PM: false, SPSEL: 0, nPRIV: false, pendingInterrupts: 0, enabledInterrupts: 0 };
  Object.assign(core, { IPSR: 0, currentMode: 0, waiting: false, ...unmasked, VTOR: vtor === undefined ? vectors : 0 });
  chip.uart[0].interruptMask = 0;
  core.SP = chip.readUint32(vectors);
  core.PC = chip.readUint32(vectors + 4) & ~1;
}

const ppb = chip.ppb;
const read = ppb.readUint32.bind(ppb);
const write = ppb.writeUint32.bind(ppb);
const ofMpu = (at) => at >= MPU[0] && at <= MPU[1];
let systickZero = 0; // cycle at which SysTick was zero
let resetWanted = false;
ppb.systickAlarm.enable = false;
ppb.readUint32 = (at) => {
  if (ofMpu(at)) return 0;
  return at === SYST_CVR ? (systickZero - core.cycles) & 0xffffff : read(at);
};
ppb.writeUint32 = (at, value) => {
  if (at === SYST_CVR) systickZero = core.cycles;
  else if (at === AIRCR) resetWanted = (value & AIRCR_RESET) !== 0;
  else if (!ofMpu(at)) write(at, value);
};

const check = core.checkForInterrupts.bind(core);
core.checkForInterrupts = () => !core.PM && check();

let ended = false;
chip.onBreak = (code) => {
  if (chip.readUint16(core.PC - 2) >> 8 === 0xde) throw new Fault('UDF');
  if (code !== SEMIHOSTING) throw new Fault(`BKPT ${code}`);
  if (core.registers[0] !== WRITE0) {
    ended = true;
    return;
  }
  let text = '';
  for (let at = core.registers[1], byte; (byte = chip.readUint8(at)) !== 0; at++) text += String.fromCharCode(byte);
  process.stdout.write(text);
};

const uart = chip.uart[0];
const received = []; // by the line, and not by the UART
let sent = [];
let due = 0; // cycle at which the next byte is complete
uart.onByte = (byte) => sent.push(byte);

function feed() {
  if (core.cycles < due || uart.rxFIFO.full) return;
  uart.feedByte(received.shift());
  due = core.cycles + Math.round((chip.clkSys * BITS_PER_BYTE) / (uart.baudRate || 115200));
}

// Executes instructions until the core sleeps with nothing to wake it; returns whether it does.
function execute() {
  for (let i = 0; i < BATCH && !ended; i++) {
    if (received.length) feed();
    if (clock.nextAlarm) fireAlarms();
    if (core.waiting) {
      if (core.pendingInterrupts & core.enabledInterrupts) core.waiting = false;
      else if (received.length && !uart.rxFIFO.full) core.cycles = Math.max(core.cycles, due);
      else return true;
      continue;
    }
    core.executeInstruction();
    if (resetWanted) {
      resetWanted = false;
      start();
    }
  }
  return false;
}

function batch() {
  try {
    return execute();
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    if (!options.length) fail(`${fault.message} at ${(core.PC - 2).toString(16)}`);
    core.PC -= 2;
    try {
      core.exceptionEntry(HARD_FAULT);
    } catch {
      fail(`the core locked up: ${fault.message} at ${core.PC.toString(16)}`);
    }
    return false;
  }
}

start();
if (!options.length) {
  while (!ended) {
    if (batch()) fail(`sleeps for good at ${core.PC.toString(16)}`);
    if (core.cycles > LIMIT) fail(`still runs after ${LIMIT} cycles, at ${core.PC.toString(16)}`);
  }
} else {
  const [host, port] = options[1].split(':');
  const line = net.connect(Number(port), host);
  line.setNoDelay(true);
  let wake = null;
  line.on('data', (bytes) => {
    received.push(...bytes);
    if (wake) wake();
  });
  line.on('error', () => process.exit(0));
  line.on('close', () => process.exit(0));
  const turn = () => {
    const sleeps = batch();
    if (sent.length) line.write(Buffer.from(sent));
    sent = [];
    if (!sleeps) {
      setImmediate(turn);
      return;
    }
    const began = process.hrtime.bigint();
    const timer = setTimeout(() => wake(), 10);
    wake = () => {
      clearTimeout(timer);
      wake = null;
      core.cycles += Math.round((Number(process.hrtime.bigint() - began) * chip.clkSys) / 1e9);
      turn();
    };
  };
  line.on('connect', turn);
}
