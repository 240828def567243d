import { stringify } from 'yaml'
import { type DocumentSettings, openApiDocument } from './document.js'
import { specPage } from './page.js'
import { type Spec } from './piece.js'

/** What a node says of itself, each form made when it is asked for. */
export function specOf (settings: DocumentSettings): Spec {
  return {
    json: () => JSON.stringify(openApiDocument(settings)),
    yaml: () => stringify(openApiDocument(settings), { aliasDuplicateObjects: false, lineWidth: 120 }),
    page: () => specPage(openApiDocument(settings))
  }
}
