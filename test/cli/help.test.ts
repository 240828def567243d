import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../src/cli/commands.js'
import { helpOf, helpOfVarve } from '../../src/cli/help.js'
import { runCommand } from './command.js'

t.test('every help ends with examples, and varve accepts each of them', async t => {
  for (
    const [command, text] of [['varve', helpOfVarve()], ...commands.map(each => [each.name, helpOf(each)])] as const
  ) {
    const examples = ((text ?? '').trimEnd().split('\n\n').at(-1) ?? '').split('\n').filter(line =>
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

t.test('varve help COMMAND prints what the command does and its flags, as --help and -h do', async t => {
  for (const command of commands) {
    const out = helpOf(command)
    t.ok(out.startsWith(`varve ${command.name}: `), command.name)
    for (const { name } of command.flags) t.ok(out.includes(`--${name}`), `${command.name} --${name}`)
    for (const argv of [['help', command.name], [command.name, '-h']]) {
      t.same(await runCommand(t, argv), { code: 0, out, err: '' }, argv.join(' '))
    }
  }
  for (const word of ['help', '--help', '-h']) t.match(await runCommand(t, [word]), { code: 0, out: helpOfVarve() })
})

t.test('varve --version prints the release', async t => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
    version: string
  }
  for (const flag of ['--version', '-V']) {
    t.match(await runCommand(t, [flag]), { code: 0, out: `varve ${version}\n`, err: '' })
  }
})

t.test('no line of a help text is longer than 120 columns', async t => {
  for (const text of [helpOfVarve(), ...commands.map(helpOf)]) {
    t.same(text.split('\n').filter(line => line.length > 120 && !/^ {2}varve /.test(line)), [])
  }
})

t.test('a mistyped command or flag is answered with the nearest one, a far one with none', async t => {
  const cases: [string[], string][] = [
    [['chekc'], 'unknown command chekc (did you mean check?); see varve --help'],
    [['help', 'purg'], 'unknown command purg (did you mean purge?); see varve --help'],
    [['--upstreams', 'http://h'], 'Unknown option \'--upstreams\' (did you mean --upstream?); see varve serve --help'],
    [['status', '--wach'], 'Unknown option \'--wach\' (did you mean --watch?); see varve status --help'],
    [['explode'], 'unknown command explode; see varve --help']
  ]
  for (const [argv, sentence] of cases) {
    t.same(await runCommand(t, argv), { code: 2, out: '', err: `varve: ${sentence}\n` }, argv.join(' '))
  }
})

t.test('printing help or the release loads no library, so that the start stays short', async t => {
  const libraries = new Set<string>()
  const seen = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    const stated = readFileSync(file, 'utf8').matchAll(/^(?:import|export)\s([^;']*?)\s?from '([^']+)'/gm)
    for (const [, names = '', target = ''] of stated) {
      // The compiler removes imports of types alone.
      const isOfTypes = names.replace(/[{}]/g, '').split(',').every(name => /^\s*type\s|^\s*$/.test(name))
      if (isOfTypes || target.startsWith('node:')) continue
      if (target.startsWith('.')) visit(join(file, '..', target.replace(/\.js$/, '.ts')))
      else libraries.add(`${target} by ${file}`)
    }
  }
  visit(join(import.meta.dirname, '../../src/cli/main.ts'))
  t.ok(seen.size > 5, 'imports are followed')
  t.same([...libraries], [])
})
