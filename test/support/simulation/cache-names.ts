import { type Era } from './chain.js'
import { type ModelRequest } from './render-request.js'
import { type ReadSpec } from './read-spec.js'

/**
 * Returns the cache name of a read: equal for all request variants; by text for a not-found that quotes the key. Blocks
 * go by height. Undefined for moving reads.
 */
export function cacheNamesOf ({ index, archive }: Era, wish: ReadSpec, { body }: ModelRequest): string[] {
  switch (wish.kind) {
    case 'table': {
      if (wish.version === undefined) return []
      const name = [index, 'table', wish.form, wish.handle, wish.keyType, wish.key, wish.valueType, wish.version].join(
        ' '
      )
      return [name, `${name} ${/"key" ?: ?("[^"]*")/.exec(body ?? '')?.[1]}`]
    }
    case 'modules':
      return wish.version === undefined
        ? []
        : [[index, 'modules', wish.form, wish.account, wish.limit, wish.cursor, wish.version].join(' ')]
    case 'block': {
      if (wish.version > archive.head.version) return []
      return [[index, 'block', wish.form, wish.hasTransactions, archive.blockOf(wish.version).height].join(' ')]
    }
    // Names the end of a stream like a full page, though it is never stored as one.
    case 'events':
      return wish.start === undefined || wish.form === 'bcs'
        ? []
        : [[index, 'events', wish.stream, wish.start, wish.limit ?? 25].join(' ')]
    case 'gas':
    case 'info':
    case 'nonsense':
      return []
  }
}
