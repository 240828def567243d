import fc from 'fast-check'
import { defaultSetting, type LedgerChange, type FuzzSetting, type FuzzStep, type ReleaseUpgrade } from './fuzz-case.js'
import { mutate, mutation, type Mutation } from './mutate.js'
import { neighbouringResolvedRead, resolveRead, type FuzzProgress, type ResolvedRead } from './resolved-read.js'
import { headerOf, type RawRequest } from './raw-request.js'
import { renderVariant, variantStyle, type VariantStyle } from './render-variant.js'
import { type AbstractRead } from './abstract-read.js'

/** A request before its references are resolved. */
export interface ReadTemplate {
  /** Index of the read in this run. */
  readonly of: number
  /** Variant number of a neighbouring read; undefined for the read itself. */
  readonly neighbour: number | undefined
  readonly style: VariantStyle
  readonly mutations: readonly Mutation[]
  readonly line: 'none' | 'tag' | 'other tag' | 'any tag' | 'least' | 'least behind' | 'least ahead'
  readonly isKeyTurned: boolean
}

/** A step before its references are resolved. */
export type StepTemplate =
  | {
    readonly ask: readonly ReadTemplate[],
    readonly to: number,
    readonly meanwhile?: LedgerChange | ReleaseUpgrade | undefined
  }
  | LedgerChange
  | ReleaseUpgrade
  | { readonly purge: 'all' | number, readonly to: number }
  /** Repeats the last request exactly, to the other varve if there are two. */
  | 'again'

/** Progress of a run, as later requests need it. */
export interface CaseHistory extends FuzzProgress {
  /** First resolution of each read. */
  readonly resolvedReads: Map<number, ResolvedRead>
  /** Last ETag of each target. */
  readonly tags: Map<string, string>
  previous: RawRequest | undefined
  lastStep: Extract<FuzzStep, { ask: unknown }> | undefined
}

const readTemplate: fc.Arbitrary<ReadTemplate> = fc.record({
  of: fc.nat(2),
  neighbour: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(50) }),
  style: variantStyle,
  mutations: fc.oneof({ weight: 10, arbitrary: fc.constant([]) }, { weight: 3, arbitrary: fc.tuple(mutation) }, {
    weight: 1,
    arbitrary: fc.tuple(mutation, mutation)
  }),
  line: fc.oneof({ weight: 9, arbitrary: fc.constant('none' as const) }, {
    weight: 1,
    arbitrary: fc.constantFrom(
      'tag' as const,
      'other tag' as const,
      'any tag' as const,
      'least' as const,
      'least behind' as const,
      'least ahead' as const
    )
  }),
  isKeyTurned: fc.nat(7).map(at => at === 7)
})

const change: fc.Arbitrary<LedgerChange> = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 4 }).map(grow => ({ grow })) },
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 12 }).map(prune => ({ prune })) },
  { weight: 1, arbitrary: fc.constant({ grow: 41 }) },
  // Prunes most of the history, so that cached versions are below the window.
  { weight: 1, arbitrary: fc.constant({ prune: 150 }) }
)

// Index of one of two varves.
const to = fc.nat(1)

/** Any step, mostly requests. */
export const stepTemplate: fc.Arbitrary<StepTemplate> = fc.oneof(
  { weight: 20, arbitrary: fc.record({ ask: fc.array(readTemplate, { minLength: 1, maxLength: 6 }), to }) },
  {
    weight: 2,
    arbitrary: fc.record({
      ask: fc.array(readTemplate, { minLength: 1, maxLength: 6 }),
      to,
      meanwhile: fc.oneof({ weight: 3, arbitrary: change }, {
        weight: 1,
        arbitrary: fc.constant<ReleaseUpgrade>({ release: 'next' })
      })
    })
  },
  { weight: 6, arbitrary: fc.constant<StepTemplate>('again') },
  { weight: 4, arbitrary: change },
  { weight: 1, arbitrary: fc.constant<StepTemplate>({ release: 'next' }) },
  { weight: 1, arbitrary: fc.record({ purge: fc.oneof(fc.constant('all' as const), fc.nat(5), fc.nat(5)), to }) }
)

// Upstream options, mostly the defaults.
const nodeSetting = fc.oneof(
  fc.constant({}),
  fc.record({
    // Puts the limits of doubles and of signed integers inside the window.
    startVersion: fc.constantFrom(
      '0',
      '9007199254739800',
      '9223372036854774600',
      '9223372036854775808',
      '18446744073709547000'
    ),
    blocks: fc.constantFrom(300, 241),
    prunedBlocks: fc.constantFrom(0, 30, 30, 150),
    eventsMax: fc.constantFrom(100, 10),
    modulesPage: fc.constantFrom(9999, 2),
    blockTransactionsMax: fc.constantFrom(10_000, 3),
    prunedEvents: fc.constantFrom(
      'gone410' as const,
      'error500' as const,
      'empty' as const,
      'gaps' as const,
      'kept' as const
    ),
    blockBcs: fc.constantFrom('option' as const, 'bare' as const),
    heldMs: fc.constantFrom(0, 500)
  })
)

const varveSetting = fc.record({
  isShared: fc.boolean(),
  pinsPages: fc.nat(2).map(at => at === 2),
  isObserving: fc.nat(9).map(at => at === 9),
  memoryKb: fc.constantFrom(undefined, undefined, undefined, 20),
  auditShare: fc.constantFrom(0.001, 1)
})

/** Options of an upstream and of the varves in front of it. */
export const fuzzSetting: fc.Arbitrary<FuzzSetting> = fc.tuple(nodeSetting, varveSetting).map((
  [node, { memoryKb, ...varve }]
) => ({ ...defaultSetting, ...node, ...varve, ...(memoryKb !== undefined && { memoryKb }) }))

/** Resolves a step to exact requests. */
export function resolveStep (what: StepTemplate, wishes: readonly AbstractRead[], past: CaseHistory): FuzzStep {
  if (what === 'again') {
    return past.lastStep === undefined
      ? { grow: 1 }
      : { ask: past.lastStep.ask, to: 1 - (past.lastStep.to ?? 0) }
  }
  if ('ask' in what) {
    past.lastStep = {
      ask: what.ask.map(each => sentOf(each, wishes, past)),
      to: what.to,
      ...(what.meanwhile !== undefined && { meanwhile: what.meanwhile })
    }
    return past.lastStep
  }
  if (!('purge' in what)) return what
  const { to } = what
  if (what.purge === 'all') return { purge: 'all', to }
  const { method, target, body } = renderVariant(plainFor(what.purge, wishes, past), {
    address: 0,
    integer: 0,
    tag: 0,
    escape: 0,
    query: 0,
    accept: 0,
    json: 0,
    key: 0,
    isBcs: false,
    isHead: false
  })
  return { purge: { method, url: target, ...(body !== undefined && { body }) }, to }
}

function sentOf (
  { of, neighbour, style, mutations, line, isKeyTurned }: ReadTemplate,
  wishes: readonly AbstractRead[],
  past: CaseHistory
): RawRequest {
  const plain = plainFor(of, wishes, past)
  const meant = neighbour === undefined ? plain : neighbouringResolvedRead(plain, neighbour, past)
  // Changes the type of a key: the same text of another type is another key.
  const turned = isKeyTurned && meant.kind === 'table'
    ? { ...meant, keyType: meant.keyType === 'u64' ? 'u128' : meant.keyType === 'u8' ? 'u16' : 'address' }
    : meant
  const well = renderVariant(turned, style)
  const spoilt = mutations.reduce((sent, each) => mutate(sent, each, past.previous ?? sent), well)
  past.previous = well
  return lined(spoilt, line, past)
}

function plainFor (of: number, wishes: readonly AbstractRead[], past: CaseHistory): ResolvedRead {
  const at = of % wishes.length
  const wish = wishes[at]
  if (wish === undefined) return { kind: 'path', target: '/v1' }
  // Resolves again for the head and for listings, which move; all other reads stay as first resolved.
  if (wish.kind === 'listing' || ('version' in wish && wish.version?.at === 'head')) return resolveRead(wish, past)
  const plain = past.resolvedReads.get(at) ?? resolveRead(wish, past)
  past.resolvedReads.set(at, plain)
  return plain
}

function lined (sent: RawRequest, line: ReadTemplate['line'], { tags, ledger }: CaseHistory): RawRequest {
  const { version } = ledger.head
  const more = (name: string, value: string | undefined): RawRequest =>
    value === undefined || headerOf(sent, name) !== undefined
      ? sent
      : { ...sent, headers: [...sent.headers, [name, value]] }
  switch (line) {
    case 'none':
      return sent
    case 'tag':
      return more('if-none-match', tags.get(sent.target))
    case 'other tag':
      return more('if-none-match', [...tags.values()].slice(-3).join(', ') || undefined)
    case 'any tag':
      return more('if-none-match', '*')
    case 'least':
      return more('x-varve-min-ledger-version', String(version))
    case 'least behind':
      return more('x-varve-min-ledger-version', `0${version - (version < 5n ? version : 5n)}`)
    case 'least ahead':
      return more('x-varve-min-ledger-version', String(version + 1n))
  }
}
