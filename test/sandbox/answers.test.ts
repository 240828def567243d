import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { startSandboxNode } from '../support/replicas.js'
import { requestNode } from './request-node.js'

/** Requests that a node answers alike; the page says in its head what each member means. */
interface Row {
  readonly why: string
  readonly node?: Omit<SandboxOptions, 'startVersion'> & { readonly startVersion?: string }
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly target?: string
  readonly targets?: readonly string[]
  readonly body?: string
  readonly bodies?: readonly string[]
  readonly each?: readonly string[]
  readonly position?: boolean
  readonly text?: string
  readonly code?: string
  readonly message?: string
  readonly status: number
}

const rows = parse(readFileSync('test/cases/node-answers.yaml', 'utf8')) as readonly Row[]
const nodes = new Map<string, Sandbox>()

t.before(async () => {
  for (const { node = {} } of rows) {
    const key = JSON.stringify(node)
    const { startVersion, ...options } = node
    if (nodes.has(key)) continue
    nodes.set(
      key,
      await startSandboxNode(t, { ...options, ...startVersion && { startVersion: BigInt(startVersion) } })
    )
  }
})

/** Replaces the names of positions, which depend on the chain. */
function placed (text: string, { ledger: { head, oldest } }: Sandbox): string {
  const places: Record<string, bigint> = {
    head: head.version,
    'head+1': head.version + 1n,
    oldest: oldest.version,
    'oldest-1': oldest.version - 1n,
    height: head.blockHeight,
    'height+1': head.blockHeight + 1n,
    'lowest-1': oldest.blockHeight - 1n
  }
  return text.replace(/\{([a-z]+(?:[+-]1)?)\}/g, (whole, name: string) => String(places[name] ?? whole))
}

for (const row of rows) {
  t.test(row.why, async t => {
    const node = nodes.get(JSON.stringify(row.node ?? {})) as Sandbox
    const answers = new Set<string>()
    for (const value of row.each ?? ['']) {
      const { method, headers = {}, ...given } = JSON.parse(
        JSON.stringify(row),
        (_name, item: unknown) => typeof item === 'string' ? placed(item.replaceAll('@@', value), node) : item
      ) as Row
      for (const target of given.targets ?? [String(given.target)]) {
        for (const body of given.bodies ?? [given.body]) {
          const answer = await requestNode(`${node.url}${target}`, {
            method: method ?? (body === undefined ? 'GET' : 'POST'),
            headers,
            ...body !== undefined && { body }
          })
          answers.add(answer.text)
          const what = `${value} ${target} ${body?.slice(0, 200)}`
          t.equal(answer.status, row.status, what)
          if (given.text !== undefined) t.equal(answer.text, given.text, what)
          if (row.code !== undefined) t.match(answer.json, { error_code: row.code, vm_error_code: null }, what)
          if (given.message !== undefined) t.match(answer.json.message, new RegExp(given.message), what)
          if (row.position === true) {
            t.equal(answer.headers['x-aptos-ledger-version'], `${node.ledger.head.version}`, what)
          }
          if (row.position === false) t.same(answer.names, ['content-type', 'content-length', 'date'], what)
        }
      }
    }
    if (row.status === 200) t.equal(answers.size, 1, 'all get the same')
  })
}
