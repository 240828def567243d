import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

// Prints exact figures, since wrk rounds its own; `done` runs after the load and costs nothing.
const done = `
done = function (summary, latency)
  local e = summary.errors
  io.write(string.format('wrk says {"requests":%d,"microseconds":%d,"bytes":%d,"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d},' ..
    '"latencyMs":{"p50":%.3f,"p90":%.3f,"p99":%.3f,"most":%.3f}}\\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50) / 1000, latency:percentile(90) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
`

// Replays requests from a file of raw bytes, each preceded by its length.
const replay = `
local requests, at = {}, 0
init = function (args)
  local file = io.open(args[1], 'rb')
  while true do
    local length = file:read('*n')
    if not length then break end
    file:read(1)
    requests[#requests + 1] = file:read(length)
  end
  file:close()
end
request = function ()
  at = at % #requests + 1
  return requests[at]
end
`

// Counts up from the number at the end of a path, so that no request repeats.
const rising = `
local before, version
init = function (args)
  before, version = args[1], tonumber(args[2])
end
request = function ()
  version = version + 1
  return wrk.format('GET', before .. string.format('%d', version))
end
`

/** Loads a server with one request by wrk; any response except 200 is an error. */
export async function loadOne (bench, url, path, { connections, seconds, headers = {} }) {
  const script = await scriptOf(bench, 'one.lua', done)
  const lines = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  return await runWrk(bench, ['-c', connections, '-d', `${seconds}s`, '-s', script, ...lines, url + path])
}

/** Loads a server with a list of requests by wrk, repeated until the time ends. */
export async function loadMany (bench, url, requests, { connections, seconds }) {
  const script = await scriptOf(bench, 'many.lua', replay + done)
  const file = join(await bench.folder('wrk'), 'requests')
  await writeFile(
    file,
    requests.map(request => {
      const text = wireOf(url, request)
      return `${Buffer.byteLength(text)}\n${text}`
    }).join('')
  )
  return await runWrk(bench, ['-c', connections, '-d', `${seconds}s`, '-s', script, url, '--', file])
}

/** Loads a server with reads from the version at the end of a path on; responses other than 200 are counted. */
export async function loadVersions (bench, url, path, { connections, seconds }) {
  const script = await scriptOf(bench, 'rising.lua', rising + done)
  const [, before, version] = /^(.*?)(\d+)$/.exec(path)
  const args = ['-c', connections, '-d', `${seconds}s`, '--timeout', '30s', '-s', script, url, '--', before, version]
  const { errors, ...figures } = await runWrk(bench, args, ['status'])
  return { ...figures, rejected: errors.status }
}

async function runWrk ({ programs, tools }, args, counted = []) {
  // One thread, since wrk has one core.
  const program = await programs.start('wrk', [tools.paths.wrk, '-t', '1', ...args.map(String)])
  const { output } = await program.end()
  const said = /^wrk says (.*)$/m.exec(output)?.[1]
  if (said === undefined) throw new Error(`wrk did not run:\n${output}`)
  const { requests, microseconds, bytes, errors, latencyMs } = JSON.parse(said)
  if (Object.entries(errors).some(([kind, count]) => count > 0 && !counted.includes(kind))) {
    throw new Error(`wrk reported errors: ${JSON.stringify(errors)}`)
  }
  if (requests === 0) throw new Error('wrk got no response')
  return { requests, perSecond: requests / microseconds * 1e6, bytesPerAnswer: bytes / requests, latencyMs, errors }
}

async function scriptOf (bench, name, text) {
  const file = join(await bench.folder('wrk'), name)
  await writeFile(file, text)
  return file
}

function wireOf (url, { method = 'GET', path, headers = {}, body }) {
  const all = {
    host: new URL(url).host,
    ...headers,
    ...(body !== undefined && { 'content-length': Buffer.byteLength(body) })
  }
  return `${method} ${path} HTTP/1.1\r\n${
    Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')
  }\r\n${body ?? ''}`
}
