import { type Json } from './json-parser.js'

const shortEscapes: Record<string, string> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t'
}

/** Prints compactly, with the member order and the number text of the input. */
export function printJson (value: Json): string {
  switch (value.kind) {
    case 'null':
      return 'null'
    case 'bool':
      return String(value.value)
    case 'number':
      return value.text
    case 'string':
      return printString(value.value)
    case 'array':
      return `[${value.items.map(printJson).join(',')}]`
    case 'object':
      return `{${[...value.members].map(([name, member]) => `${printString(name)}:${printJson(member)}`).join(',')}}`
  }
}

/** Joins items, each printed already, to an array. */
export function joinItems (items: readonly Buffer[]): Buffer {
  const comma = Buffer.from(',')
  const separated = items.flatMap((item, index) => index === 0 ? [item] : [comma, item])
  return Buffer.concat([Buffer.from('['), ...separated, Buffer.from(']')])
}

/** Escapes only mandatory characters, in the shortest form and with lower-case hex. */
export function printString (text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must be escaped.
  return `"${text.replace(/["\\\u0000-\u001f]/g, escapeCharacter)}"`
}

function escapeCharacter (character: string): string {
  return shortEscapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
