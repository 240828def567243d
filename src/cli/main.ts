import { parseArgs, type ParseArgsConfig } from 'node:util'
import { ConfigError, mistakeText } from '../config/config-error.js'
import { suggestionFor } from '../config/nearest-name.js'
import { isNameLike } from '../config/secrets.js'
import { type ExitCode, exitCodes, type Io, UsageError, versionOfProgram } from '../app/io.js'
import { type Call, type Command, wordsAfterVarve } from './command-definition.js'
import { findCommand, commands } from './commands.js'
import { helpOf, helpOfVarve } from './help.js'

/** Parses a command line, runs its command and returns the exit code. */
export async function main (argv: readonly string[], io: Io): Promise<ExitCode> {
  const [first = 'serve', ...rest] = argv
  // Help without a command lists all commands.
  const isHelp = rest.length === 0 && (first === '--help' || first === '-h')
  const isVersion = rest.length === 0 && (first === '--version' || first === '-V')
  const [name, args] = isHelp
    ? ['help', rest] as const
    : isVersion
    ? ['version', rest] as const
    : first.startsWith('-')
    ? ['serve', argv] as const
    : [first, rest] as const
  try {
    return await run(name, args, io)
  } catch (error) {
    return printError(error, findCommand(name), io)
  }
}

async function run (name: string, args: readonly string[], io: Io): Promise<ExitCode> {
  switch (name) {
    // Internal command: the primary process starts its workers with it.
    case 'worker':
      return await (await import('../app/worker.js')).runWorker(io)
    // Internal command: shells complete with it.
    case 'complete':
      return (await import('./completion.js')).complete(commands, io)
    case 'help':
      io.out(helpFor(args))
      return exitCodes.ok
    case 'version':
      io.out(`varve ${versionOfProgram()}\n`)
      return exitCodes.ok
  }
  const command = requireCommand(name, wordsAfterVarve(commands))
  const call = parse(args, command)
  if (call.flags['help'] !== true) return await command.run(call, io)
  io.out(helpOf(command))
  return exitCodes.ok
}

function helpFor ([topic, ...others]: readonly string[]): string {
  if (others.length > 0) throw new UsageError('help takes one command')
  if (topic === undefined || topic === 'varve' || topic === '--help' || topic === '-h') return helpOfVarve()
  return helpOf(requireCommand(topic, commands.map(({ name }) => name)))
}

// Words that do not look like a command name may be secrets, so the error omits them.
function requireCommand (name: string, words: readonly string[]): Command {
  const command = findCommand(name)
  if (command !== undefined) return command
  throw new UsageError(`unknown command${isNameLike(name) ? ` ${name}${suggestionFor(name, words)}` : ''}`)
}

function parse (args: readonly string[], { flags, takesWords }: Command): Call {
  const options: NonNullable<ParseArgsConfig['options']> = {
    ...Object.fromEntries(flags.map(({ name, value, isRepeatable = false }) => [
      name,
      { type: value === undefined ? 'boolean' : 'string', multiple: isRepeatable } as const
    ])),
    help: { type: 'boolean', short: 'h' }
  }
  try {
    const { values, positionals } = parseArgs({
      args: joinNegative(args, options),
      options,
      strict: true,
      allowPositionals: takesWords === true
    })
    return { flags: values, words: positionals }
  } catch (error) {
    throw new UsageError(sentenceOf((error as Error).message, Object.keys(options)))
  }
}

// Joins a negative number to its flag with `=`, because `parseArgs` would take it for a flag.
function joinNegative (args: readonly string[], options: NonNullable<ParseArgsConfig['options']>): string[] {
  return args.reduce<string[]>((joined, arg) => {
    const flag = joined.at(-1) ?? ''
    const takesValue = flag.startsWith('--') && options[flag.slice(2)]?.type === 'string'
    return takesValue && /^-[0-9]/.test(arg) ? [...joined.slice(0, -1), `${flag}=${arg}`] : [...joined, arg]
  }, [])
}

// Returns the first sentence of the library's message; the rest is advice for other situations.
function sentenceOf (message: string, names: readonly string[]): string {
  const [, what = '', given = ''] = /^(Unknown option|Unexpected argument) '-{0,2}([^]*?)'(?=\.\s|$)/.exec(message) ??
    []
  // An argument without its flag may be a URL with a password, so the error omits it.
  if (what !== '' && !isNameLike(given)) return what
  const suggestion = what === 'Unknown option' ? suggestionFor(`--${given}`, names.map(name => `--${name}`)) : ''
  return message.split(/\.\s/, 1).join('') + suggestion
}

function printError (error: unknown, command: Command | undefined, io: Io): ExitCode {
  if (error instanceof ConfigError) {
    io.err(
      `varve: the configuration${error.file === undefined ? '' : ` in ${error.file}`} has ${
        error.mistakes.length === 1 ? 'a mistake' : `${error.mistakes.length} mistakes`
      }:\n`
    )
    for (const mistake of error.mistakes) io.err(`  ${mistakeText(mistake, error.file)}\n`)
    return exitCodes.misused
  }
  if (error instanceof UsageError) {
    io.err(`varve: ${error.message}; see varve ${command === undefined ? '' : `${command.name} `}--help\n`)
    return exitCodes.misused
  }
  io.err(`varve: ${error instanceof Error ? error.message : String(error)}\n`)
  return exitCodes.failed
}
