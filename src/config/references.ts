import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { isSecret } from './secrets.js'
import { tildeMistake } from './value-checks.js'

/** Configuration tree with resolved references. */
export interface ResolvedTree {
  readonly value: unknown
  /** Texts without file content, by dotted path; validation may convert them to numbers or booleans. */
  readonly texts: ReadonlyMap<string, string>
  /** Dotted paths of the values that contain the text of a secret file. */
  readonly fromFiles: readonly string[]
  /** Environment variables that the file refers to. */
  readonly variables: ReadonlySet<string>
  readonly badReferences: readonly BadReference[]
  /** Dotted paths of secrets that are missing and allowed to be. */
  readonly missingSecrets: readonly string[]
}

/** Unresolved reference, and the path of its key. */
export interface BadReference {
  readonly path: readonly string[]
  readonly message: string
}

// A dollar sign outside these forms matches alone.
const reference = /\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\{file:)(?:([^}]*)\})?)?/g
// eslint-disable-next-line no-template-curly-in-string
const strayDollar = 'expected ${NAME}, ${file:PATH}, or $$ for a literal dollar; $NAME and ${NAME:-x} are not ' +
  'replaced'

/** Replaces `${NAME}`, `${file:PATH}` and `$$` in values, but not in keys and not in replaced text. */
export function resolveReferences (
  tree: unknown,
  environment: Readonly<Record<string, string | undefined>>,
  allowsMissingSecrets = false
): ResolvedTree {
  const texts = new Map<string, string>()
  const fromFiles: string[] = []
  const variables = new Set<string>()
  const badReferences: BadReference[] = []
  const missingSecrets: string[] = []
  return { value: resolved(tree, []), texts, fromFiles, variables, badReferences, missingSecrets }

  function resolved (value: unknown, path: readonly string[]): unknown {
    if (Array.isArray(value)) return value.map((item, at) => resolved(item, [...path, String(at)]))
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, [...path, key])]))
    }
    return typeof value === 'string' && value.includes('$') ? replaced(value, path) : value
  }

  function replaced (value: string, path: readonly string[]): string {
    let hasFile = false
    let hasStray = false
    const text = value.replace(
      reference,
      (
        whole,
        dollar: string | undefined,
        name: string | undefined,
        opened: string | undefined,
        file: string | undefined
      ) => {
        if (dollar !== undefined) return dollar
        if (name !== undefined) return fromEnvironment(name, path, value === whole)
        if (opened === undefined) {
          hasStray = true
          return whole
        }
        hasFile = true
        if (file === undefined) return addBadReference(path, 'expected a } after ${file:')
        if (file === '') return addBadReference(path, 'expected the path of a file after ${file:')
        const found = readSecretFile(file)
        if ('text' in found) return found.text
        if (isAllowedToMiss(path)) return placeholderFor(path, value === whole)
        return addBadReference(path, tildeMistake(file) ?? `the file ${JSON.stringify(file)} ${found.fault}`)
      }
    )
    // Reports a stray sign once and without the text, which may be a password that contains a dollar sign.
    if (hasStray) addBadReference(path, strayDollar)
    // File content is never converted to a number, because a secret would lose its leading zeros.
    if (hasFile) fromFiles.push(path.join('.'))
    else texts.set(path.join('.'), text)
    return text
  }

  function fromEnvironment (name: string, path: readonly string[], isWhole: boolean): string {
    variables.add(name)
    const text = environment[name]
    if ((text === undefined || text.trim() === '') && isAllowedToMiss(path)) return placeholderFor(path, isWhole)
    if (text === undefined) return addBadReference(path, `the environment variable ${name} is not set`)
    // Rejects an empty secret, or an upstream that requires credentials would get none (law 9: credentials stay).
    if (text.trim() === '' && isSecret(path)) {
      return addBadReference(
        path,
        `the environment variable ${name} is empty; expected a secret: set the variable, or remove the key`
      )
    }
    return text
  }

  function isAllowedToMiss (path: readonly string[]): boolean {
    return allowsMissingSecrets && isSecret(path)
  }

  // Each placeholder differs, because equal client keys and equal upstreams are mistakes.
  function placeholderFor (path: readonly string[], isWhole: boolean): string {
    missingSecrets.push(path.join('.'))
    const text = `missing-${missingSecrets.length}`
    const scheme = path[0] === 'upstreams' ? 'http' : 'redis'
    return isWhole && path.at(-1) === 'url' ? `${scheme}://${text}.invalid` : text
  }

  function addBadReference (path: readonly string[], message: string): string {
    badReferences.push({ path, message })
    return ''
  }
}

const maxSecretBytes = 65_536

/** Reads a file without its final line break; a fault never quotes the content. */
function readSecretFile (file: string): { readonly text: string } | { readonly fault: string } {
  try {
    const bytes = readPlainFile(file)
    if (typeof bytes === 'string') return { fault: bytes }
    if (bytes.includes(0)) return { fault: 'contains a NUL byte' }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '')
    return text.trim() === '' ? { fault: 'is empty' } : { text }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return {
      fault: code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'is not UTF-8 text' : `cannot be read (${String(code)})`
    }
  }
}

function readPlainFile (file: string): Buffer | string {
  // Opens without blocking: a pipe without a writer would block the start, and all responses at a reload.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const found = fstatSync(descriptor)
    if (!found.isFile()) return 'is not a regular file'
    const bytes = found.size > maxSecretBytes ? undefined : readFileSync(descriptor)
    // A file that is generated while it is read may be larger than it says.
    return bytes === undefined || bytes.length > maxSecretBytes ? 'is larger than 64 KiB' : bytes
  } finally {
    closeSync(descriptor)
  }
}
