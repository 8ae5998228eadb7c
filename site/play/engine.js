// The engine in WebAssembly: crates/knee-wasm/src/lib.rs says what each call does.

/** Numbers of the engine's tables. */
export const TABLE = { text: 0, samples: 1, links: 2, events: 3, packets: 4, held: 5, completions: 6, delays: 7, distributions: 8 };

/** An instance of the engine, which holds one simulation at a time. */
export class Engine {
  /** Compiles and starts `bytes`. */
  static async load(bytes) {
    const engine = new Engine();
    engine.bytes = bytes;
    await engine.renew();
    return engine;
  }

  /** A new instance: after a panic the old one is of no use. */
  async renew() {
    this.calls = (await WebAssembly.instantiate(this.bytes, {})).instance.exports;
  }

  input(told) {
    const text = new TextEncoder().encode(told);
    // Room first: it may move the memory.
    const at = this.calls.input(text.length);
    new Uint8Array(this.calls.memory.buffer, at, text.length).set(text);
  }

  request(request) {
    this.input(JSON.stringify(request));
  }

  /** A copy of a table from byte `from` on. */
  table(number, from = 0) {
    const size = this.calls.table_bytes(number);
    const at = this.calls.table(number);
    return this.calls.memory.buffer.slice(at + from, at + size);
  }

  text() {
    return new TextDecoder().decode(this.table(TABLE.text));
  }

  checked(status) {
    if (status) throw new Error(this.text());
  }

  /** Begins a request: `{ scene }`, `{ spec }` or `{ file }`, the text of a scenario file. */
  start(request) {
    this.request(request);
    this.checked(this.calls.start());
  }

  /** The figures of a simulation that has come to its end. */
  finish() {
    this.checked(this.calls.finish());
    return this.text();
  }

  /** The scenario file of a request. */
  export(request) {
    this.request(request);
    this.checked(this.calls.export());
    return this.text();
  }

  /** The part of a scenario file that the page shows: `{ scene, file }`. */
  open(toml) {
    this.input(toml);
    this.checked(this.calls.open_file());
    return JSON.parse(this.text());
  }

  list() {
    this.calls.list();
    return JSON.parse(this.text());
  }
}
