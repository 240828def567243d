// Shows the limit of Node.js: serves prepared responses from a Map by URL and body. Runs as its own process; the
// argument names their file.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const { keepAliveMs, answers, keys } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const ready = answers.map(({ lines, body }) => ({ lines, body: Buffer.from(body, 'base64') }))
const byKey = new Map(keys.map(([key, at]) => [key, ready[at]]))

const server = createServer({ keepAliveTimeout: keepAliveMs }, (request, response) => {
  if (request.method === 'GET') return reply(response, byKey.get(request.url))
  const chunks = []
  request.on('data', chunk => {
    chunks.push(chunk)
  })
  request.on('end', () => {
    reply(response, byKey.get(`${request.url}\n${Buffer.concat(chunks)}`))
  })
})
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(`bare on http://127.0.0.1:${server.address().port}`)
})

function reply (response, answer) {
  if (answer === undefined) return response.writeHead(404).end()
  response.writeHead(200, answer.lines)
  response.end(answer.body)
}
