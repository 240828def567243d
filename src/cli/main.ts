import { parseArgs, type ParseArgsConfig } from 'node:util'
import { type Flags } from '../config/load.js'
import { ConfigError } from '../config/mistakes.js'
import { isNameLike } from '../config/secrets.js'
import { type HelpTopic, helpOf, isHelpTopic } from './help.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { type RecordFlags } from './record.js'
import { type ReplayFlags } from './replay.js'
import { versionOfProgram } from '../app/version.js'
import { type WarmFlags } from './warm.js'

const text = { type: 'string' } as const
const help = { help: { type: 'boolean', short: 'h' } } as const
const serveFlags = {
  config: text,
  sandbox: { type: 'boolean' },
  upstream: { type: 'string', multiple: true },
  listen: text,
  admin: text,
  redis: text,
  workers: text,
  'log-level': text
} as const
const checkFlags = { config: text } as const
const explainFlags = { data: text, accept: text, config: text } as const
const warmFlags = {
  from: text,
  to: text,
  transactions: { type: 'boolean' },
  url: text,
  concurrency: text,
  rate: text,
  skip: text,
  json: { type: 'boolean' }
} as const
const recordFlags = {
  upstream: text,
  out: text,
  listen: text,
  header: { type: 'string', multiple: true },
  force: { type: 'boolean' },
  'max-body-mb': text,
  'max-mb': text
} as const
const replayFlags = { listen: text, timing: { type: 'boolean' } } as const
const sandboxFlags = {
  listen: text,
  seed: text,
  blocks: text,
  'block-ms': text,
  'chain-id': text,
  family: text
} as const

/** Parses a command line, runs its command and returns the exit code. */
export async function main (argv: readonly string[], io: Io): Promise<ExitCode> {
  const [first = 'serve', ...rest] = argv
  // Help without a command lists all commands.
  const isHelp = rest.length === 0 && (first === '--help' || first === '-h')
  const isVersion = rest.length === 0 && (first === '--version' || first === '-V')
  const [command, args] = isHelp
    ? ['help', rest] as const
    : isVersion
    ? ['version', rest] as const
    : first.startsWith('-')
    ? ['serve', argv] as const
    : [first, rest] as const
  try {
    return await run(command, args, io)
  } catch (error) {
    return printError(error, command, io)
  }
}

// Imports each command on demand, so that no command loads the modules of another.
async function run (command: string, args: readonly string[], io: Io): Promise<ExitCode> {
  switch (command) {
    case 'serve': {
      const values = parse(args, serveFlags)
      return values['help'] === true
        ? showHelp('serve', io)
        : await (await import('../app/serve.js')).serve(values as Flags, io)
    }
    case 'sandbox': {
      const values = parse(args, sandboxFlags)
      return values['help'] === true
        ? showHelp('sandbox', io)
        : await (await import('./sandbox.js')).runSandbox(values as Record<string, string | undefined>, io)
    }
    case 'check': {
      const { values, positionals } = parseAll(args, checkFlags, true)
      if (values['help'] === true) return showHelp('check', io)
      const { config } = values as Record<string, string | undefined>
      const files = config === undefined ? positionals : [...positionals, config]
      if (files.length > 1) throw new UsageError(`check takes one file, not ${files.length}`)
      return (await import('./check.js')).check(files[0], io)
    }
    case 'explain':
      return await runExplain(args, io)
    case 'warm': {
      const { values, positionals } = parseAll(args, warmFlags, true)
      return values['help'] === true
        ? showHelp('warm', io)
        : await (await import('./warm.js')).warm(values as WarmFlags, positionals, io)
    }
    case 'record': {
      const values = parse(args, recordFlags)
      return values['help'] === true
        ? showHelp('record', io)
        : await (await import('./record.js')).record(values as RecordFlags, io)
    }
    case 'replay': {
      const { values, positionals } = parseAll(args, replayFlags, true)
      return values['help'] === true
        ? showHelp('replay', io)
        : await (await import('./replay.js')).replay(values as ReplayFlags, positionals, io)
    }
    // Internal command: the primary process starts its workers with it.
    case 'worker':
      return await (await import('../app/worker.js')).runWorker(io)
    case 'help':
      return showHelp(topicIn(args), io)
    case 'version': {
      io.out(`varve ${versionOfProgram()}\n`)
      return exitCodes.ok
    }
    // Words that do not look like a command name may be secrets, so the error omits them.
    default:
      throw new UsageError(`unknown command${isNameLike(command) ? ` ${command}` : ''}`)
  }
}

async function runExplain (args: readonly string[], io: Io): Promise<ExitCode> {
  const { values, positionals: [method, target, ...others] } = parseAll(args, explainFlags, true)
  if (values['help'] === true) return showHelp('explain', io)
  if (method === undefined || target === undefined || others.length > 0) {
    throw new UsageError('explain takes a METHOD and a PATH')
  }
  const { data, accept, config } = values as Record<string, string | undefined>
  const { explain } = await import('./explain.js')
  return explain({ method: method.toUpperCase(), target, data, accept, config }, io)
}

function parse (args: readonly string[], options: NonNullable<ParseArgsConfig['options']>): Record<string, unknown> {
  return parseAll(args, options, false).values
}

function parseAll (
  args: readonly string[],
  options: NonNullable<ParseArgsConfig['options']>,
  allowPositionals: boolean
): { values: Record<string, unknown>, positionals: string[] } {
  try {
    return parseArgs({
      args: joinNegative(args, options),
      options: { ...options, ...help },
      strict: true,
      allowPositionals
    })
  } catch (error) {
    throw new UsageError(sentenceOf((error as Error).message))
  }
}

// `parseArgs` takes a negative number for a flag; joined with `=`, it reaches the flag's own check.
function joinNegative (args: readonly string[], options: NonNullable<ParseArgsConfig['options']>): string[] {
  return args.reduce<string[]>((joined, arg) => {
    const flag = joined.at(-1) ?? ''
    const takesValue = flag.startsWith('--') && options[flag.slice(2)]?.type === 'string'
    return takesValue && /^-[0-9]/.test(arg) ? [...joined.slice(0, -1), `${flag}=${arg}`] : [...joined, arg]
  }, [])
}

// Returns the first sentence of the library's message; the rest is advice for other situations.
function sentenceOf (message: string): string {
  const [, what = '', given = ''] = /^(Unknown option|Unexpected argument) '-{0,2}([^]*?)'(?=\.\s|$)/.exec(message) ??
    []
  // An argument without its flag may be a URL with a password, so the error omits it.
  return what !== '' && !isNameLike(given) ? what : message.split(/\.\s/, 1).join('')
}

function topicIn ([topic = 'varve', ...others]: readonly string[]): HelpTopic {
  if (others.length > 0) throw new UsageError('help takes one command')
  if (topic === '--help' || topic === '-h') return 'varve'
  if (!isHelpTopic(topic)) throw new UsageError(`unknown command${isNameLike(topic) ? ` ${topic}` : ''}`)
  return topic
}

function showHelp (command: HelpTopic, io: Io): ExitCode {
  io.out(helpOf(command))
  return exitCodes.ok
}

function printError (error: unknown, command: string, io: Io): ExitCode {
  if (error instanceof ConfigError) {
    io.err(
      `varve: the configuration${error.file === undefined ? '' : ` in ${error.file}`} has ${
        error.mistakes.length === 1 ? 'a mistake' : `${error.mistakes.length} mistakes`
      }:\n`
    )
    for (const { path, message } of error.mistakes) io.err(`  ${path}: ${message}\n`)
    return exitCodes.misused
  }
  if (error instanceof UsageError) {
    io.err(
      `varve: ${error.message}; see varve ${command !== 'varve' && isHelpTopic(command) ? `${command} ` : ''}--help\n`
    )
    return exitCodes.misused
  }
  io.err(`varve: ${error instanceof Error ? error.message : String(error)}\n`)
  return exitCodes.failed
}
