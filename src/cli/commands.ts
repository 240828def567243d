import { readFileSync } from 'node:fs'
import { type Flags } from '../config/load.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { type AdminFlags } from './admin.js'
import { type CheckFlags } from './check.js'
import { type Command, type Flag, shells } from './command-definition.js'
import { type WarmFlags } from './warm.js'

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']
const admin: Flag = {
  name: 'admin',
  value: 'URL',
  text: 'admin listener of the running varve, default http://127.0.0.1:9464',
  variable: 'VARVE_ADMIN'
}

/** Every command, in the order of help. */
export const commands: readonly Command[] = [{
  name: 'serve',
  summary: 'the caching read proxy',
  aside: ' (the default command)',
  usage: ['varve [serve] [flags]'],
  flags: [
    {
      name: 'config',
      value: 'FILE',
      text: 'settings; config/varve.yaml lists every key',
      variable: 'VARVE_CONFIG'
    },
    {
      name: 'upstream',
      value: 'URL',
      text: 'a full node; may be given more than once; commas separate URLs in the variable',
      variable: 'VARVE_UPSTREAM',
      isRepeatable: true
    },
    {
      name: 'sandbox',
      text: 'instead of an upstream: an embedded node with made-up data',
      variable: 'VARVE_SANDBOX=1'
    },
    {
      name: 'listen',
      value: 'HOST:PORT',
      text: 'public listener, also unix:PATH; default 127.0.0.1:8080',
      variable: 'VARVE_LISTEN'
    },
    { name: 'admin', value: 'HOST:PORT', text: 'admin listener, default 127.0.0.1:9464', variable: 'VARVE_ADMIN' },
    { name: 'disk', value: 'PATH', text: 'folder of a tier that outlives restarts', variable: 'VARVE_DISK' },
    { name: 'redis', value: 'URL', text: 'tier that replicas share', variable: 'VARVE_REDIS' },
    {
      name: 'workers',
      value: 'N',
      text: 'processes that share the listener, default 1',
      variable: 'VARVE_WORKERS'
    },
    {
      name: 'log-level',
      value: 'LEVEL',
      text: `${logLevels.join(', ')}; default info`,
      variable: 'VARVE_LOG_LEVEL',
      choices: logLevels
    }
  ],
  notes: [
    'A flag overrides the environment, which overrides the file, which overrides the default. Without an upstream ' +
    'varve needs --sandbox. SIGHUP reads the configuration again; SIGTERM and Ctrl-C finish requests in flight and ' +
    'exit. Log lines are readable at a terminal, and JSON objects elsewhere.'
  ],
  examples: [
    'varve --upstream http://127.0.0.1:8081',
    'varve --sandbox',
    'varve serve --upstream http://127.0.0.1:8081 --redis redis://127.0.0.1:6379 --workers 2',
    'varve serve --config config/one-node.yaml --listen 0.0.0.0:8080'
  ],
  run: async ({ flags }, io) => await (await import('./serve.js')).serve(flags as Flags, io)
}, {
  name: 'check',
  operands: '[FILE]',
  summary: 'validates a configuration',
  usage: ['varve check [FILE] [flags]'],
  takesWords: true,
  flags: [
    { name: 'config', value: 'FILE', text: 'the same as FILE', variable: 'VARVE_CONFIG' },
    {
      name: 'online',
      text: 'also contacts every upstream and Redis, tries certificate, key and disk folder, and prints what it finds'
    },
    { name: 'json', text: 'prints one JSON object: settings, warnings, mistakes and findings' },
    {
      name: 'allow-missing-secrets',
      text: 'accepts secrets whose variable or file is missing, as in a review before deployment'
    }
  ],
  notes: [
    'Prints the effective settings, secrets masked, or every mistake with file, line, column and key. It rejects ' +
    'what varve serve would reject on this machine. Give as variables what you give varve serve as flags, such as ' +
    'VARVE_UPSTREAM. Exit 0: valid, and online all is well; 1: valid, but something that it names has a problem; 2: ' +
    'mistakes.'
  ],
  examples: [
    'varve check config/one-node.yaml',
    'varve check --online --config config/pruned-and-archive.yaml',
    'VARVE_UPSTREAM=http://127.0.0.1:8081 varve check --json'
  ],
  run: async ({ flags, words }, io) => {
    const { config } = flags as CheckFlags
    const files = config === undefined ? words : [...words, config]
    if (files.length > 1) throw new UsageError(`check takes one file, not ${files.length}`)
    return await (await import('./check.js')).check(files[0], flags as CheckFlags, io)
  }
}, {
  name: 'schema',
  summary: 'prints the JSON Schema of the configuration',
  usage: ['varve schema'],
  flags: [],
  notes: [
    'Editors with a YAML language server read it through the first line of each file in config/.'
  ],
  examples: ['varve schema'],
  run: async (_call, io) => printSchema(io)
}, {
  name: 'explain',
  operands: 'METHOD PATH',
  summary: 'how varve would serve a request',
  aside: ', without contacting an upstream',
  usage: ['varve explain METHOD PATH [flags]'],
  takesWords: true,
  flags: [
    { name: 'data', value: 'JSON', text: 'the body of a POST' },
    { name: 'accept', value: 'TYPE', text: 'the client\'s Accept' },
    { name: 'config', value: 'FILE', text: 'settings; passThrough, pages, latest and limits affect the result' }
  ],
  notes: [
    'PATH may be a whole URL. Prints the endpoint, the upstream request, the key, the class (immutable, page, ' +
    'moving, pass-through, refused) and the reason. The exit code is 0 for every class.'
  ],
  examples: [
    'varve explain GET \'/v1/accounts/1/modules?ledger_version=%2B007\'',
    'varve explain POST /v1/tables/0x5eed/item?ledger_version=7 ' +
    '--data \'{"key_type":"u64","value_type":"u64","key":"07"}\''
  ],
  run: async ({ flags, words: [method, target, ...others] }, io) => {
    if (method === undefined || target === undefined || others.length > 0) {
      throw new UsageError('explain takes a METHOD and a PATH')
    }
    const { data, accept, config } = flags as Record<string, string | undefined>
    const { explain } = await import('./explain.js')
    return explain({ method: method.toUpperCase(), target, data, accept, config }, io)
  }
}, {
  name: 'status',
  summary: 'the state of a running varve on one screen',
  usage: ['varve status [flags]'],
  flags: [
    admin,
    { name: 'watch', text: 'prints it again every two seconds, until Ctrl-C' },
    { name: 'json', text: 'prints /status.json instead, on one line' }
  ],
  notes: ['Exit 0: varve serves reads; 1: it does not, or its admin listener cannot be reached.'],
  examples: ['varve status --admin http://127.0.0.1:9464 --watch'],
  run: async ({ flags }, io) => await (await import('./status.js')).status(flags as AdminFlags, io)
}, {
  name: 'purge',
  operands: 'METHOD URL',
  summary: 'removes a read from the cache of a running varve',
  usage: ['varve purge METHOD URL [flags]', 'varve purge --account ADDRESS [flags]', 'varve purge --all [flags]'],
  takesWords: true,
  flags: [
    admin,
    { name: 'data', value: 'JSON', text: 'the body of a POST' },
    { name: 'account', value: 'ADDRESS', text: 'purges what depends on an account or a table' },
    { name: 'all', text: 'purges everything: a new space begins' }
  ],
  notes: [
    'VARVE_ADMIN_TOKEN is sent as the admin token. One version of a block purges the block in all its forms. Exit 0: ' +
    'purged here and in Redis; 1: rejected, or purged here, and elsewhere only once Redis is reachable. The output ' +
    'says if nothing of the read was stored.'
  ],
  examples: [
    'varve purge GET \'/v1/accounts/0x1/modules?ledger_version=2000\'',
    'varve purge POST \'/v1/tables/0x5eed/item?ledger_version=2000\' ' +
    '--data \'{"key_type":"u64","value_type":"u64","key":"7"}\'',
    'varve purge --account 0x1',
    'varve purge --all --admin http://127.0.0.1:9464'
  ],
  run: async ({ flags, words }, io) => await (await import('./admin.js')).purge(flags as AdminFlags, words, io)
}, {
  name: 'reload',
  summary: 'reads the configuration of a running varve again, as SIGHUP does',
  usage: ['varve reload [flags]'],
  flags: [admin],
  notes: [
    'VARVE_ADMIN_TOKEN is sent as the admin token. Prints the keys that changed and those that need a restart. ' +
    'Exit 0: reloaded; 1: rejected, or varve cannot be reached; 2: mistakes, and the previous configuration stays ' +
    'in use.'
  ],
  examples: ['varve reload --admin http://127.0.0.1:9464'],
  run: async ({ flags }, io) => await (await import('./admin.js')).reload(flags as AdminFlags, io)
}, {
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
  takesWords: true,
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
    'A FILE has one read per line: a path, or a JSON request with "method", "url", "body" and "accept". A FILE - is ' +
    'standard input; docs/operations.md turns access logs of nginx and Caddy into paths. Only cacheable reads are ' +
    'requested, and reads of clients go first. Ctrl-C prints the command that resumes the run. VARVE_CLIENT_KEY is ' +
    'sent as the client\'s key. Exit 0: everything was read; 1: something was not, such as a line that is no ' +
    'request; 2: FILE cannot be read.'
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
  takesWords: true,
  flags: [],
  notes: [
    'bash, zsh: source <(varve completion bash), or zsh, in ~/.bashrc or ~/.zshrc. fish: write the script to ' +
    '~/.config/fish/completions/varve.fish.'
  ],
  examples: ['varve completion bash'],
  run: async ({ words }, io) => (await import('./completion.js')).completion(words, io)
}]

/** Returns the command of a name. */
export function findCommand (name: string): Command | undefined {
  return commands.find(command => command.name === name)
}

/** Prints the JSON Schema of the configuration, as the examples of the package name it. */
function printSchema (io: Io): ExitCode {
  io.out(readFileSync(new URL('../../config/varve.schema.json', import.meta.url), 'utf8'))
  return exitCodes.ok
}
