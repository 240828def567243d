import { isIP } from 'node:net'
import { z } from 'zod'
import { endpointNames } from '../api/endpoints.js'
import { mistakeInCiphers } from './ciphers.js'
import {
  reject,
  rejectDuplicateClients,
  rejectDuplicateUpstreamNames,
  rejectDuplicateUpstreams
} from './duplicate-items.js'
import { isIpNetwork, namedIpNetworks } from './ip-networks.js'
import {
  hostAndPort,
  isAddress,
  isEmptyHeader,
  isOrigin,
  isRedisUrl,
  socketPathOf,
  tildeMistake,
  isFolderOrNew,
  isReadable
} from './value-checks.js'
import { accessFields } from './access-fields.js'

/** Schema of the path of a folder. */
const optionalFolder = pathOf(isFolderOrNew, 'expected a folder').min(1).describe('a folder')
  .nullable()
  .default(null)

/** Schema of the path of a file. */
const optionalFile = pathOf(isReadable, 'expected a file that can be read').describe('a file')
  .nullable()
  .default(null)

const collectorUrl = z.string().refine(
  text => /^https?:\/\/[^@?#]*$/.test(text) && URL.canParse(text),
  'expected the http or https URL of a collector without credentials and query, such as http://127.0.0.1:4318'
).describe('an http or https URL')

/** Returns the type of a path; `message` is the mistake of a path that fails the check. */
function pathOf (isValid: (path: string) => boolean, message: string): z.ZodString {
  return z.string().refine(path => tildeMistake(path) === undefined && isValid(path), {
    error: ({ input }) => tildeMistake(String(input)) ?? message
  })
}

const name = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, 'expected a name of letters, digits, _ . or -').describe(
  'a name of letters, digits, `_` `.` `-`'
)
const milliseconds = z.int().min(0).max(3_600_000)
const positive = z.int().min(1).max(1_000_000_000)

// Descriptions state what no type expresses, for the reference in docs/configuration.md.
const address = z.string().refine(isAddress, 'expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080').describe(
  'HOST:PORT'
)
const listenAddress = z.string().refine(
  text => isAddress(text) || socketPathOf(text) !== undefined,
  {
    error: ({ input }) =>
      tildeMistake(String(input).replace(/^unix:/, '')) ??
        'expected HOST:PORT or unix:PATH, such as 127.0.0.1:8080 or unix:/run/varve/http.sock'
  }
).describe('HOST:PORT or unix:PATH')
const hostName = z.string().regex(
  /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})$/,
  'expected a host name without scheme and port, such as varve.example'
).describe('a host name')
const upstreamUrl = z.string().refine(isUpstreamUrl, {
  error: ({ input }) =>
    /^(?!https?\/)[\w.-]+(?::\d+)?(?:\/|$)/.test(String(input)) && isUpstreamUrl(`http://${String(input)}`)
      ? 'expected an http or https URL: add http:// or https:// in front'
      : 'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
        'http://127.0.0.1:8081'
}).describe('an http or https URL')
const redisUrl = z.string().refine(isRedisUrl, 'expected a URL such as redis://127.0.0.1:6379')
  // The Redis library would read options from a query, and they would override varve's.
  .refine(
    text => !/[?#]/.test(text),
    'expected a URL without query or fragment: use the keys beside it instead'
  )
  // An unescaped slash in a password would turn the user name into a host and the rest into a visible path.
  .refine(
    text => !isRedisUrl(text) || /^(?:\/[0-9]{0,5})?$/.test(new URL(text).pathname),
    'expected only a database number after the host; write / in a password as %2F'
  ).describe('a redis or rediss URL')
const origin = z.string().refine(isOrigin, 'expected an origin as browsers send it, such as https://app.example')
  .describe('an origin')
const cipherList = z.string().describe('a cipher list of OpenSSL').superRefine((text, context) => {
  const mistake = mistakeInCiphers(text)
  if (mistake === undefined) return
  reject(context, [], `expected a cipher list of OpenSSL, such as ECDHE+AESGCM:ECDHE+CHACHA20: ${mistake}`)
})
// Rejects other characters, because Node.js would throw on them only when it sends the first request.
const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a header name')
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'expected a header value without line breaks')

const headersToSend = z.record(headerName, headerValue).superRefine((headers, context) => {
  for (const [name, value] of Object.entries(headers)) {
    if (isEmptyHeader(name, value)) {
      reject(context, [name], 'expected a value that is not empty: set it, or remove the header')
    }
  }
})
const secret = z.string().refine(
  text => text.trim() !== '',
  'expected a text that is not empty: set it, or remove the key'
).describe('a text that is not empty')

// Clients send the key in a header, after a scheme and a blank.
const clientKey = z.string().regex(/^[\x21-\x7e]+$/, 'expected a key of printable ASCII without blanks').describe(
  'printable ASCII without blanks'
)

/** Schema of the keys of clients, in the configuration or in a file of their own. */
export const clientKeysSchema = z.array(z.strictObject({
  name,
  key: clientKey,
  requestsPerSecond: positive.nullable().default(null),
  requestsPerDay: positive.nullable().default(null),
  endpoints: z.array(z.enum([...endpointNames, 'other'])).nullable().default(null),
  origins: z.array(origin).nullable().default(null)
})).default([]).superRefine(rejectDuplicateClients, { when: ({ value }) => Array.isArray(value) })

const resolveTo = z.string().refine(
  text => text === 'any' || text === 'all' || isIP(text) !== 0,
  'expected any, all or an IP address'
).describe('any, all or an IP address')

const unitBudget = z.strictObject({
  units: z.int().min(10).max(1_000_000_000),
  windowSeconds: z.int().min(1).max(86_400).default(300),
  costs: z.partialRecord(z.enum(['default', ...endpointNames]), positive).default({})
}).superRefine(({ units, costs }, context) => {
  for (const [endpoint, cost] of Object.entries(costs)) {
    if (cost * 10 > units) reject(context, ['costs', endpoint], 'expected at most a tenth of the units')
  }
})

const upstream = z.strictObject({
  name: name.optional(),
  url: upstreamUrl,
  headers: headersToSend.default({}),
  resolve: resolveTo.default('any'),
  proxy: z.boolean().nullable().default(null),
  timeoutMs: z.int().min(1).max(600_000).default(5000),
  maxConcurrent: z.int().min(1).max(65_535).default(256),
  requestsPerSecond: positive.nullable().default(null),
  budget: unitBudget.nullable().default(null),
  caFile: optionalFile,
  certFile: optionalFile,
  keyFile: optionalFile,
  ignoreCacheControl: z.boolean().default(false),
  maxLagSeconds: z.int().min(1).max(86_400).default(60),
  priority: z.int().min(0).max(100).default(0),
  weight: z.int().min(1).max(1000).default(1)
}).refine(hasBothFilesOrNone, 'expected both certFile and keyFile, or neither')

const redis = z.strictObject({
  url: redisUrl.nullable().default(null),
  cluster: z.array(address).default([]),
  sentinel: z.strictObject({
    name: name.nullable().default(null),
    hosts: z.array(address).default([]),
    password: secret.nullable().default(null)
  }).prefault({}).refine(
    ({ name, hosts }) => (name === null) === (hosts.length === 0),
    'expected both a name and hosts, or neither'
  ),
  username: z.string().min(1).nullable().default(null),
  password: secret.nullable().default(null),
  tls: z.boolean().default(false),
  caFile: optionalFile,
  keyPrefix: name.default('varve'),
  timeoutMs: z.int().min(1).max(60_000).default(50),
  ttlSeconds: positive.default(2_592_000)
}).refine(
  ({ url, cluster, sentinel }) =>
    [url !== null, cluster.length > 0, sentinel.name !== null].filter(Boolean).length <= 1,
  'expected one of url, cluster and sentinel'
)
  .refine(
    ({ url, tls, caFile }) => caFile === null || tls || url?.startsWith('rediss:') === true,
    'expected tls: true or a rediss:// URL together with a caFile'
  )

/** The whole configuration, each key with its default; unknown keys are rejected. */
export const configSchema = z.strictObject({
  listen: listenAddress.default('127.0.0.1:8080'),
  tls: z.strictObject({
    certFile: optionalFile,
    keyFile: optionalFile,
    minVersion: z.number().refine(version => version === 1.2 || version === 1.3, 'expected 1.2 or 1.3').describe(
      '1.2 or 1.3'
    ).default(1.2),
    ciphers: cipherList.nullable().default(null)
  }).prefault({})
    .refine(hasBothFilesOrNone, 'expected both certFile and keyFile, or neither'),
  admin: z.strictObject({
    listen: address.default('127.0.0.1:9464'),
    token: secret.nullable().default(null),
    hosts: z.array(hostName).default([])
  }).prefault({}),
  workers: z.int().min(1).max(256).default(1),
  log: z.strictObject({
    level: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
    levelNames: z.boolean().default(false),
    isoTimes: z.boolean().default(false),
    access: z.boolean().default(false),
    clientAddress: z.boolean().default(false),
    accessFields: z.array(z.enum(accessFields)).nullable().default(null),
    accessSample: z.number().min(0).max(1).default(1),
    accessSlowMs: z.int().min(0).max(3_600_000).default(1000)
  }).prefault({}),
  trustProxy: z.array(
    z.string().refine(
      isIpNetwork,
      `expected an address, a network such as 10.0.0.0/8, or one of ${Object.keys(namedIpNetworks).join(', ')}`
    ).describe('an address or a network')
  ).default([]),
  chainId: z.int().min(0).max(255)
    .nullable().default(null),
  upstreams: z.array(upstream).default([]).superRefine(rejectDuplicateUpstreamNames, {
    when: ({ value }) => Array.isArray(value)
  })
    .superRefine(rejectDuplicateUpstreams, { when: ({ value }) => Array.isArray(value) }),
  head: z.strictObject({
    pollMs: z.int().min(10).max(600_000).default(1000),
    fleet: z.boolean().default(false)
  }).prefault({}),
  readiness: z.strictObject({ requireUpstream: z.boolean().default(false) }).prefault({}),
  shutdown: z.strictObject({ drainSeconds: z.number().min(0).max(60).default(1) }).prefault({}),
  headers: z.strictObject({ emit: z.array(z.enum(['node', 'upstream'])).default(['node', 'upstream']) }).prefault({}),
  hedge: z.strictObject({
    share: z.number().min(0).max(1).default(0.05),
    afterMs: milliseconds.default(500)
  }).prefault({}),
  waitForVersion: z.strictObject({ ms: milliseconds.default(0) }).prefault({}),
  cache: z.strictObject({
    memory: z.strictObject({ maxMb: z.int().min(1).max(1_048_576).default(256) }).prefault({}),
    disk: z.strictObject({ path: optionalFolder, maxGb: z.number().min(0.001).max(100_000).default(10) }).prefault({}),
    redis: redis.prefault({}),
    maxEntryMb: z.int().min(1).max(1024).default(8)
  }).prefault({}),
  follow: z.strictObject({
    mode: z.enum(['off', 'observe', 'on']).default('off'),
    maxAgeMs: z.int().min(0).max(60_000).default(250),
    verify: z.number().min(0).max(1).default(0.02)
  }).prefault({}),
  http: z.strictObject({ fastPath: z.boolean().default(true) }).prefault({}),
  latest: z.strictObject({
    stateMs: milliseconds.default(0),
    infoMs: milliseconds.default(1000),
    indexMs: milliseconds.default(250),
    gasMs: milliseconds.default(500),
    promote: z.boolean().default(true)
  }).prefault({}),
  pruned: z.strictObject({ serveCached: z.boolean().default(true), answerLocally: z.boolean().default(true) }).prefault(
    {}
  ),
  pages: z.strictObject({
    eventsTtlSeconds: positive.default(3600),
    pinned: z.boolean().default(false),
    strict: z.boolean().default(false)
  }).prefault({}),
  audit: z.strictObject({
    share: z.number().min(0).max(1).default(0.001),
    followedShare: z.number().min(0).max(1).default(0.01)
  }).prefault({}),
  limits: z.strictObject({
    bodyKb: z.int().min(1).max(8192).default(1024),
    headerKb: z.int().min(1).max(1024).default(16),
    connections: z.int().min(1).max(1_000_000).nullable().default(null),
    inFlightMb: z.int().min(1).max(1_048_576).nullable().default(null),
    loopLagMs: z.int().min(10).max(60_000).nullable().default(100),
    client: z.strictObject({
      requestsPerSecond: positive.nullable().default(null),
      burst: positive.nullable().default(null),
      exemptHits: z.boolean().default(true)
    }).prefault({}).refine(
      ({ requestsPerSecond, burst }) => burst === null || requestsPerSecond !== null,
      'expected requestsPerSecond together with burst'
    )
  }).prefault({}),
  clients: z.strictObject({
    required: z.boolean().default(false),
    keys: clientKeysSchema,
    keysFile: optionalFile
  }).prefault({}).superRefine(({ required, keys, keysFile }, context) => {
    if (required && keys.length === 0 && keysFile === null) {
      reject(context, ['keys'], 'expected at least one key, because required is true')
    }
  }),
  savings: z.strictObject({
    pricePerMillion: z.partialRecord(z.enum(['default', ...endpointNames]), z.number().min(0).max(1e9))
      .default({})
  }).prefault({}),
  passThrough: z.enum(['none', 'reads', 'transactions', 'all']).default('reads'),
  tracing: z.strictObject({
    otlpUrl: collectorUrl.nullable().default(null),
    headers: headersToSend.default({}),
    serviceName: z.string().min(1).default('varve'),
    sample: z.number().min(0).max(1).default(0.01)
  }).prefault({}),
  cors: z.strictObject({
    origins: z.union([z.literal('*'), z.array(origin)], 'expected "*" or a list of origins').default('*')
  }).prefault({}),
  downstream: z.strictObject({ cacheControl: z.enum(['revalidate', 'immutable', 'off']).default('revalidate') })
    .prefault({})
}).superRefine(({ listen, admin, workers, upstreams, head, cache, follow, latest, trustProxy }, context) => {
  const { url, cluster, sentinel } = cache.redis
  if (head.fleet && workers === 1 && url === null && cluster.length === 0 && sentinel.name === null) {
    reject(context, ['head'], 'expected cache.redis or several workers together with head.fleet: true')
  }
  if (follow.mode === 'on' && latest.stateMs > 0) {
    const message = 'expected off or observe together with latest.stateMs: a read cannot have two ages'
    reject(context, ['follow', 'mode'], message)
  }
  const unix = trustProxy.indexOf('unix')
  if (unix !== -1 && socketPathOf(listen) === undefined) {
    const message = 'expected listen: unix:PATH together with unix: other connections have an address'
    reject(context, ['trustProxy', unix], message)
  }
  // Port 0 picks a different free port each time.
  if (listen === admin.listen && hostAndPort(listen).port !== 0) {
    reject(context, ['admin', 'listen'], 'expected another address than listen')
  }
  const few = upstreams.findIndex(({ maxConcurrent }) => maxConcurrent < workers)
  if (few !== -1) {
    reject(context, ['workers'], `expected fewer workers: each needs a share of upstreams.${few}.maxConcurrent`)
  }
})

/** Valid configuration with all defaults applied. */
export type Config = z.output<typeof configSchema> & {
  /** Dotted paths of keys whose values contain the text of a secret file, which is never shown. */
  readonly fromFiles?: readonly string[]
}

/** Upstream with its name, or its default name. */
export type NamedUpstream = Config['upstreams'][number] & { readonly name: string }

/** Returns the settings of the embedded node as an upstream. */
export function sandboxUpstream (url: string): NamedUpstream {
  return { ...upstream.parse({ url, proxy: false }), name: 'sandbox' }
}

function isUpstreamUrl (text: string): boolean {
  // A slash in credentials would turn the text before it into the host and the rest into a path.
  if (!/^https?:\/\/[^@]*$/.test(text) || !URL.canParse(text)) return false
  const url = new URL(text)
  // Client libraries expect /v1 in the URL, but varve adds it, so requests would go to /v1/v1.
  return url.username === '' && url.password === '' && url.search === '' && url.hash === '' &&
    !/\/v1\/?$/.test(url.pathname)
}

function hasBothFilesOrNone ({ certFile, keyFile }: Readonly<Record<'certFile' | 'keyFile', string | null>>): boolean {
  return (certFile === null) === (keyFile === null)
}
