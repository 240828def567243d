import { readStrictMembers, isBlank } from './strict-json-members.js'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const quote = 0x22
const backslash = 0x5c

/** Members of a JSON object with the texts that the client sent. */
export class JsonObject {
  readonly #texts: ReadonlyMap<string, string>

  constructor (texts: ReadonlyMap<string, string>) {
    this.#texts = texts
  }

  get size (): number {
    return this.#texts.size
  }

  /**
   * Returns the text of a member's value with digits and escapes unchanged and blanks dropped; undefined if there is no
   * such member.
   */
  textOf (name: string): string | undefined {
    const text = this.#texts.get(`"${name}"`)
    return text === undefined ? undefined : dropBlanks(text)
  }

  /** Returns the value of a member that is a JSON string; undefined for any other member. */
  stringOf (name: string): string | undefined {
    const text = this.#texts.get(`"${name}"`) ?? ''
    return text.startsWith('"') ? JSON.parse(text) as string : undefined
  }
}

/** Reads one JSON object strictly; undefined for any other bytes. */
export function readObject (bytes: Buffer): JsonObject | undefined {
  const text = decodeUtf8(bytes)
  const texts = text === undefined ? undefined : readStrictMembers(text)
  return texts && new JsonObject(texts)
}

function decodeUtf8 (bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** Drops the blanks between the tokens of valid JSON. */
function dropBlanks (text: string): string {
  const bytes = Buffer.from(text)
  let isInString = false
  let to = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes.readUInt8(at)
    if (!isInString && isBlank(byte)) continue
    bytes[to++] = byte
    if (byte === quote) isInString = !isInString
    else if (byte === backslash) bytes[to++] = bytes.readUInt8(++at)
  }
  return to === bytes.length ? text : bytes.toString('utf8', 0, to)
}
