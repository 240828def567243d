import { type Command, type Flag } from './command-definition.js'
import { commands } from './commands.js'

const columns = 120
const flagColumn = 25

/** Returns the list of all commands. */
export function helpOfVarve (): string {
  const lines = commands.map(({ name, operands, summary }) => [
    name === 'serve' ? 'varve [serve]' : `varve ${name}${operands === undefined ? '' : ` ${operands}`}`,
    summary
  ])
  const width = Math.max(...lines.map(([words = '']) => words.length)) + 2
  return `varve: the caching read proxy for ledger nodes

${lines.map(([words = '', summary]) => `  ${words.padEnd(width)}${summary}`).join('\n')}

  ${'varve help COMMAND'.padEnd(width)}the flags of a command, with examples; also varve COMMAND --help
  ${'varve version'.padEnd(width)}prints the release; also varve --version, varve -V

Exit codes: 0 success, 1 failure, 2 a mistake in the command line or the configuration.

  varve --sandbox        to try varve on an embedded node with made-up data
  varve serve --upstream http://127.0.0.1:8081
`
}

/** Returns the help text of a command. */
export function helpOf ({ name, summary, aside = '', usage, flags, notes = [], examples }: Command): string {
  return [
    `varve ${name}: ${summary}${aside}`,
    usage.map(line => `  ${line}`).join('\n'),
    flags.map(flagLines).join('\n'),
    ...notes.map(note => wrapped(note, 0)),
    examples.map(line => `  ${line}`).join('\n')
  ].filter(part => part !== '').join('\n\n') + '\n'
}

/** Returns a flag with its placeholder, as help and docs/cli.md show it. */
export function shownFlag ({ name, value }: Flag): string {
  return `--${name}${value === undefined ? '' : ` ${value}`}`
}

function flagLines (flag: Flag): string {
  const shown = `  ${shownFlag(flag)}`
  const text = flag.text + (flag.variable === undefined ? '' : ` (${flag.variable})`)
  return `${shown.padEnd(flagColumn - 1)} ${wrapped(text, flagColumn)}`
}

/** Wraps a text; lines after the first are indented. */
function wrapped (text: string, indent: number): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line !== '' && indent + line.length + 1 + word.length > columns) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join(`\n${' '.repeat(indent)}`)
}
