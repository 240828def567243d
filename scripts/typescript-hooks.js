import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { printedOf } from './printed.js'

const sandbox = new URL('../sandbox/sandbox.ts', import.meta.url)

/** What is imported as .js is the .ts beside it, where there is one. */
export async function resolve (specifier, context, next) {
  // package.json leads to the compiled node, which a test of its source must not get.
  if (specifier === '#sandbox' && context.parentURL?.endsWith('.ts') === true) {
    return { url: sandbox.href, format: 'module', shortCircuit: true }
  }
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
