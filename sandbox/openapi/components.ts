import { z } from 'zod'
import { type Piece } from './piece.js'

/** The schemas of a document: each by its name, and how to point at one from anywhere else. */
export interface Schemas {
  readonly named: Readonly<Record<string, Piece>>
  readonly of: (schema: z.ZodType) => Piece | undefined
}

/** Turns schemas into what OpenAPI 3.1 takes, JSON Schema 2020-12, those with a name once. */
export function schemasOf (wanted: Iterable<z.ZodType>): Schemas {
  const all = [...new Set(wanted)]
  // Turned all at once, so that equal names are one.
  const whole = z.toJSONSchema(
    z.strictObject(Object.fromEntries(all.map((schema, index) => [String(index), schema]))),
    {
      override: ({ zodSchema, jsonSchema }) => {
        Object.assign(jsonSchema, discriminatorOf(zodSchema, jsonSchema.oneOf as Piece[] | undefined))
      }
    }
  )
  const { properties, $defs = {} } = pointed(whole)
  return {
    named: Object.fromEntries(Object.entries($defs).sort(([a], [b]) => a < b ? -1 : 1)),
    of: schema => properties[String(all.indexOf(schema))]
  }
}

interface Whole {
  readonly properties: Record<string, Piece>
  readonly $defs?: Record<string, Piece>
}

// Definitions stand elsewhere in a document than in a schema.
function pointed (whole: object): Whole {
  return JSON.parse(JSON.stringify(whole).replaceAll('"#/$defs/', '"#/components/schemas/')) as Whole
}

// Which member tells one kind from another, for the programs that make programs of a document: they know kinds with a
// name alone.
function discriminatorOf (schema: object, kinds: readonly Piece[] = []): Piece | undefined {
  const names = kinds.map(({ $ref }) => $ref)
  if (!(schema instanceof z.ZodDiscriminatedUnion) || names.includes(undefined)) return undefined
  const { discriminator: propertyName } = schema.def
  const mapping = schema.options.flatMap((option, index) =>
    valuesOf(option, propertyName).map(value => [value, names[index]])
  )
  return { discriminator: { propertyName, mapping: Object.fromEntries(mapping) } }
}

// Every kind has a value or some there, or it would be no kind of such a union.
function valuesOf (kind: z.core.$ZodType, name: string): string[] {
  const { propValues } = kind._zod as { readonly propValues: Readonly<Record<string, ReadonlySet<unknown>>> }
  return Array.from(new Set(propValues[name]), String)
}
