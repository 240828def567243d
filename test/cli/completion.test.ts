import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commands } from '../../src/cli/commands.js'
import { shells, wordsAfterVarve } from '../../src/cli/command-definition.js'
import { runCommand } from './command.js'

/** Completes a command line as the Tab key does; its last word is the unfinished one. */
async function complete (t: Test, line: string, end?: number): Promise<string[]> {
  const environment = { COMP_LINE: line, ...(end !== undefined && { COMP_POINT: String(end) }) }
  const { code, out } = await runCommand(t, ['complete', 'varve', 'ignored', 'ignored'], environment)
  t.equal(code, 0)
  return out.split('\n').filter(word => word !== '')
}

t.test('a shell completes commands, flags and the values of a flag', async t => {
  t.same(await complete(t, 'varve '), wordsAfterVarve(commands))
  t.same(await complete(t, 'varve st'), ['status'])
  t.same(await complete(t, 'varve status --x', 'varve st'.length), ['status'], 'up to the cursor')
  t.same(await complete(t, 'varve help pu'), ['purge'])
  t.same(await complete(t, 'varve --log'), ['--log-level'], 'serve is the default command')
  t.same(await complete(t, 'varve --sandbox --log'), ['--log-level'])
  t.same(await complete(t, 'varve serve --log-level w'), ['warn'])
  t.same(await complete(t, 'varve completion '), shells)
  for (const line of ['varve serve --listen ', 'varve sandbox ', 'varve warm ', 'varve nothing ', '']) {
    t.same(await complete(t, line), line === '' ? wordsAfterVarve(commands) : [], `${line}: files, if anything`)
  }
  for (const { name, flags } of commands) {
    t.same(await complete(t, `varve ${name} --`), [...flags.map(flag => `--${flag.name}`), '--help'], name)
  }
})

t.test('the bash script registers varve, loaded as its help says', async t => {
  const { out: script } = await runCommand(t, ['completion', 'bash'])
  const file = join(t.testdir({ script }), 'script')
  const program = 'source <(cat "$1"); complete -p varve'
  const printed = execFileSync('bash', ['--norc', '-c', program, 'bash', file], { encoding: 'utf8' })
  t.equal(printed, 'complete -o default -C \'varve complete\' varve\n')
})

t.test('the scripts of zsh and fish ask varve too', async t => {
  for (const shell of ['zsh', 'fish'] as const) {
    const { code, out } = await runCommand(t, ['completion', shell])
    t.match([code, out], [0, /\bcomplete .*varve complete\b/], shell)
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
