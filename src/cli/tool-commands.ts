import { type WarmFlags } from './warm.js'
import { type RecordFlags } from './record.js'
import { type ReplayFlags } from './replay.js'
import { type Command, shells } from './command-definition.js'

/** Commands beside the proxy. */
export const toolCommands: readonly Command[] = [{
  name: 'sandbox',
  summary: 'the embedded node alone',
  aside: ', on made-up but consistent chain data',
  usage: ['varve sandbox [flags]'],
  flags: [
    { name: 'listen', value: 'HOST:PORT', text: 'default 127.0.0.1:8081' },
    { name: 'seed', value: 'N', text: 'equal seeds make equal ledgers, default 1' },
    { name: 'blocks', value: 'N', text: 'blocks at the start, default 1000' },
    {
      name: 'block-ms',
      value: 'N',
      text: 'milliseconds between blocks, default 250; 0: blocks only on request'
    },
    { name: 'chain-id', value: 'N', text: 'default 4' },
    { name: 'family', value: 'PREFIX', text: 'prefix of the position headers, default x-aptos-' }
  ],
  examples: [
    'varve sandbox --seed 7 --block-ms 0',
    'curl -X POST \'http://127.0.0.1:8081/sandbox/grow?blocks=10\''
  ],
  run: async ({ flags }, io) =>
    await (await import('./sandbox.js')).runSandbox(flags as Record<string, string | undefined>, io)
}, {
  name: 'warm',
  summary: 'fills the cache through a running varve',
  usage: ['varve warm --from V --to V [flags]', 'varve warm FILE... [flags]'],
  words: 'files',
  flags: [
    { name: 'from', value: 'V', text: 'reads blocks, beginning with the one that contains this ledger version' },
    { name: 'to', value: 'V', text: 'ends with the block that contains this ledger version' },
    { name: 'transactions', text: 'reads the blocks with their transactions' },
    { name: 'url', value: 'URL', text: 'the running varve, default http://127.0.0.1:8080' },
    { name: 'concurrency', value: 'N', text: 'concurrent reads, default 8' },
    { name: 'rate', value: 'N', text: 'maximum reads per second; default: no limit' },
    { name: 'skip', value: 'N', text: 'skips the first N lines, counted over all files' },
    { name: 'json', text: 'JSON lines for programs: one every ten seconds, and one at the end' }
  ],
  notes: [
    'A FILE has one read per line: a path, or a JSON request with "method", "url", "body" and "accept", of which ' +
    '"url" is required; - is standard input. docs/operations.md turns access logs of nginx and Caddy into paths. ' +
    'Only cacheable reads are requested. A read is retried when varve or its upstreams are overloaded. Ctrl-C ends ' +
    'the run and prints the command that resumes it. Exit 0: everything was read; 1: something was not, such as a ' +
    'line that is no request, which is reported and skipped; 2: a FILE cannot be read. ' +
    'VARVE_CLIENT_KEY in the environment is sent as the client\'s key.'
  ],
  examples: [
    'varve warm --from 0 --to 100000 --transactions',
    'varve warm reads.txt --rate 200',
    'cut -f 2 requests.tsv | varve warm -'
  ],
  run: async ({ flags, words }, io) => await (await import('./warm.js')).warm(flags as WarmFlags, words, io)
}, {
  name: 'record',
  summary: 'records requests to an upstream and its responses',
  aside: ' in a file, and forwards them',
  usage: ['varve record --upstream URL --out FILE [flags]'],
  flags: [
    {
      name: 'upstream',
      value: 'URL',
      text: 'the upstream, as for varve serve; may have a path prefix before /v1'
    },
    { name: 'out', value: 'FILE', text: 'the recording, readable by its owner only' },
    { name: 'listen', value: 'HOST:PORT', text: 'default 127.0.0.1:8082' },
    {
      name: 'header',
      value: '\'NAME: VALUE\'',
      // eslint-disable-next-line no-template-curly-in-string
      text: 'sent upstream with each request; may be given more than once; ${NAME} is taken from the environment',
      isRepeatable: true
    },
    { name: 'force', text: 'replaces an existing file' },
    {
      name: 'max-body-mb',
      value: 'N',
      text: 'longer bodies are forwarded but not recorded, default 16'
    },
    {
      name: 'max-mb',
      value: 'N',
      text: 'maximum file size, default 256; further requests are forwarded but not recorded'
    }
  ],
  notes: [
    'Each request and its response become one line of JSON, byte for byte, after the response has ended. Credentials ' +
    'and addresses of clients are left out: in headers, cookies, the path before /v1 and the query; *** replaces a ' +
    'credential that a response repeats. Ctrl-C ends the recording and flushes it to disk. Exit 1: the file cannot ' +
    'be written.'
  ],
  examples: [
    'varve record --upstream http://127.0.0.1:8081 --out report.jsonl',
    // eslint-disable-next-line no-template-curly-in-string
    'varve record --upstream https://node.example/key --header \'authorization: Bearer ${NODE_KEY}\' ' +
    '--out report.jsonl',
    'varve serve --upstream http://127.0.0.1:8082'
  ],
  run: async ({ flags }, io) => await (await import('./record.js')).record(flags as RecordFlags, io)
}, {
  name: 'replay',
  operands: 'FILE',
  summary: 'serves the responses of a recording',
  aside: ' of varve record, as an upstream',
  usage: ['varve replay FILE [flags]'],
  words: 'files',
  flags: [
    { name: 'listen', value: 'HOST:PORT', text: 'default 127.0.0.1:8081' },
    { name: 'timing', text: 'each response takes as long as the recorded one' }
  ],
  notes: [
    'An identical request gets the recorded response, byte for byte; else a request variant of the same read does, ' +
    'such as another form of an address or a number. Several responses to a request are served in recorded order, ' +
    'and the last one repeats. A response that was cut off is cut off again. A request without a recorded response ' +
    'gets 404 and is reported. The whole file is checked first; mistakes are listed with their lines, and varve ' +
    'exits with 2.'
  ],
  examples: [
    'varve replay report.jsonl',
    'varve replay report.jsonl --timing --listen 127.0.0.1:9000',
    'varve serve --upstream http://127.0.0.1:8081'
  ],
  run: async ({ flags, words }, io) => await (await import('./replay.js')).replay(flags as ReplayFlags, words, io)
}, {
  name: 'completion',
  operands: shells.join('|'),
  summary: 'prints the completion script of a shell',
  usage: [`varve completion ${shells.join('|')}`],
  words: shells,
  flags: [],
  notes: [
    'bash: source <(varve completion bash), in ~/.bashrc. zsh: write the script to a file _varve in a folder of ' +
    'fpath. fish: write it to ~/.config/fish/completions/varve.fish.'
  ],
  examples: shells.map(shell => `varve completion ${shell}`),
  run: async (call, io) => (await import('./completion.js')).completion(call, io)
}]
