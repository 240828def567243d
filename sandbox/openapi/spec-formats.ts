import { stringify } from 'yaml'
import { type DocumentSettings, openApiDocument } from './document.js'
import { type OpenApiDocument, type SpecFormats } from './openapi-types.js'

/** Returns the formats of a sandbox node's OpenAPI document; each is built on request. */
export function specFormatsOf (settings: DocumentSettings): SpecFormats {
  return {
    json: () => JSON.stringify(openApiDocument(settings)),
    yaml: () => stringify(openApiDocument(settings), { aliasDuplicateObjects: false, lineWidth: 120 }),
    page: () => specPage(openApiDocument(settings))
  }
}

/** Renders an HTML page that lists all operations and links to the OpenAPI documents. */
function specPage ({ info, paths }: OpenApiDocument): string {
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { summary }]) =>
      `<tr><td>${method.toUpperCase()}</td><td><code>${path}</code></td><td>${summary}</td></tr>`
    )
  )
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${info.title}</title></head>
<body>
<h1>${info.title}</h1>
<p>${info.summary} OpenAPI documents: <a href="spec.json">spec.json</a>, <a href="spec.yaml">spec.yaml</a>.</p>
<table>
<tr><th>method</th><th>path</th><th>response</th></tr>
${rows.join('\n')}
</table>
</body>
</html>
`
}
