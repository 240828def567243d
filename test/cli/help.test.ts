import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { helpOf } from '../../src/cli/help.js'
import { runCommand } from './command.js'

t.test('every help ends with examples, and varve accepts each of them', async t => {
  for (
    const command of [
      'varve',
      'serve',
      'sandbox',
      'check',
      'explain',
      'warm',
      'record',
      'replay'
    ] as const
  ) {
    const examples = (helpOf(command).trimEnd().split('\n\n').at(-1) ?? '').split('\n').filter(line =>
      /^ {2}(?:VARVE_\S+ )?varve\b/.test(line)
    )
    t.ok(examples.length > 0, command)
    for (const example of examples) {
      const words = execFileSync('sh', [
        '-c',
        `printf '%s\\n' ${example.replace(/^ *(?:VARVE_\S+ )?varve/, '').replace(/ {3,}.*$| \| .*$/, '')}`
      ], { encoding: 'utf8' }).split('\n').slice(0, -1).filter(word => word !== '')
      t.match(await runCommand(t, [...words.length === 0 ? ['serve'] : words, '--help']), { code: 0, err: '' }, example)
    }
  }
})

t.test('varve --version prints the release', async t => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
    version: string
  }
  for (const flag of ['--version', '-V']) {
    t.match(await runCommand(t, [flag]), { code: 0, out: `varve ${version}\n`, err: '' })
  }
})
