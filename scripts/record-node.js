import { closeSync, openSync, writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { giveUpOn, requireNode, say } from './ground.js'
import { factsIn, firstReads, furtherReads, indexRead, nextPage, versionsOf } from './node-reads.js'

// Records some 200 reads of a live node into one file that its operator can send: docs/node-behaviour.md, "Sources".
const usage = 'usage: node scripts/record-node.js URL [--out recording.jsonl] [--header "Name: value"]... ' +
  '[--pause MS] [--seconds N]; RECORD_AUTHORIZATION holds an Authorization header'
const [maxRequests, maxBodyBytes, maxFileBytes, lanes] = [260, 4 << 20, 24 << 20, 3]
const [requestMs, longestWaitSeconds, maxWaits] = [20_000, 60, 5]

requireNode()
const { base, out, headers, pauseMs, deadline } = readArguments()
const prefix = base.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
// Looks for no shorter text, because bodies contain it by chance.
const secrets = [base.host, base.hostname, ...prefix.split('/'), ...base.searchParams.values(), base.password]
  .concat(Object.values(headers).flatMap(value => [value, ...value.split(/\s+/)]))
  .flatMap(text => [text, decoded(text), encodeURIComponent(text)])
  .filter(text => text.length >= 6).sort((a, b) => b.length - a.length)
// URLs, host names and addresses of machines.
const machines = [
  /\b[a-z][a-z0-9+-]{1,20}:\/\/[^\s"'<>\\]+/gi,
  /\b(?:[a-z0-9_-]{1,63}\.){1,10}[a-z]{2,63}\b/gi,
  /\b\d{1,3}(?:\.\d{1,3}){3}\b/g,
  /\b[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:){1,7}[0-9a-f]{0,4}/gi
]
const peerId = /\b[0-9a-f]{64}\b/gi
const ofNode =
  /^x-[a-z0-9-]+-(?:chain-id|ledger-[a-z-]+|epoch|(?:oldest-)?block-height|cursor|gas-used|txn-encryption-key)$/
const ofAny = /^(?:content-(?:type|encoding)|cache-control|vary|retry-after)$|limit|quota|units|remaining/

const recorded = new Set()
const statuses = new Map()
let [waits, waitUntil, fileBytes, file, stopReason] = [0, 0, 0, undefined, undefined]

const first = await request(indexRead)
const index = first.status === 200 ? parsed(first.body) : undefined
if (!/^\d+$/.test(index?.ledger_version)) giveUpOn(`no node responds at this URL: ${first.status ?? first.error}`)
file = openSync(out, 'w')
write({ recording: 1, recorded: new Date().toISOString(), release: index.git_hash, chainId: index.chain_id })
const versions = versionsOf(index)
const begun = await record(firstReads(versions))
const pages = await record(furtherReads(versions, factsIn(begun.map(({ body }) => parsed(body)))))
await record(pages.flatMap(nextPage).slice(0, 6))
closeSync(file)
say(`recorded ${recorded.size} reads in ${out}${stopReason === undefined ? '' : `, then stopped: ${stopReason}`}`)
say([...statuses].map(([status, count]) => `${count} of status ${status}`).join(', '))
say('please look at the file before you send it')

function readArguments () {
  try {
    const text = { type: 'string' }
    const options = { out: text, pause: text, seconds: text, header: { ...text, multiple: true } }
    const { values, positionals: [url, ...rest] } = parseArgs({ allowPositionals: true, options })
    const base = new URL(url)
    const { RECORD_AUTHORIZATION: authorization } = process.env
    const headers = Object.fromEntries((values.header ?? []).map(line => {
      const [, name, value] = /^([^:\s]+):\s*(.+)$/.exec(line)
      return [name.toLowerCase(), value]
    }))
    if (authorization) headers.authorization = authorization
    if (base.username !== '') {
      const pair = `${decoded(base.username)}:${decoded(base.password)}`
      headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`
    }
    const [pauseMs, seconds] = [Number(values.pause ?? 100), Number(values.seconds ?? 300)]
    if (!/^https?:$/.test(base.protocol) || rest.length > 0 || !(pauseMs >= 0 && seconds > 0)) throw new Error(usage)
    return { base, out: values.out ?? 'recording.jsonl', headers, pauseMs, deadline: Date.now() + seconds * 1000 }
  } catch {
    return giveUpOn(usage)
  }
}

/** Sends reads that were not sent yet, a few at a time, until a limit is reached. */
async function record (reads) {
  const queue = [...new Map(reads.map(read => [JSON.stringify(read), read]))].filter(([key]) => !recorded.has(key))
  const responses = []
  const lane = async () => {
    for (let next = queue.shift(); next !== undefined && mayGoOn(); next = queue.shift()) {
      recorded.add(next[0])
      const response = await request(next[1])
      write(response)
      responses.push({ ...next[1], ...response })
      statuses.set(response.status ?? 'none', (statuses.get(response.status ?? 'none') ?? 0) + 1)
      if (response.status === 429) backOff(response.headers['retry-after'])
      await pause(Math.max(pauseMs, waitUntil - Date.now()))
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return responses
}

function mayGoOn () {
  if (recorded.size >= maxRequests) stopReason ??= `${maxRequests} requests were sent`
  if (Math.max(Date.now(), waitUntil) > deadline) stopReason ??= 'its time is over'
  return stopReason === undefined
}

function backOff (retryAfter) {
  const seconds = Number(retryAfter)
  if (!(seconds <= longestWaitSeconds) || ++waits > maxWaits) stopReason ??= 'the node or its gateway limits requests'
  else waitUntil = Math.max(waitUntil, Date.now() + seconds * 1000)
}

async function request (read) {
  const { method, path, accept, contentType, body, base64 } = read
  const query = base.search === '' ? '' : `${path.includes('?') ? '&' : '?'}${base.search.slice(1)}`
  const sent = { accept, 'accept-encoding': 'identity', ...contentType && { 'content-type': contentType }, ...headers }
  try {
    // Follows no redirect, since another host must not get the credentials.
    const response = await fetch(`${base.origin}${prefix}${path}${query}`, {
      method,
      headers: sent,
      body: base64 === undefined ? body : Buffer.from(base64, 'base64'),
      redirect: 'manual',
      signal: AbortSignal.timeout(requestMs)
    })
    const kept = [...response.headers].filter(([name]) => ofNode.test(name) || ofAny.test(name))
    const isOfLedger = response.status === 200 && kept.some(([name]) => ofNode.test(name))
    // Bodies of the ledger are public; others may name machines.
    const machinesIn = isOfLedger ? [] : path === '/v1/info' ? [...machines, peerId] : machines
    return {
      request: read,
      status: response.status,
      headers: Object.fromEntries(kept.map(([name, value]) => [name, headerWithoutSecrets(name, value)])),
      ...bodyMembers(await readBody(response), machinesIn)
    }
  } catch (error) {
    return { request: read, error: error.cause?.code ?? error.name }
  }
}

async function readBody (response) {
  const chunks = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > maxBodyBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function bodyMembers (bytes, patterns) {
  if (bytes === undefined || fileBytes + bytes.length > maxFileBytes) return { truncated: true }
  const raw = bytes.toString('latin1')
  const clean = withoutSecrets(raw, patterns)
  const result = Buffer.from(clean, 'latin1')
  const text = result.toString()
  return {
    ...clean !== raw && { redacted: true },
    ...Buffer.from(text).equals(result) && !text.includes('\0') ? { body: text } : { base64: result.toString('base64') }
  }
}

function headerWithoutSecrets (name, value) {
  return withoutSecrets(value, ofNode.test(name) ? [] : machines)
}

function withoutSecrets (text, patterns) {
  const clean = secrets.reduce((rest, secret) => rest.replaceAll(secret, '[removed]'), text)
  return patterns.reduce((rest, pattern) => rest.replace(pattern, '[removed]'), clean)
}

function write (line) {
  fileBytes += writeSync(file, `${JSON.stringify(line)}\n`)
}

function decoded (text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function parsed (text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
