import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Folder of the checkout. */
export const checkoutRoot = join(import.meta.dirname, '../../..')

/** Reads a file of the checkout. */
export const readCheckout = (...path: string[]): string => readFileSync(join(checkoutRoot, ...path), 'utf8')
