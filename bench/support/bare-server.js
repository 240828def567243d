// What Node itself can do: answers from a Map, by the raw URL, or by URL and body where there is one, with nothing
// decided. It runs as a process of its own; its one argument is a file with the answers.
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
