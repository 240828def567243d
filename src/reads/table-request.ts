import { withoutBlanks } from './accept.js'
import { isObject, memberTexts, readJson } from './json-text.js'
import { type ReadBody } from './read.js'
import { invalidInput, Refusal } from './refusal.js'
import { canonicalKey } from './table-key.js'
import { printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/** Reads the body of a table item look-up; unknown members are dropped, as nodes ignore them. */
export function readTableRequest (contentType: string | undefined, bytes: Buffer): ReadBody {
  if (!isJson(contentType)) {
    throw new Refusal(415, 'web_framework_error', 'the content type must be application/json')
  }
  const document = readJson(bytes)
  if (document === undefined || !isObject(document.value)) throw invalidInput('parse request payload error: not one JSON object')
  const keyText = memberTexts(document).get('key')
  if (keyText === undefined) throw invalidInput('parse request payload error: `key` is missing')
  const keyType = readType(document.value, 'key_type')
  const head = `{"key_type":"${printTypeTag(keyType)}","value_type":"${printTypeTag(readType(document.value, 'value_type'))}","key":`
  return { sent: `${head}${keyText}}`, canonical: `${head}${canonicalKey(keyType, document.value['key'])}}` }
}

function readType (body: Record<string, unknown>, name: string): TypeTag {
  const text = body[name]
  if (typeof text !== 'string') throw invalidInput(`parse request payload error: \`${name}\` must be a string`)
  const tag = readTypeTag(text)
  if (tag === undefined) throw invalidInput(`\`${name}\` is not a type tag`)
  return tag
}

function isJson (contentType: string | undefined): boolean {
  return /^(?:application\/json|[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+\+json)[ \t]*(?:;|$)/i.test(withoutBlanks(contentType ?? ''))
}
