import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { printedOf } from './printed.js'

/** What is imported as .js is the .ts beside it, where there is one. */
export async function resolve (specifier, context, next) {
  if (/^\.{0,2}\/.*\.js$/.test(specifier) && context.parentURL?.startsWith('file:') === true) {
    const url = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL)
    if (existsSync(url)) return { url: url.href, format: 'module', shortCircuit: true }
  }
  return await next(specifier, context)
}

/** A .ts file as the JavaScript that it was printed to. */
export async function load (url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return await next(url, context)
  return { format: 'module', source: readFileSync(printedOf(fileURLToPath(url)), 'utf8'), shortCircuit: true }
}
