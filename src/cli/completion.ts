import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { type Command, type Shell, shells, wordsAfterVarve } from './command-definition.js'

// Each shell runs `varve complete` at a Tab, and offers files if `varve complete` prints no word.
const register = 'complete -o default -C \'varve complete\' varve'
const scripts: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for varve; load it with: source <(varve completion bash)\n${register}\n`,
  zsh: '# zsh completion for varve; load it with: source <(varve completion zsh)\n' +
    `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${register}\n`,
  fish: '# fish completion for varve: ~/.config/fish/completions/varve.fish\n' +
    'complete -c varve -a \'(env COMP_LINE=(commandline -cp | string collect) varve complete)\'\n'
}

/** Prints the completion script of a shell. */
export function completion ([shell, ...others]: readonly string[], io: Io): ExitCode {
  if (others.length > 0 || !shells.some(name => name === shell)) {
    throw new UsageError(`completion takes one of ${shells.join(', ')}`)
  }
  io.out(scripts[shell as Shell])
  return exitCodes.ok
}

/** Prints the words that can end the shell's command line at its cursor. */
export function complete (commands: readonly Command[], { environment, out }: Io): ExitCode {
  const { COMP_LINE: line = '', COMP_POINT: end } = environment
  for (const word of completionsOf(commands, line.slice(0, end === undefined ? undefined : Number(end)))) {
    out(`${word}\n`)
  }
  return exitCodes.ok
}

function completionsOf (commands: readonly Command[], line: string): string[] {
  const before = line.trimStart().split(/\s+/).slice(1)
  const word = before.pop() ?? ''
  const [first = ''] = before
  return offersFor(commands, first, before.at(-1) ?? '', word).filter(offer => offer.startsWith(word))
}

function offersFor (
  commands: readonly Command[],
  first: string,
  last: string,
  word: string
): readonly string[] {
  if (first === '' && !word.startsWith('-')) return wordsAfterVarve(commands)
  if (first === 'help') return commands.map(({ name }) => name)
  const command = commands.find(({ name }) => name === (first === '' || first.startsWith('-') ? 'serve' : first))
  const flag = command?.flags.find(({ name, value }) => value !== undefined && last === `--${name}`)
  if (flag !== undefined) return flag.choices ?? []
  if (word.startsWith('-')) return [...command?.flags.map(({ name }) => `--${name}`) ?? [], '--help']
  return command?.name === 'completion' ? shells : []
}
