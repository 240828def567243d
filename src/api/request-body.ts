import { mediaTypes } from './accept.js'
import { type BodyKind } from './endpoint-definition.js'
import { type ReadBody } from './read.js'
import { readRawRequest, readTableRequest } from './table-request.js'
import { readViewRequest } from './view-request.js'

/** Reads the body of a read; throws an ErrorResponse if it is invalid. */
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

// Media type in the public source of nodes (docs/node-behaviour.md, "Views").
const viewInBcs = 'application/x.aptos.view_function+bcs'

/**
 * Reads a body from the text of a person or process: JSON unchanged, bytes in hex, optionally behind their media type.
 */
export function bodyFromText (text: string): { readonly contentType: string, readonly body: Buffer } {
  const [, type = viewInBcs, digits] = /^(?:(application\/\S+) )?0x((?:[0-9a-fA-F]{2})*)$/.exec(text) ?? []
  return digits === undefined
    ? { contentType: mediaTypes.json, body: Buffer.from(text) }
    : { contentType: type, body: Buffer.from(digits, 'hex') }
}
