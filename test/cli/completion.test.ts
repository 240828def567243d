import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commands } from '../../src/cli/commands.js'
import { shells, wordsAfterVarve } from '../../src/cli/command-definition.js'
import { runCommand } from './command.js'

/** Completes a command line in a real bash, as the Tab key does; the last word is the unfinished one. */
async function complete (t: Test, words: readonly string[], folder = '.'): Promise<string[]> {
  const { out: script } = await runCommand(t, ['completion', 'bash'])
  const program = `${script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _varve; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['--norc', '-c', program, 'bash', ...words], { cwd: folder, encoding: 'utf8' })
    .split('\n').filter(word => word !== '').sort()
}

t.test('bash completes commands, flags, files and the values of a flag', async t => {
  t.same(await complete(t, ['varve', '']), wordsAfterVarve(commands).sort())
  t.same(await complete(t, ['varve', 'st']), ['status'])
  t.same(await complete(t, ['varve', 'help', 'pu']), ['purge'])
  t.same(await complete(t, ['varve', '--log']), ['--log-level'], 'serve is the default command')
  t.same(await complete(t, ['varve', 'serve', '--log-level', 'w']), ['warn'])
  t.same(await complete(t, ['varve', 'completion', '']), [...shells].sort())
  t.same(await complete(t, ['varve', 'serve', '--listen', '']), [], 'an address has no completion')
  t.same(await complete(t, ['varve', 'sandbox', '']), [])
  const folder = t.testdir({ 'my settings.yaml': '', 'reads.txt': '' })
  t.same(await complete(t, ['varve', 'serve', '--config', 'my'], folder), ['my settings.yaml'])
  t.same(await complete(t, ['varve', 'warm', ''], folder), ['my settings.yaml', 'reads.txt'])
  t.same(await complete(t, ['varve', 'check', 're'], folder), ['reads.txt'])
  for (const { name, flags } of commands) {
    t.same(
      await complete(t, ['varve', name, '--']),
      [...flags.map(flag => `--${flag.name}`), '--help'].sort(),
      name
    )
  }
})

t.test('the bash script registers itself, also when it is loaded as its help says', async t => {
  const { out: script } = await runCommand(t, ['completion', 'bash'])
  const file = join(t.testdir({ script }), 'script')
  t.equal(
    execFileSync('bash', ['--norc', '-c', 'source <(cat "$1"); complete -p varve', 'bash', file], { encoding: 'utf8' }),
    'complete -F _varve varve\n'
  )
})

t.test('the scripts of zsh and fish name every command and flag', async t => {
  for (const shell of ['zsh', 'fish'] as const) {
    const { code, out, err } = await runCommand(t, ['completion', shell])
    t.same([code, err], [0, ''])
    for (const { name, flags } of commands) {
      t.match(out, new RegExp(`\\b${name}\\b`), name)
      for (const flag of flags) {
        t.ok(out.includes(shell === 'zsh' ? `--${flag.name}[` : `-l ${flag.name} `), `${shell} ${name} --${flag.name}`)
      }
    }
  }
})

t.test('completion takes one known shell', async t => {
  for (const words of [[], ['tcsh'], ['bash', 'zsh']]) {
    t.same(await runCommand(t, ['completion', ...words]), {
      code: 2,
      out: '',
      err: 'varve: completion takes one of bash, zsh, fish; see varve completion --help\n'
    })
  }
})
