import { z } from 'zod'
import { type OpenApiObject } from './openapi-types.js'

/** Schemas of a document by name, with a function that returns the reference to a schema. */
export interface SchemaComponents {
  readonly byName: Readonly<Record<string, OpenApiObject>>
  readonly referenceTo: (schema: z.ZodType) => OpenApiObject | undefined
}

/** Converts schemas to JSON Schema 2020-12, which OpenAPI 3.1 requires; a schema with an id appears once. */
export function convertSchemas (zodSchemas: Iterable<z.ZodType>): SchemaComponents {
  const all = [...new Set(zodSchemas)]
  // Converts all schemas in one call, so that schemas with the same id share one definition.
  const whole = z.toJSONSchema(
    z.strictObject(Object.fromEntries(all.map((schema, index) => [String(index), schema]))),
    {
      override: ({ zodSchema, jsonSchema }) => {
        Object.assign(jsonSchema, discriminatorOf(zodSchema, jsonSchema.oneOf as OpenApiObject[] | undefined))
      }
    }
  )
  const { properties, $defs = {} } = relocateReferences(whole)
  return {
    byName: Object.fromEntries(Object.entries($defs).sort(([a], [b]) => a < b ? -1 : 1)),
    referenceTo: schema => properties[String(all.indexOf(schema))]
  }
}

interface ConvertedSchema {
  readonly properties: Record<string, OpenApiObject>
  readonly $defs?: Record<string, OpenApiObject>
}

// OpenAPI puts definitions under `components/schemas`, JSON Schema under `$defs`.
function relocateReferences (whole: object): ConvertedSchema {
  return JSON.parse(JSON.stringify(whole).replaceAll('"#/$defs/', '"#/components/schemas/')) as ConvertedSchema
}

// Adds the discriminator that code generators need; a mapping requires that every variant is a named schema.
function discriminatorOf (schema: object, kinds: readonly OpenApiObject[] = []): OpenApiObject | undefined {
  const names = kinds.map(({ $ref }) => $ref)
  if (!(schema instanceof z.ZodDiscriminatedUnion) || names.includes(undefined)) return undefined
  const { discriminator: propertyName } = schema.def
  const mapping = schema.options.flatMap((option, index) =>
    valuesOf(option, propertyName).map(value => [value, names[index]])
  )
  return { discriminator: { propertyName, mapping: Object.fromEntries(mapping) } }
}

// Zod requires that each variant of a discriminated union has a literal value for the discriminator.
function valuesOf (kind: z.core.$ZodType, name: string): string[] {
  const { propValues } = kind._zod as { readonly propValues: Readonly<Record<string, ReadonlySet<unknown>>> }
  return Array.from(new Set(propValues[name]), String)
}
