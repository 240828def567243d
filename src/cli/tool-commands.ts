import { type WarmFlags } from './warm.js'
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
  usage: ['varve warm --from V --to V [flags]', 'varve warm FILE [flags]'],
  words: 'files',
  flags: [
    { name: 'from', value: 'V', text: 'reads blocks, beginning with the one that contains this ledger version' },
    { name: 'to', value: 'V', text: 'ends with the block that contains this ledger version' },
    { name: 'transactions', text: 'reads the blocks with their transactions' },
    { name: 'url', value: 'URL', text: 'the running varve, default http://127.0.0.1:8080' },
    { name: 'concurrency', value: 'N', text: 'concurrent reads, default 8' },
    { name: 'rate', value: 'N', text: 'maximum reads per second; default: no limit' },
    { name: 'skip', value: 'N', text: 'skips the first N lines of FILE' }
  ],
  notes: [
    'A FILE has one read per line: a path, or a JSON request with "method", "url", "body" and "accept", of which ' +
    '"url" is required; - is standard input. docs/operations.md turns access logs of nginx and Caddy into paths. ' +
    'Only cacheable reads are requested. A read is retried when varve or its upstreams are overloaded. Ctrl-C ends ' +
    'the run and prints the command that resumes it. Exit 0: everything was read; 1: something was not, such as a ' +
    'line that is no request, which is reported and skipped; 2: FILE cannot be read. ' +
    'VARVE_CLIENT_KEY in the environment is sent as the client\'s key.'
  ],
  examples: [
    'varve warm --from 0 --to 100000 --transactions',
    'varve warm reads.txt --rate 200',
    'cut -f 2 requests.tsv | varve warm -'
  ],
  run: async ({ flags, words }, io) => await (await import('./warm.js')).warm(flags as WarmFlags, words, io)
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
