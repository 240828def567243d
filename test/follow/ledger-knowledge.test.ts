import t from 'tap'
import { publishedCode, type StateDigest } from '../../src/api/state-key.js'
import { type KnownTransaction, LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'

/** Keys that one version touches; `all` stands for a transaction that says nothing about its changes. */
type Touches = readonly StateDigest[] | 'all'

const [a, b] = [16n, 32n]
// The code of a chain is a key with a place of its own.
const keys = [a, b, publishedCode]
const subsets: ReadonlyArray<readonly StateDigest[]> = [[a], [b], [publishedCode], [a, b], [a, publishedCode], keys]

function transaction (version: number, touches: Touches): KnownTransaction {
  return touches === 'all'
    ? { version: BigInt(version), root: `${version}`, touched: [], touchesAll: 'unreadable' }
    : { version: BigInt(version), root: `${version}`, touched: touches, touchesAll: undefined }
}

/** Knows the versions from one on to another, with a table of some slots. */
function knowledgeOf (world: readonly Touches[], first: number, last: number, slots: number): LedgerKnowledge {
  const knowledge = new LedgerKnowledge(slots)
  knowledge.begin({ version: BigInt(first), root: `${first}` })
  for (let version = first + 1; version <= last; version++) knowledge.append(transaction(version, world[version] ?? []))
  return knowledge
}

/** Returns true if any transaction after one version, up to another, can change a response. */
function mayDiffer (
  world: readonly Touches[],
  readAt: number,
  at: number,
  dependencies: readonly StateDigest[]
): boolean {
  return world.slice(readAt + 1, at + 1).some(touches =>
    touches === 'all' || dependencies.some(key => touches.includes(key))
  )
}

/** Returns the first claim about a world that brute force denies. */
function falseClaim (world: readonly Touches[], knowledge: LedgerKnowledge): string | undefined {
  const versions = Array.from({ length: world.length + 1 }, (_, version) => version)
  const head = Number(knowledge.head?.version)
  for (const dependencies of subsets) {
    for (const readAt of versions) {
      const since = Number(knowledge.unchangedSince(BigInt(readAt), dependencies))
      if (since > readAt || mayDiffer(world, since, readAt, dependencies)) {
        return `unchanged since ${since} to ${readAt}`
      }
      for (const at of versions) {
        const validity = knowledge.validityAt(BigInt(at), BigInt(readAt), dependencies)
        const isUnchanged = readAt <= at && at <= head && !mayDiffer(world, readAt, at, dependencies)
        if (validity === 'unchanged' && !isUnchanged) return `unchanged from ${readAt} at ${at}`
        if (validity === 'changed' && isUnchanged) return `changed from ${readAt} at ${at}`
      }
    }
  }
  return undefined
}

t.test('in every small world, at every head and with any table, no claim is false', async t => {
  const choices: readonly Touches[] = [[], [a], [b, publishedCode], 'all']
  let worlds = 0
  for (let number = 0; number < choices.length ** 5; number++) {
    const world = [0, 1, 2, 3, 4].map(place => choices[Math.floor(number / choices.length ** place) % 4] ?? [])
    for (const [first, last] of [[0, 4], [0, 2], [1, 4], [3, 3]] as const) {
      for (const slots of [2, 1024]) {
        const claim = falseClaim(world, knowledgeOf(world, first, last, slots))
        if (claim !== undefined) t.fail(claim, { world, first, last, slots })
        worlds++
      }
    }
  }
  t.equal(worlds, 8192)
})

t.test('what was never touched since the beginning is known to be the same', async t => {
  const knowledge = knowledgeOf([[], [], [], [a], [], []], 1, 5, 1024)
  t.equal(knowledge.validityAt(5n, 1n, [b]), 'unchanged')
  t.equal(knowledge.validityAt(5n, 3n, [a]), 'unchanged')
  t.equal(knowledge.validityAt(5n, 2n, [a]), 'changed')
  t.equal(knowledge.validityAt(2n, 1n, [a]), 'unknown', 'an earlier touch may lie before the last one')
  t.equal(knowledge.validityAt(5n, 0n, [b]), 'unknown', 'knowledge begins later')
  t.equal(knowledge.unchangedSince(5n, [b]), 1n)
  t.equal(knowledge.unchangedSince(5n, [a]), 3n)
  t.equal(knowledge.unchangedSince(2n, [a]), 2n)
  t.equal(knowledge.unchangedSince(0n, [b]), 0n)
})

t.test('a transaction that does not follow the head is rejected, as a gap is no knowledge', async t => {
  const knowledge = new LedgerKnowledge(64)
  t.throws(() => {
    knowledge.append(transaction(1, []))
  }, RangeError)
  knowledge.begin({ version: 4n, root: 'x' })
  for (const version of [3, 4, 6]) {
    t.throws(() => {
      knowledge.append(transaction(version, []))
    }, RangeError)
  }
  knowledge.append(transaction(5, [a]))
  t.same(knowledge.head, { version: 5n, root: '5' })
})

t.test('nothing is known before the beginning, after a restart, or above the head', async t => {
  const knowledge = new LedgerKnowledge(64)
  const nothing = (): void => {
    t.equal(knowledge.head, undefined)
    t.equal(knowledge.confirmed, undefined)
    t.equal(knowledge.validityAt(5n, 5n, [a]), 'unknown')
    t.equal(knowledge.unchangedSince(5n, [a]), 5n)
  }
  nothing()
  knowledge.begin({ version: 5n, root: 'x' })
  t.equal(knowledge.validityAt(6n, 5n, [a]), 'unknown')
  t.equal(knowledge.validityAt(5n, 6n, [a]), 'unknown', 'a response from above the head waits until it is followed')
  knowledge.append(transaction(6, [publishedCode]))
  t.equal(knowledge.validityAt(6n, 5n, [publishedCode]), 'changed')
  knowledge.begin({ version: 9n, root: 'x' })
  t.equal(knowledge.validityAt(9n, 5n, [b]), 'unknown')
  t.equal(knowledge.knownFrom, 10n)
  knowledge.clear()
  nothing()
})
