import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { type Call, type Command, type Flag, type Shell, shells, wordsAfterVarve } from './command-definition.js'

const helpFlag: Flag = { name: 'help', text: 'prints help' }
const scriptOf: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript
}

/** Prints the completion script of a shell; it holds all words, so that completing starts no varve. */
export function completion ({ words: [shell, ...others], commands }: Call, io: Io): ExitCode {
  if (others.length > 0 || !shells.some(name => name === shell)) {
    throw new UsageError(`completion takes one of ${shells.join(', ')}`)
  }
  io.out(scriptOf[shell as Shell](commands))
  return exitCodes.ok
}

function flagsOf ({ flags }: Command): readonly Flag[] {
  return [...flags, helpFlag]
}

/** Completion of a value or of the words of a command; undefined where there is none. */
type Offer = Command['words']

function offerOf ({ value, choices }: Flag): Offer {
  return value === 'FILE' ? 'files' : value === undefined ? undefined : choices ?? 'any'
}

function bashScript (commands: readonly Command[]): string {
  const cases = commands.map(command => {
    const valued = flagsOf(command).filter(({ value }) => value !== undefined)
    const values = valued.map(flag => `        --${flag.name}) ${bashOf(offerOf(flag))} ;;`)
    return `    ${command.name})
      case $before in
${values.join('\n')}${values.length > 0 ? '\n' : ''}        *)
          ${bashOf(command.words)}
          [[ $word == -* ]] && words='${flagsOf(command).map(({ name }) => `--${name}`).join(' ')}' files= ;;
      esac ;;`
  })
  return `# bash completion for varve; load it with: source <(varve completion bash)
_varve() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} command=serve words= files=
  COMPREPLY=()
  if (( COMP_CWORD == 1 )) && [[ $word != -* ]]; then
    COMPREPLY=($(compgen -W '${wordsAfterVarve(commands).join(' ')}' -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
    -*) ;;
    *) (( COMP_CWORD > 1 )) && command=\${COMP_WORDS[1]} ;;
  esac
  case $command in
    help) words='${commands.map(({ name }) => name).join(' ')}' ;;
${cases.join('\n')}
  esac
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [[ -n $files ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _varve varve
`
}

function bashOf (offer: Offer): string {
  if (offer === undefined || offer === 'any') return ':'
  return offer === 'files' ? 'files=1' : `words='${offer.join(' ')}'`
}

function zshScript (commands: readonly Command[]): string {
  const described = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`)
  const cases = commands.map(command => {
    const specs = flagsOf(command).map(flag => {
      const text = flag.text.replaceAll(/[[\]:]/g, '\\$&')
      const value = flag.value === undefined
        ? ''
        : `:${flag.value.replaceAll(/[^A-Za-z]+/g, ' ').trim()}${zshOf(offerOf(flag))}`
      return quoted(`${flag.isRepeatable === true ? '*' : ''}--${flag.name}[${text}]${value}`)
    })
    const rest = command.words === undefined ? [] : [quoted(`*:word${zshOf(command.words)}`)]
    return `    ${command.name}) _arguments ${[...specs, ...rest].join(' \\\n      ')} ;;`
  })
  return `#compdef varve
# zsh completion for varve: a file _varve in a folder of fpath
_varve() {
  local -a commands
  commands=(
${described.join('\n')}
    'help:prints the help of a command'
    'version:prints the release'
  )
  if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
    _describe command commands
    return
  fi
  local command=serve
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  case $command in
    help) _describe command commands ;;
${cases.join('\n')}
  esac
}
compdef _varve varve
`
}

function zshOf (offer: Offer): string {
  if (offer === undefined || offer === 'any') return ':'
  return offer === 'files' ? ':_files' : `:(${offer.join(' ')})`
}

function fishScript (commands: readonly Command[]): string {
  const lines = commands.flatMap(command => {
    const seen = command.name === 'serve'
      ? `'not __fish_seen_subcommand_from ${wordsAfterVarve(commands).filter(word => word !== 'serve').join(' ')}'`
      : `'__fish_seen_subcommand_from ${command.name}'`
    const { words } = command
    const rest = words === undefined || words === 'any' ? [] : [`complete -c varve -n ${seen}${fishOf(words)}`]
    const flags = flagsOf(command).map(flag => {
      const value = flag.value === undefined
        ? ''
        : `${offerOf(flag) === 'files' ? ' -r' : ' -x'}${fishOf(offerOf(flag))}`
      return `complete -c varve -n ${seen} -l ${flag.name}${value} -d ${quoted(flag.text)}`
    })
    return [
      `complete -c varve -n __fish_use_subcommand -a ${command.name} -d ${quoted(command.summary)}`,
      ...rest,
      ...flags
    ]
  })
  return `# fish completion for varve: ~/.config/fish/completions/varve.fish
complete -c varve -f
complete -c varve -n __fish_use_subcommand -a help -d 'prints the help of a command'
complete -c varve -n __fish_use_subcommand -a version -d 'prints the release'
complete -c varve -n '__fish_seen_subcommand_from help' -a ${quoted(commands.map(({ name }) => name).join(' '))}
${lines.join('\n')}
`
}

function fishOf (offer: Offer): string {
  if (offer === undefined || offer === 'any') return ''
  return offer === 'files' ? ' -F' : ` -a ${quoted(offer.join(' '))}`
}

function quoted (text: string): string {
  return `'${text.replaceAll('\'', '\'\\\'\'')}'`
}
