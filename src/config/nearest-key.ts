import { z } from 'zod'
import { closeNameTo } from './nearest-name.js'
import { isNameLike } from './secrets.js'
import { configSchema } from './schema.js'

/** Part of the JSON schema of the configuration. */
export interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly default?: unknown
}

/** Returns the part of the JSON schema at a key; undefined for an unknown one. */
export function shapeAt (path: readonly string[]): Shape | undefined {
  let shape: Shape | undefined = wholeShape()
  for (const key of path) shape = shape?.properties?.[key] ?? shape?.items
  return shape
}

/**
 * Suggests what an unknown key may mean: one of the same map that is spelled alike, or one of that name elsewhere.
 * A key that is no word may be a secret, so nothing is compared with it.
 */
export function nearestKeyOf (key: string, path: readonly string[]): string | undefined {
  if (!isNameLike(key)) return undefined
  const nearby = closeNameTo(key, Object.keys(shapeAt(path)?.properties ?? {}))
  if (nearby !== undefined) return nearby
  const elsewhere = pathsIn(wholeShape()).filter(one => one.at(-1) === key).map(one => one.join('.'))
  return elsewhere.length === 0 ? undefined : elsewhere.join(' or ')
}

function wholeShape (): Shape {
  return z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
}

function pathsIn ({ properties = {}, items }: Shape, above: readonly string[] = []): string[][] {
  const below = Object.entries(properties).flatMap(([key, shape]) => [
    [...above, key],
    ...pathsIn(shape, [...above, key])
  ])
  return items === undefined ? below : [...below, ...pathsIn(items, [...above.slice(0, -1), `${above.at(-1) ?? ''}[]`])]
}
