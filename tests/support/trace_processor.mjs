// Perfetto's trace_processor behind HTTP, as the perfetto package's client speaks to it.
//
//     node trace_processor.mjs ENGINE_DIRECTORY
//
// ENGINE_DIRECTORY holds Perfetto's web interface: engine_bundle.js and trace_processor.wasm. Prints
// the port, and serves one trace until its standard input ends.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import vm from "node:vm";

const directory = process.argv[2];

// The engine is a web worker. It believes it is in a browser when it sees no `process`.
const worker = {
    console, TextDecoder, TextEncoder, URL, performance, setTimeout, clearTimeout,
    MessageChannel, crypto,
    location: { href: "http://engine/engine_bundle.js", origin: "http://engine" },
    addEventListener() {},
    importScripts() {},
    WorkerGlobalScope() {},
    XMLHttpRequest: class {  // of this it takes as much as loads a file at once
        open(_method, url) {
            const name = path.basename(new URL(url, "http://engine/").pathname);
            this.file = path.join(directory, name);
        }
        send() {
            const data = fs.readFileSync(this.file);
            this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
        }
    },
};
worker.self = worker.globalThis = worker;
vm.runInContext(
    fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), vm.createContext(worker));
const Bytes = vm.runInContext("Uint8Array", worker);  // the engine knows only its own kind
const waiting = [];
const port = { onmessage: null, postMessage: (data) => receive(Buffer.from(data)) };
worker.onmessage({ data: port });

// Protocol buffers: numbers, and bytes with their length.
function varint(value) {
    const bytes = [];
    for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    return Buffer.from([...bytes, value]);
}
const field = (number, data) =>
    Buffer.concat([varint(number * 8 + 2), varint(data.length), data]);
const number = (field_, value) => Buffer.concat([varint(field_ * 8), varint(value)]);

function* fields(data) {
    let at = 0;
    const read = () => {
        let value = 0;
        for (let scale = 1; ; scale *= 128) {
            const byte = data[at++];
            value += (byte & 127) * scale;
            if (byte < 128) return value;
        }
    };
    while (at < data.length) {
        const tag = read(), value = read();
        if (tag % 8 === 0) yield [tag >> 3, value];
        else yield [tag >> 3, data.subarray(at, (at += value))];
    }
}

// Requests of the engine's stream, by their method and the field of their answer.
const METHODS = {
    "/parse": [1, 101, 201], "/notify_eof": [2, 0, 212], "/query": [3, 103, 203], "/status": [10, 0, 210],
};
let sequence = 0;

function receive(data) {
    for (const [, message] of fields(data)) {
        const answer = [...fields(message)];
        const request = waiting[0];
        const bodies = answer.filter(([key]) => key === request.answer).map(([, body]) => body);
        request.bodies.push(...bodies);
        const failed = answer.some(([key]) => key === 4 || key === 5);
        if (request.last(bodies) || failed) {
            waiting.shift();
            request.respond(failed ? 500 : 200, Buffer.concat(request.bodies));
        }
    }
}

// A query's answer comes in batches, of which the last says so.
const isLast = (bodies) => bodies.some((body) => [...fields(body)].some(
    ([key, batch]) => key === 3 && [...fields(batch)].some(([inner, value]) => inner === 5 && value)
)) || bodies.some((body) => [...fields(body)].some(([key]) => key === 2));

const server = http.createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
        const [method, argument, answer] = METHODS[request.url] ?? [];
        if (!method) return response.writeHead(404).end();
        waiting.push({
            answer, bodies: [], last: request.url === "/query" ? isLast : () => true,
            respond: (code, body) => response.writeHead(code).end(body),
        });
        const rpc = [number(1, sequence++), number(2, method)];
        if (argument) rpc.push(field(argument, Buffer.concat(pieces)));
        port.onmessage({ data: Bytes.from(field(1, Buffer.concat(rpc))) });
    });
});
server.keepAliveTimeout = 0;  // a client may think for as long as it likes
// The engine takes requests as soon as it has been instantiated.
const ready = setInterval(() => {
    if (!port.onmessage) return;
    clearInterval(ready);
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}, 5);
process.stdin.on("end", () => process.exit()).resume();
