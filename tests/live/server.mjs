// SmolLM2-135M over OpenAI's chat protocol, on this machine: llama.cpp by node-llama-cpp's prebuilt binary.
//   node server.mjs NODE_MODULES MODEL.gguf CONTEXT
// The schema of a request becomes a grammar, which constrains every token of its reply. It answers 400 to what exceeds
// the context, and stops working for whoever hangs up. It prints its address, then a line of JSON for each reply: the
// hash of the request's body, the tokens that it read and wrote, why it stopped, and milliseconds.
import {createHash} from "node:crypto";
import http from "node:http";
import {availableParallelism} from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [, , modules, modelPath, context] = process.argv;
const {getLlama, LlamaChat} = await import(pathToFileURL(path.join(modules, "node-llama-cpp", "dist", "index.js")));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const model = await llama.loadModel({modelPath});
const held = await model.createContext({contextSize: +context, sequences: 1, threads: availableParallelism()});
const sequence = held.getSequence();

const KEYWORDS = new Set(["type", "items", "enum", "const", "required", "additionalProperties", "anyOf", "minItems",
  "maxItems", "prefixItems", "minLength", "maxLength"]);

// What node-llama-cpp makes a grammar of: no other keyword.
function grammarSchema(node) {
  if (Array.isArray(node)) return node.map(grammarSchema);
  if (node === null || typeof node !== "object") return node;
  const kept = Object.entries(node).filter(([key]) => KEYWORDS.has(key)).map(([key, value]) => [key, grammarSchema(value)]);
  if (node.properties)
    kept.push(["properties", Object.fromEntries(Object.entries(node.properties).map(([name, value]) => [name, grammarSchema(value)]))]);
  return Object.fromEntries(kept);
}

async function reply(text, signal) {
  const body = JSON.parse(text);
  const words = body.messages.map((message) => message.content).join("\n");
  const read = model.tokenize(words).length;
  if (read + 64 > +context)
    return [400, {error: {code: "context_length_exceeded", type: "invalid_request_error",
      message: `This model's maximum context length is ${context} tokens. However, your messages resulted in ${read} tokens.`}}];
  const began = Date.now();
  const history = body.messages.map(({role, content}) =>
    role === "assistant" ? {type: "model", response: [content]} : {type: role, text: content});
  await sequence.clearHistory();
  const chat = new LlamaChat({contextSequence: sequence, autoDisposeSequence: false});
  const format = body.response_format;
  const answer = await chat.generateResponse([...history, {type: "model", response: []}], {
    signal, temperature: body.temperature ?? 0, seed: body.seed ?? 1,
    grammar: format?.type === "json_schema" ? await llama.createGrammarForJsonSchema(grammarSchema(format.json_schema.schema)) : undefined,
    maxTokens: Math.min(body.max_completion_tokens ?? body.max_tokens ?? 1024, +context - read - 32)});
  chat.dispose({disposeSequence: false});
  const written = model.tokenize(answer.response).length;
  const finish = answer.metadata.stopReason === "maxTokens" ? "length" : "stop";
  const hash = createHash("sha256").update(text).digest("hex");
  console.log(JSON.stringify({body: hash, read, written, finish, ms: Date.now() - began}));
  return [200, {id: "reply", object: "chat.completion", created: Math.floor(began / 1000), model: body.model,
    choices: [{index: 0, message: {role: "assistant", content: answer.response}, finish_reason: finish}],
    usage: {prompt_tokens: read, completion_tokens: written, total_tokens: read + written}}];
}

let last = Promise.resolve();   // one request after another
http.createServer(async (request, response) => {
  const send = (status, body) => {
    response.writeHead(status, {"content-type": "application/json"});
    response.end(JSON.stringify(body));
  };
  if (request.url.endsWith("/models"))
    return send(200, {object: "list", data: [{id: "smollm2-135m", object: "model", max_model_len: +context}]});
  let text = "";
  for await (const piece of request) text += piece;
  const gone = new AbortController();
  response.on("close", () => response.writableFinished || gone.abort());
  last = last.then(async () => {
    try {
      gone.signal.throwIfAborted();
      send(...await reply(text, gone.signal));
    } catch (error) {
      console.log(JSON.stringify({failed: gone.signal.aborted ? "hung up" : String(error)}));
      if (!gone.signal.aborted) send(500, {error: {message: String(error)}});
    }
  });
}).listen(0, "127.0.0.1", function () { console.log(`http://127.0.0.1:${this.address().port}/v1`); });
