import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { parse } from 'yaml'
import { z } from 'zod'
import { stamps } from '../stub-upstream.js'
import { type ScriptedBytes } from './raw-upstream.js'

const readKind = z.strictObject({
  name: z.string(),
  endpoint: z.string(),
  stored: z.boolean().default(false),
  accept: z.string().default('application/json'),
  request: z.string(),
  sends: z.string().optional(),
  body: z.string()
})

/** A kind of read, with a different read for every number. */
export type ReadKind = z.infer<typeof readKind>

/** A read of a kind, with its true answer. */
export interface Read {
  readonly kind: ReadKind
  readonly n: number
  readonly request: string
  readonly target: string
  readonly type: string
  readonly body: string
}

const effect = z.enum(['truth', 'rejected', 'broken', 'handed'])
const texts = z.array(z.string())
const lie = z.strictObject({
  name: z.string(),
  reads: texts,
  not: texts,
  first: z.string(),
  type: z.string().nullable(),
  stamps: z.record(z.string(), z.string().nullable()),
  lines: texts,
  framing: texts,
  body: z.string(),
  edit: texts,
  of: z.int(),
  before: z.string(),
  after: z.string(),
  bytes: z.string(),
  lf: z.literal(true),
  cut: z.int(),
  then: z.enum(['keep', 'end', 'hang']),
  everyMs: z.int(),
  endless: z.string(),
  known: effect,
  info: effect,
  passed: effect,
  reason: z.string().nullable(),
  status: z.string()
}).partial().required({ name: true })

/** Effect of a false answer on a client. */
export type Effect = z.infer<typeof effect>
/** A false answer, sent in place of the true one. */
export type Lie = z.infer<typeof lie>

/** False answers that prove one promise. */
export interface LieGroup {
  readonly promise: string
  readonly tried: string
  readonly lies: readonly Lie[]
}

const textOf = (file: string): unknown => parse(readFileSync(`test/cases/${file}`, 'utf8'))

/** Every kind of read that a client may send. */
export const readKinds = z.array(readKind).parse(textOf('reads.yaml'))

/** Every group of false answers. */
export const lieGroups: readonly LieGroup[] = z.array(
  z.looseObject({ promise: z.string(), tried: z.string(), cases: z.array(z.record(z.string(), z.unknown())) })
).parse(textOf('lies.yaml')).map(({ promise, tried, cases, ...common }) => ({
  promise,
  tried,
  lies: cases.flatMap(({ each, ...rest }) => {
    const given = JSON.stringify({ ...common, ...rest })
    const quoted = each === undefined ? [''] : texts.parse(each).map(value => JSON.stringify(value).slice(1, -1))
    return quoted.map(value => lie.parse(JSON.parse(given.replaceAll('<<each>>', () => value))))
  })
}))

/** Returns the groups that a test tries. */
export function liesTried (how: string): readonly LieGroup[] {
  return lieGroups.filter(({ tried }) => tried === how)
}

/** Returns a false answer by its name. */
export function lieOf (name: string): Lie {
  const found = lieGroups.flatMap(({ lies }) => lies).find(lie => lie.name === name)
  if (found === undefined) throw new Error(`no false answer is called ${name}`)
  return found
}

/** Head of the truthful upstream, far above all reads. */
export const trueHead: Readonly<Record<string, string>> = stamps({
  'x-aptos-ledger-version': '1000000',
  'x-aptos-block-height': '100000',
  'x-aptos-ledger-timestampusec': '5000000'
})

/** Replaces the placeholders of test/cases/README.md; throws on an unknown one. */
export function fill (text: string, valueOf: Readonly<Record<string, () => string>>): string {
  return text.replace(
    /<<(?:REPEAT ([^]+?) (\d+)|([^<>]+))>>/g,
    (all, repeated: string | undefined, times: string, name: string) => {
      if (repeated !== undefined) return repeated.repeat(Number(times))
      const value = valueOf[name]
      if (value === undefined) throw new Error(`unknown placeholder ${all}`)
      return value()
    }
  )
}

// Takes seconds to make, so it is made once.
const bombs: string[] = []

function bomb (): string {
  bombs[0] ??= gzipSync(gzipSync(Buffer.alloc(300_000_000))).toString('latin1')
  return bombs[0]
}

const hexOf = (n: number): string => `0x${String(n).padStart(64, '0')}`

function namesOf (n: number): Record<string, () => string> {
  return {
    n: () => String(n),
    'n+1': () => String(n + 1),
    hex: () => hexOf(n),
    'hex+1': () => hexOf(n + 1)
  }
}

/** Returns a kind of read by its name. */
export function readKindOf (name: string): ReadKind {
  const kind = readKinds.find(kind => kind.name === name)
  if (kind === undefined) throw new Error(`no kind of read is called ${name}`)
  return kind
}

/** Returns the read of a kind with a number. */
export function readOf (kind: ReadKind, n: number): Read {
  const [line, sends, body] = [kind.request, kind.sends ?? '', kind.body].map(text => fill(text, namesOf(n)))
  const lines = [
    `${line} HTTP/1.1`,
    'host: varve',
    `accept: ${kind.accept}`,
    ...(sends === '' ? [] : ['content-type: application/json', `content-length: ${sends?.length}`])
  ]
  return {
    kind,
    n,
    request: `${lines.join('\r\n')}\r\n\r\n${sends}`,
    target: line?.split(' ')[1] ?? '',
    type: kind.accept === 'application/json' ? 'application/json; charset=utf-8' : kind.accept,
    body: body ?? ''
  }
}

/** An answer on the wire, with the status and body that its text declares. */
export interface Answer extends ScriptedBytes {
  readonly status: number
  readonly body: string
}

/** Returns the answer to a read: the true one, or one that is changed as a case says. */
export function answerTo (
  read: Pick<Read, 'kind' | 'n' | 'type' | 'body'>,
  lie: Partial<Lie> = {},
  head = trueHead
): Answer {
  const { first = 'HTTP/1.1 200 OK', type = read.type, lines = [], edit = [], then = 'keep', everyMs } = lie
  const truth = lie.of === undefined ? read.body : readOf(read.kind, read.n + lie.of).body
  const size = truth.length.toString(16)
  const values = {
    ...namesOf(read.n),
    body: () => truth,
    length: () => String(truth.length),
    size: () => size,
    chunked: () => `${size}\r\n${truth}\r\n0\r\n\r\n`,
    gzip: () => gzipSync(truth).toString('latin1'),
    bomb,
    type: () => read.type,
    // A whole answer to another read, which every read of the kind would accept as its own.
    poison: () => answerTo(readOf(read.kind, 66_666)).bytes
  }
  const filled = (text: string): string => fill(text, values)
  let body = filled(lie.body ?? truth)
  for (let at = 0; at < edit.length; at += 2) {
    const [from, to] = [filled(edit[at] ?? ''), filled(edit[at + 1] ?? '')]
    if (!body.includes(from)) throw new Error(`${lie.name}: ${from} is not in ${body}`)
    body = body.replace(from, () => to)
  }
  const stamped = Object.entries({ ...head, ...lie.stamps }).flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value}`]
  )
  const fields = [
    first,
    ...(type === null ? [] : [`content-type: ${filled(type)}`]),
    ...stamped,
    ...lines.map(filled),
    ...(lie.framing?.map(filled) ?? [`content-length: ${body.length}`])
  ]
  const whole = filled(lie.before ?? '') + `${fields.join('\r\n')}\r\n\r\n${body}` + filled(lie.after ?? '')
  const bytes = lie.bytes === undefined ? whole : filled(lie.bytes)
  const status = Number(first.split(' ')[1])
  return {
    bytes: (lie.lf === true ? bytes.replaceAll('\r\n', '\n') : bytes).slice(0, lie.cut),
    then,
    everyMs,
    endless: lie.endless === undefined ? undefined : filled(lie.endless),
    status,
    body: status === 204 || status === 304 ? '' : body
  }
}
