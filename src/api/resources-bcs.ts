import { lengthAt } from './modules-bcs.js'

const addressBytes = 32
// Type marks in BCS: more follows vectors and structs, no resource is a function, 17 is last (docs/node-behaviour.md,
// "BCS").
const [vectorMark, structMark, functionMark, lastMark] = [6, 7, 11, 17]
// Nodes reject deeper types, so this bound on recursion rejects no real listing.
const maxLevels = 16

/**
 * Returns the unchanged bytes of each resource in a BCS listing: type and value; undefined for any other body
 * (docs/node-behaviour.md, "BCS").
 */
export function splitResourcesBcs (body: Buffer): string[] | undefined {
  const count = lengthAt(body, 0)
  if (count === undefined) return undefined
  const resources: string[] = []
  let from = count.end
  while (resources.length < count.value) {
    const value = lengthAt(body, structEnd(body, from, 0))
    const end = value && value.end + value.value
    if (end === undefined || end > body.length) return undefined
    resources.push(body.toString('latin1', from, end))
    from = end
  }
  return from === body.length ? resources : undefined
}

// Returns the end of a struct tag, which is beyond the body if the tag is invalid.
function structEnd (body: Buffer, from: number, level: number): number {
  const name = textEnd(body, textEnd(body, from + addressBytes))
  const count = lengthAt(body, name)
  if (count === undefined || level > maxLevels) return Infinity
  let at = count.end
  for (let nth = 0; nth < count.value && at < body.length; nth++) at = typeEnd(body, at, level + 1)
  return at
}

function typeEnd (body: Buffer, from: number, level: number): number {
  const mark = body[from] ?? Infinity
  if (mark > lastMark || mark === functionMark || level > maxLevels) return Infinity
  if (mark === vectorMark) return typeEnd(body, from + 1, level + 1)
  return mark === structMark ? structEnd(body, from + 1, level + 1) : from + 1
}

function textEnd (body: Buffer, from: number): number {
  const length = lengthAt(body, from)
  return length === undefined ? Infinity : length.end + length.value
}
