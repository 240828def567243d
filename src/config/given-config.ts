import { type z } from 'zod'
import { type configSchema } from './schema.js'

/** Configuration that a program gives: the keys of the file, durations and sizes also as texts with a unit. */
export type VarveConfig = WithUnits<z.input<typeof configSchema>>

type UnitKey = 'ms' | `${string}${'Ms' | 'Seconds' | 'Kb' | 'Mb' | 'Gb'}`
type WithUnits<T> = T extends readonly unknown[] ? { readonly [At in keyof T]: WithUnits<T[At]> } :
  T extends object ? { readonly [Key in keyof T]: Key extends UnitKey ? T[Key] | string : WithUnits<T[Key]> } :
  T
