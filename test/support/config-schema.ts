import { z } from 'zod'
import { configSchema } from '../../src/config/schema.js'
import { unitPatternOf } from '../../src/config/units.js'

type Shape = Record<string, unknown> & {
  properties?: Record<string, Shape>,
  items?: Shape,
  anyOf?: Shape[],
  additionalProperties?: Shape | false
}

const reference = { $ref: '#/$defs/reference' }

/** Returns config/varve.schema.json: the schema of a file, described by the comments of config/varve.yaml. */
export function configJsonSchema (meanings: ReadonlyMap<string, string>): object {
  const { $schema, ...shape } = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
  return {
    $schema,
    title: 'Configuration of varve',
    ...described(shape, '', meanings),
    $defs: {
      reference: {
        type: 'string',
        pattern: '\\$\\{',
        // eslint-disable-next-line no-template-curly-in-string
        description: 'a value from the environment, ${NAME}, or from a file, ${file:PATH}'
      }
    }
  }
}

function described (shape: Shape, key: string, meanings: ReadonlyMap<string, string>): Shape {
  const { description: _ofType, ...rest } = shape
  const meaning = meanings.get(key) ?? meanings.get(key.replace(/\[\]\.[A-Za-z]+$/, ''))
  const { properties, items, default: value, ...own } = rest as Shape
  const inner: Shape = {
    ...own,
    ...properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, each]) => [
          name,
          described(each, key === '' ? name : `${key}.${name}`, meanings)
        ])
      )
    },
    ...items !== undefined && { items: described(items, `${key}[]`, meanings) }
  }
  return {
    ...meaning !== undefined && { description: meaning },
    ...value !== undefined && { default: value },
    ...withTexts(inner, key)
  }
}

// A file may give a reference, or a text with a unit, where validation then expects a number.
function withTexts (shape: Shape, key: string): Shape {
  const isCollection = shape.type === 'object' || shape.type === 'array'
  const isAnyText = (one: Shape): boolean =>
    one.type === 'string' && one.pattern === undefined && one.enum === undefined
  if (isCollection || isAnyText(shape) || shape.$ref !== undefined) return shape
  const pattern = unitPatternOf(key.slice(key.lastIndexOf('.') + 1))
  const { anyOf = [shape], ...rest } = shape
  const texts = [...pattern === undefined ? [] : [{ type: 'string', pattern }], reference]
  if (anyOf.some(isAnyText)) return shape
  return { ...shape.anyOf !== undefined && rest, anyOf: [...anyOf, ...texts] }
}
