import { type Era } from './chain.js'
import { type ReadSpec } from './read-spec.js'
import { type ModelRequest } from './request.js'

/**
 * Returns the cache name of a read: equal for all request variants; by text for a not-found that quotes the key. Blocks
 * go by height. Empty for moving reads.
 */
export function cacheNamesOf ({ index, archive }: Era, read: ReadSpec, { body = '' }: ModelRequest): string[] {
  switch (read.kind) {
    case 'table': {
      if (read.version === undefined) return []
      const [plainest] = read.keys
      // The longest text, since one key's text may contain another's.
      const text = read.keys.filter(key => body.includes(Buffer.from(key).toString('latin1')))
        .sort((a, b) => b.length - a.length)[0]
      // Only a node knows the types of a struct's fields, so other texts of a value have a key of their own.
      const isStruct = plainest?.startsWith('{') === true
      if (isStruct && text === undefined) return []
      const key = isStruct ? JSON.stringify(Object.entries(JSON.parse(text ?? '{}') as object).sort()) : plainest
      const name = [index, 'table', read.form, read.handle, read.keyType, key, read.valueType, read.version].join(' ')
      return [name, `${name} ${text}`]
    }
    case 'modules':
      return read.version === undefined
        ? []
        : [[index, 'modules', read.form, read.account, read.limit, read.cursor, read.version].join(' ')]
    case 'block': {
      if (read.version > archive.head.version) return []
      const isFull = read.transactions === 'true'
      return [[index, 'block', read.form, isFull, archive.blockOf(read.version).height].join(' ')]
    }
    // Names the end of a stream like a full page, though it is never stored as one.
    case 'events':
      return read.start === undefined || read.form === 'bcs'
        ? []
        : [[index, 'events', read.stream, read.start, read.limit ?? 25].join(' ')]
    default:
      return []
  }
}
