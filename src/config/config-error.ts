/** Place in the configuration file; line and column count from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** Path of a key, and what was expected there. */
export interface Mistake {
  /** Empty for a mistake in the syntax of the file, which concerns no key. */
  readonly path: string
  readonly message: string
  /** Place of the value, or of an unknown key; undefined for a key that is not in the file. */
  readonly place?: Place | undefined
  /** The line of a mistake in the syntax, with a mark below it; texts that may be secrets are masked. */
  readonly line?: string
  /** A valid setting of the key. */
  readonly example?: string | undefined
  /** Known key that an unknown one may stand for. */
  readonly nearest?: string | undefined
}

/** Formats a mistake in a file as compilers do: FILE:LINE:COLUMN: KEY: MESSAGE; a mistake in the syntax has no key. */
export function mistakeText (
  { path, message, place, line, example, nearest }: Mistake,
  file: string | undefined
): string {
  const at = place === undefined || file === undefined ? '' : `${file}:${place.line}:${place.column}: `
  const hint = nearest !== undefined
    ? `; did you mean ${nearest}?`
    : example === undefined
    ? ''
    : `; for example ${example}`
  return `${at}${path === '' ? '' : `${path}: `}${message}${hint}${line === undefined ? '' : `\n${line}`}`
}

/** Error for a configuration that varve does not fully understand. */
export class ConfigError extends Error {
  readonly mistakes: readonly Mistake[]
  /** Configuration file; undefined without a file, or if the mistakes name it. */
  readonly file: string | undefined

  constructor (mistakes: readonly Mistake[], file?: string) {
    super(mistakes.map(mistake => mistakeText(mistake, file)).join('\n'))
    this.mistakes = mistakes
    this.file = file
  }
}
