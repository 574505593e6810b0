// A client of jjq's WebSocket transport in Node, without a package: it creates a queue, pushes, pops and subscribes.
//
//     node websocket.mjs [HOST:PORT]        the HTTP port of a server, 127.0.0.1:7576 by default
//
// docs/protocol.md, "WebSocket", has the frames; jjq.proto has the messages. JJQ_KEY is shown to servers that want a key.

import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";

const CALL = 1, MESSAGE = 2, END = 3, REPLY = 5, ERROR = 6, GOAWAY = 7; // kinds of frames

// Protobuf, as much of it as is needed here: fields of numbers, and of bytes, text or messages ------------------------

function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}

function encode(fields) { // [[number of the field, value], …]
  return Buffer.concat(fields.flatMap(([number, value]) => {
    if (typeof value === "number") return [varint(number * 8), varint(value)];
    const bytes = Buffer.from(value);
    return [varint(number * 8 + 2), varint(bytes.length), bytes];
  }));
}

function decode(bytes) { // { number of the field: [values] }
  const fields = {};
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(value);
    }
  };
  while (at < bytes.length) {
    const tag = number();
    let value;
    if (tag % 8 === 0) value = number();
    else if (tag % 8 === 2) { const size = number(); value = bytes.subarray(at, at += size); }
    else if (tag % 8 === 1) value = bytes.subarray(at, at += 8);
    else value = bytes.subarray(at, at += 4);
    (fields[tag >> 3] ??= []).push(value);
  }
  return fields;
}

const elementsIn = (reply) => (reply[14] ?? []).flatMap((all) => decode(all)[1] ?? []).map((one) => decode(one))
  .map((one) => ({ offset: one[1]?.[0] ?? 0, value: (one[4]?.[0] ?? Buffer.alloc(0)).toString() }));

// WebSocket (RFC 6455): the handshake, and frames that are masked on the way to the server ------------------------------

class Socket {
  static connect(host, port, key) {
    return new Promise((resolve, reject) => {
      const nonce = randomBytes(16).toString("base64");
      const headers = {
        Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": nonce,
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
      };
      const asked = request({ host, port, path: "/v1/ws", headers });
      asked.on("error", reject);
      asked.on("response", (answer) => reject(new Error(`the server answers ${answer.statusCode}`)));
      asked.on("upgrade", (answer, stream, first) => {
        const wanted = createHash("sha1").update(`${nonce}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
        if (answer.headers["sec-websocket-accept"] !== wanted) reject(new Error("this is no WebSocket"));
        else resolve(new Socket(stream, first));
      });
      asked.end();
    });
  }

  constructor(stream, first) {
    this.stream = stream;
    this.onMessage = () => {};
    this.onClose = () => {};
    this.bytes = Buffer.alloc(0);
    this.parts = [];
    stream.setNoDelay(true);
    stream.on("data", (bytes) => this.#take(bytes));
    stream.on("close", () => this.onClose());
    stream.on("error", () => {}); // "close" follows
    this.#take(first);
  }

  send(payload, opcode = 2) {
    const size = payload.length, mask = randomBytes(4);
    const head = size < 126 ? Buffer.from([0x80 | opcode, 0x80 | size]) : Buffer.alloc(size < 65536 ? 4 : 10);
    if (size >= 126) {
      head[0] = 0x80 | opcode;
      head[1] = 0x80 | (size < 65536 ? 126 : 127);
      if (size < 65536) head.writeUInt16BE(size, 2); else head.writeBigUInt64BE(BigInt(size), 2);
    }
    this.stream.write(Buffer.concat([head, mask, payload.map((byte, index) => byte ^ mask[index % 4])]));
  }

  close() {
    this.send(Buffer.from([0x03, 0xe8]), 8); // 1000: done
  }

  #take(bytes) {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    while (this.bytes.length >= 2) {
      const flag = this.bytes[1] & 127, at = flag < 126 ? 2 : flag === 126 ? 4 : 10;
      if (this.bytes.length < at) return;
      const size = flag < 126 ? flag : flag === 126 ? this.bytes.readUInt16BE(2) : Number(this.bytes.readBigUInt64BE(2));
      if (this.bytes.length < at + size) return;
      const opcode = this.bytes[0] & 15, whole = this.bytes[0] >= 128, payload = this.bytes.subarray(at, at + size);
      this.bytes = this.bytes.subarray(at + size);
      if (opcode === 9) this.send(payload, 10); // ping: answer, or the server hangs up
      else if (opcode === 8) this.stream.end();
      else if (opcode <= 2) {
        this.parts.push(payload);
        if (whole) this.onMessage(Buffer.concat(this.parts.splice(0)));
      }
    }
  }
}

// Calls: each has a number; replies come in any order -----------------------------------------------------------------

class Client {
  static async connect(address, key) {
    const [host, port] = address.split(":");
    return new Client(await Socket.connect(host, port, key));
  }

  constructor(socket) {
    this.socket = socket;
    this.calls = new Map();
    this.number = 0;
    socket.onMessage = (data) => this.#take(data[0], data.readUInt32BE(1), data.subarray(5));
    socket.onClose = () => this.calls.forEach((call) => call.reject(new Error("the connection is gone: outcome unknown")));
  }

  call(method, fields) { // one request, one reply
    return new Promise((resolve, reject) => this.#begin(method, fields, { resolve, reject }));
  }

  stream(method, fields, onMessage) { // many replies; send more by `send`, end by `end`
    const call = { onMessage };
    call.done = new Promise((resolve, reject) => Object.assign(call, { resolve, reject }));
    const number = this.#begin(method, fields, call);
    call.send = (more) => this.socket.send(Buffer.concat([this.#head(MESSAGE, number), encode(more)]));
    call.end = () => this.socket.send(this.#head(END, number));
    return call;
  }

  #begin(method, fields, call) {
    const number = ++this.number, name = Buffer.from(method);
    this.calls.set(number, call);
    const head = Buffer.concat([this.#head(CALL, number), Buffer.from([name.length]), name, Buffer.from([0, 0])]);
    this.socket.send(Buffer.concat([head, encode(fields)]));
    return number;
  }

  #head(kind, number) {
    const head = Buffer.alloc(5);
    head[0] = kind;
    head.writeUInt32BE(number, 1);
    return head;
  }

  #take(kind, number, rest) {
    if (kind === GOAWAY) return this.socket.send(this.#head(GOAWAY, 0)); // the server stops: no more calls here
    const call = this.calls.get(number);
    if (kind === MESSAGE) return call?.onMessage(decode(rest));
    this.calls.delete(number);
    if (kind === ERROR) { // google.rpc.Status: 1 is its code, 2 its text
      const status = decode(rest);
      call?.reject(new Error(`${status[2]?.[0] ?? "no details"} (code ${status[1]?.[0]})`));
    } else call?.resolve(kind === REPLY ? decode(rest) : undefined);
  }
}

// What it does -----------------------------------------------------------------------------------------------------

const client = await Client.connect(process.argv[2] ?? "127.0.0.1:7576", process.env.JJQ_KEY);
await client.call("CreateQueue", [[1, "from-node"]]);
await client.call("CreateSubscriber", [[1, "from-node"], [2, "reader"], [3, "beginning"]]);

const values = ["one", "two", "three"].map((value) => [1, encode([[4, value]])]);
const receipt = decode((await client.call("Push", [[1, "from-node"], [14, encode(values)]]))[1][0]);
console.log(`pushed ${receipt[2][0]} elements, the first at offset ${receipt[1]?.[0] ?? 0}`);

const popped = await client.call("Pop", [[1, "from-node/reader"], [2, 2]]);
console.log(`popped ${elementsIn(popped).map((element) => element.value).join(", ")}`);

await client.call("Pop", [[1, "from-node/nobody"]]).catch((error) => console.log(`refused: ${error.message}`));

const credit = encode([[1, 100]]);
const subscription = client.stream("Subscribe", [[1, encode([[1, "from-node/reader"], [3, credit]])]], (message) => {
  for (const { offset, value } of elementsIn(message)) {
    console.log(`heard ${value} at offset ${offset}`);
    subscription.send([[3, encode([[1, offset + 1]])]]); // confirmed: it will not come again
  }
  if (message[4]?.[0] === 4) subscription.end(); // all is confirmed, and durable
});
await client.call("Push", [[1, "from-node"], [14, encode([[1, encode([[4, "four"]])]])]]);
await subscription.done;
client.socket.close();
