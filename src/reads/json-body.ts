import { withoutBlanks } from './accept.js'
import { isObject, type JsonDocument, memberTexts, readJson } from './json-text.js'
import { invalidInput, Refusal } from './refusal.js'

/** A body that is one JSON object: its members as values, and their texts as the client wrote them, blanks dropped. */
export interface JsonBody {
  readonly members: Readonly<Record<string, unknown>>
  /** The text of a member that must be there. */
  textOf (name: string): string
}

/** Reads such a body; unknown members are for nobody, as nodes ignore them. */
export function readJsonBody (contentType: string | undefined, bytes: Buffer): JsonBody {
  if (!isJson(contentType)) throw new Refusal(415, 'web_framework_error', 'the content type must be application/json')
  const document = readJson(bytes)
  if (document === undefined || !isObject(document.value)) throw invalidInput('parse request payload error: not one JSON object')
  return { members: document.value, textOf: textsOf(document) }
}

/** A member that must be a text. */
export function stringIn ({ members }: JsonBody, name: string): string {
  const text = members[name]
  if (typeof text !== 'string') throw invalidInput(`parse request payload error: \`${name}\` must be a string`)
  return text
}

function textsOf (document: JsonDocument): JsonBody['textOf'] {
  const texts = memberTexts(document)
  return name => {
    const text = texts.get(name)
    if (text === undefined) throw invalidInput(`parse request payload error: \`${name}\` is missing`)
    return text
  }
}

function isJson (contentType: string | undefined): boolean {
  return /^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)[ \t]*(?:;|$)/i.test(withoutBlanks(contentType ?? ''))
}
