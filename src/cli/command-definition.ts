import { type ExitCode, type Io } from '../app/io.js'

/** Flag of a command; `-h, --help` belongs to every command. */
export interface Flag {
  readonly name: string
  /** Placeholder of the value in help and completions; a flag without one is a switch. */
  readonly value?: string
  readonly text: string
  /** Environment variable that sets the same value as the flag. */
  readonly variable?: string
  readonly isRepeatable?: true
  /** Values that a completion offers. */
  readonly choices?: readonly string[]
}

/** Parsed command line: values by flag, and the words that are no flag. */
export interface Call {
  readonly flags: Readonly<Record<string, unknown>>
  readonly words: readonly string[]
}

/** One command: help, docs/cli.md, completions and the parser all read it. */
export interface Command {
  readonly name: string
  /** Words after the name in the list of commands, such as FILE. */
  readonly operands?: string
  /** Ends the sentence "varve NAME: ..."; `aside` follows it in the command's own help only. */
  readonly summary: string
  readonly aside?: string
  readonly usage: readonly string[]
  /** True if the command takes words that are no flag. */
  readonly takesWords?: true
  readonly flags: readonly Flag[]
  /** Paragraphs below the flags; Markdown without markup. */
  readonly notes?: readonly string[]
  readonly examples: readonly string[]
  /** Runs the command; imports its module, so that no command loads the modules of another. */
  readonly run: (call: Call, io: Io) => Promise<ExitCode>
}

/** Returns every word that can follow `varve`. */
export function wordsAfterVarve (commands: readonly Command[]): string[] {
  return [...commands.map(({ name }) => name), 'help', 'version']
}

/** Shells with a completion script. */
export const shells = ['bash', 'zsh', 'fish'] as const

/** Shell that can complete commands. */
export type Shell = typeof shells[number]
