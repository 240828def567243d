import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Command } from '../../src/cli/command-definition.js'
import { commands } from '../../src/cli/commands.js'
import { shownFlag } from '../../src/cli/help.js'

const file = join(import.meta.dirname, '../../docs/cli.md')
const printedSection = /(?<=<!-- printed from src\/cli\/commands\.ts: begins -->\n)[^]*(?=<!-- ends -->)/

/** Returns the generated section of docs/cli.md, between its two marks. */
function commandsPage (): string {
  return `${commands.map(sectionOf).join('')}\n`
}

function sectionOf ({ name, summary, aside = '', usage, flags, notes = [], examples }: Command): string {
  const list = flags.map(flag => {
    const variable = flag.variable === undefined ? '' : ` (\`${flag.variable}\`)`
    return wrapped(`- \`${shownFlag(flag)}\`: ${escaped(flag.text)}${variable}`).replaceAll('\n', '\n  ')
  })
  return [
    `\n## varve ${name}`,
    escaped(`${summary.replace(/^./, letter => letter.toUpperCase())}${aside}.`),
    `<!-- not run: usage -->\n\`\`\`console\n${[...new Set([...usage, ...examples])].join('\n')}\n\`\`\``,
    ...list.length === 0 ? [] : [list.join('\n')],
    ...notes.map(note => wrapped(escaped(note)))
  ].join('\n\n') + '\n'
}

// Two columns fewer than a line of the page has, for the continued lines of a list.
function wrapped (text: string): string {
  return text.replaceAll(/(.{1,117}[^ ])(?: |$)/g, '$1\n').trimEnd()
}

function escaped (text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*')
}

t.test('docs/cli.md matches the table of commands (RENEW=1 prints it again)', async t => {
  if (process.env['RENEW'] === '1') {
    writeFileSync(file, readFileSync(file, 'utf8').replace(printedSection, () => commandsPage()))
  }
  const page = readFileSync(file, 'utf8')
  t.equal(printedSection.exec(page)?.[0], commandsPage())
  for (const { name, flags } of commands) {
    t.ok(page.includes(`\n## varve ${name}\n`), name)
    for (const flag of flags) t.ok(page.includes(`\n- \`--${flag.name}`), `${name} --${flag.name}`)
  }
})

t.test('commands and their flags have unique names, and each flag says what it does', async t => {
  t.equal(new Set(commands.map(({ name }) => name)).size, commands.length)
  for (const { name, flags, examples } of commands) {
    t.equal(new Set(flags.map(flag => flag.name)).size, flags.length, name)
    for (const flag of flags) t.not(flag.text, '', `${name} --${flag.name}`)
    t.ok(examples.length > 0, name)
  }
})
