import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

interface Breakable {
  readonly promise: string
  readonly of: readonly string[]
  readonly in: string
  readonly caughtBy: readonly string[]
}

const others = [
  'versioned state, table item, view, block by version, block by height, transaction by version, transaction by hash',
  'transaction list, event page, moving read, unknown route, write, memory, disk, Redis, body, head, connections',
  'client rate, bytes in flight, slots, queue, pipelining, JSON depth, dead upstream, 429, 503, slow upstream',
  'truncated response, wrong chain, false position, reset, Redis down, wrong reload, overload, security, client key',
  'account, purge, audit, hanging disk, slow client, streams, waits, log, DNS, upstream requests',
  'changes of chain, replicas, operators'
].flatMap(names => names.split(', '))

const root = join(import.meta.dirname, '..')
const load = async (script: string): Promise<unknown> => await import(pathToFileURL(join(root, 'scripts', script)).href)
const { promises, broken } = await load('promises.js') as {
  promises(): Breakable[],
  broken(source: string, promise: Breakable): string
}
const { suites } = await load('suites.js') as { suites(): { nightly: string[] } }

t.test('each promise can be broken in its file, and names tests of npm test or npm run ci', async t => {
  const { nightly } = suites()
  for (const promise of promises()) {
    const source = readFileSync(join(root, promise.in), 'utf8')
    t.not(broken(source, promise), source, promise.promise)
    t.ok(promise.caughtBy.length > 0, promise.promise)
    for (const file of promise.caughtBy) t.ok(existsSync(join(root, file)) && !nightly.includes(file), file)
  }
})

t.test('there are fifty promises, at least one of each law, read, tier, limit and fault', async t => {
  const all = promises()
  t.ok(all.length >= 50, `${all.length} promises`)
  t.equal(new Set(all.map(({ promise }) => promise)).size, all.length)
  for (const { promise } of all) t.ok(promise.length <= 90, promise)
  const covered = [...new Set(all.flatMap(({ of }) => of))].sort()
  t.same(covered, [...Array.from({ length: 16 }, (_, index) => `law ${index + 1}`), ...others].sort())
})
