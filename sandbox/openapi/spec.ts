import { stringify } from 'yaml'
import { type DocumentSettings, openApiDocument } from './document.js'
import { specPage } from './spec-page.js'
import { type SpecFormats } from './openapi-types.js'

/** Returns the formats of a sandbox node's OpenAPI document; each is built on request. */
export function specFormatsOf (settings: DocumentSettings): SpecFormats {
  return {
    json: () => JSON.stringify(openApiDocument(settings)),
    yaml: () => stringify(openApiDocument(settings), { aliasDuplicateObjects: false, lineWidth: 120 }),
    page: () => specPage(openApiDocument(settings))
  }
}
