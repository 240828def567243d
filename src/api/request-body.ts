import { mediaTypes } from './accept.js'
import { type BodyKind } from './endpoint-definition.js'
import { type ReadBody } from './read.js'
import { readRawRequest, readTableRequest } from './table-request.js'
import { readViewRequest } from './view-request.js'

/** Reads the question of a read that takes a body. */
export function readRequestBody (kind: BodyKind, contentType: string | undefined, bytes: Buffer): ReadBody {
  switch (kind) {
    case 'table_key':
      return readTableRequest(contentType, bytes)
    case 'raw_key':
      return readRawRequest(contentType, bytes)
    case 'view':
      return readViewRequest(contentType, bytes)
  }
}

// The name that nodes of the open source know it by.
const viewInBcs = 'application/x.aptos.view_function+bcs'

/**
 * A body in the words of a person or of another process: JSON as it stands, and bytes in hex, perhaps behind their
 * type.
 */
export function bodyFromText (text: string): { readonly contentType: string, readonly body: Buffer } {
  const [, type = viewInBcs, digits] = /^(?:(application\/\S+) )?0x((?:[0-9a-fA-F]{2})*)$/.exec(text) ?? []
  return digits === undefined
    ? { contentType: mediaTypes.json, body: Buffer.from(text) }
    : { contentType: type, body: Buffer.from(digits, 'hex') }
}
