import t from 'tap'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { dispatch } from '../../sandbox/serve-request.js'
import { type WriteSetChange } from '../../sandbox/records.js'
import { transactionRecord } from '../../sandbox/transactions.js'

// Covers two epochs and every kind of change; ends before the large blocks.
const ledger = new Ledger({ ...defaultSettings, blocks: 420, prunedBlocks: 0 })
const listed: ReadonlyArray<readonly WriteSetChange[]> = Array.from(
  { length: Number(ledger.head.version) + 1 },
  (_, version) => transactionRecord(ledger, ledger.blockOf(BigInt(version)), BigInt(version)).changes
)

interface Read {
  readonly target: string
  readonly body?: string
  readonly accept?: string
}

/** Status and body of a read at a version, without the version that not-founds quote. */
function answer ({ target, body = '', accept = 'application/json' }: Read, version: number): string {
  const bytes = Buffer.from(body)
  const { status, body: text } = dispatch(
    {
      method: body === '' ? 'GET' : 'POST',
      rawTarget: `${target}?ledger_version=${version}`,
      contentLength: String(bytes.length),
      contentType: 'application/json',
      accept,
      body: bytes,
      requestIndex: 0
    },
    { ledger, position: ledger.position() },
    defaultSettings
  )
  return `${status} ${text.toString('latin1').replace(/Ledger version\(\d+\)/, '')}`
}

const resourceRead = (address: string, type: string): Read => ({
  target: `/v1/accounts/${address}/resource/${encodeURIComponent(type)}`
})
const rawItemRead = (handle: string, key: string): Read => ({
  target: `/v1/tables/${handle}/raw_item`,
  body: JSON.stringify({ key }),
  accept: 'application/x-bcs'
})
const moduleRead = (address: string, name: string): Read => ({ target: `/v1/accounts/${address}/module/${name}` })

/** State as the changes alone show it: by the hash of its key, the changes that last wrote the key. */
type Fold = Map<string, readonly WriteSetChange[]>

function apply (fold: Fold, changes: readonly WriteSetChange[]): void {
  for (const hash of new Set(changes.map(change => change.state_key_hash))) {
    fold.set(hash, changes.filter(change => change.state_key_hash === hash))
  }
}

function foldTo (version: number): Fold {
  const fold: Fold = new Map()
  for (const changes of listed.slice(0, version + 1)) apply(fold, changes)
  return fold
}

/** Returns the reads that differ from the fold at a version. */
function differences (fold: Fold, version: number): string[] {
  const wrong: string[] = []
  const expect = (read: Read, expected: string): void => {
    if (!answer(read, version).startsWith(expected)) wrong.push(`${read.target} ${read.body}`)
  }
  const accounts = new Map<string, string[]>()
  const changes = [...fold.values()].flat()
  for (const change of changes) {
    switch (change.type) {
      case 'write_resource': {
        expect(resourceRead(change.address, change.data.type), `200 ${latin1(change.data)}`)
        accounts.set(change.address, [...accounts.get(change.address) ?? [], change.data.type])
        break
      }
      case 'write_module':
        expect(moduleRead(change.address, moduleName(change)), `200 ${latin1(change.data)}`)
        break
      case 'write_table_item':
        expect(
          rawItemRead(change.handle, change.key),
          `200 ${Buffer.from(change.value.slice(2), 'hex').toString('latin1')}`
        )
        break
      case 'delete_table_item':
        expect(rawItemRead(change.handle, change.key), '404')
        break
      case 'delete_module':
        expect(moduleRead(change.address, String(change.module.split('::').at(-1))), '404')
        break
      case 'delete_resource':
        // The tag may be of a group, which no read names.
        expect(resourceRead(change.address, change.resource), '404')
        accounts.set(change.address, accounts.get(change.address) ?? [])
        break
    }
  }
  // The listings have nothing that no transaction wrote, and no member that was removed from its group.
  for (const [address, types] of accounts) {
    const read = { target: `/v1/accounts/${address}/resources` }
    const found = JSON.parse(Buffer.from(answer(read, version).slice(4), 'latin1').toString()) as Array<
      { type: string }
    >
    if (JSON.stringify(found.map(({ type }) => type).sort()) !== JSON.stringify(types.sort())) wrong.push(read.target)
  }
  return wrong
}

function latin1 (value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('latin1')
}

function moduleName (change: Extract<WriteSetChange, { type: 'write_module' }>): string {
  return String(change.data.abi?.name)
}

t.test('the state at a version is the fold of the changes up to it', async t => {
  const last = listed.length - 1
  for (const version of [0, 1, 7, ...Array.from({ length: 6 }, (_, part) => Math.floor(last * (part + 1) / 6))]) {
    t.same(differences(foldTo(version), version), [], `version ${version}`)
  }
})
