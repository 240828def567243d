// Shows what Node.js needs to forward a read: no cache, no checks, no time limits, no backpressure. Runs as its own
// process; its argument is the upstream.
import { createServer } from 'node:http'
import { Pool } from 'undici'

const pool = new Pool(process.argv[2], { connections: 256, pipelining: 1 })
const server = createServer(({ method, url, headers }, response) => {
  pool.dispatch({ method, path: url, headers }, {
    onConnect () {},
    onHeaders: (status, raw) => response.writeHead(status, raw.map(bytes => bytes.toString('latin1'))),
    onData (chunk) {
      response.write(chunk)
      return true
    },
    onComplete: () => response.end(),
    onError: () => response.destroy()
  })
})
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(`forwards on http://127.0.0.1:${server.address().port}`)
})
