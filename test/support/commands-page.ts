import { type Command } from '../../src/cli/command-definition.js'
import { commands } from '../../src/cli/commands.js'
import { shownFlag } from '../../src/cli/help.js'

/** Returns the generated section of docs/cli.md, between its two marks. */
export function commandsPage (): string {
  const overview = commands.map(({ name, operands, summary }) =>
    `| [\`varve ${name}${
      operands === undefined ? '' : ` ${operands.replaceAll('|', '\\|')}`
    }\`](#varve-${name}) | ${summary} |`
  )
  return `\n| command | does |\n|---|---|\n${overview.join('\n')}\n${commands.map(sectionOf).join('')}\n`
}

function sectionOf ({ name, summary, aside = '', usage, flags, notes = [], examples }: Command): string {
  const table = flags.map(flag =>
    `| \`${shownFlag(flag)}\` | ${flag.variable === undefined ? '' : `\`${flag.variable}\``} | ${escaped(flag.text)} |`
  )
  return [
    `\n## varve ${name}`,
    escaped(`${summary.replace(/^./, letter => letter.toUpperCase())}${aside}.`),
    blockOf(usage),
    ...table.length === 0 ? [] : [`| flag | environment | does |\n|---|---|---|\n${table.join('\n')}`],
    ...notes.map(note => escaped(note).replaceAll(/(.{1,118}[^ ])(?: |$)/g, '$1\n').trimEnd()),
    blockOf(examples)
  ].join('\n\n') + '\n'
}

function blockOf (lines: readonly string[]): string {
  return `<!-- not run: usage and examples -->\n\`\`\`console\n${lines.join('\n')}\n\`\`\``
}

function escaped (text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*')
}
